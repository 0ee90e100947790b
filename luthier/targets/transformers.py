"""`TransformersTarget`: a checkpoint folder in this process, on CPU or CUDA. Fallback, and generators in training.

What holds: answers do not depend on the order of the requests given together nor on one another's
seeds; the same list of requests gives the same answers, run after run, on one machine. They may depend
on *which* requests share a batch, since padding and batch size change the last bits of the logits
(bf16 more than f32); use the OpenVINO engine where an answer must depend on its request alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from luthier.errors import InputError, TargetError
from luthier.files import digest_text
from luthier.target import Attempt, Completion, Failure, Request
from luthier.targets.support.batching import (
    Answer,
    complete_once_each,
    context_is_full,
    cut_at_stop,
    one_call,
    shared_seconds,
)
from luthier.targets.support.in_process import InProcessTarget
from luthier.targets.support.weights import digest_of_weights

_TAIL_TOKENS = 32
"""New tokens decoded again at each step to look for a stop string."""


@dataclass(slots=True, eq=False)
class _Row:
    """One sequence of a batch while it grows."""

    request: Request
    prompt: list[int]
    limit: int
    generator: Any
    choices: tuple[tuple[int, ...], ...]
    new: list[int] = field(default_factory=list)
    ended: bool = False


class TransformersTarget(InProcessTarget):
    """A causal language model through transformers, with our own decoding loop.

    The loop is ours because `generate` draws from one global random state: here each sampled call has
    its own generator, so that its seed alone decides. Batches are cut from the requests sorted by
    length, then content. Templates, raw prompts, empty and over-long prompts: as `OpenVinoTarget`.
    `choices` restrict each step to tokens that continue one of the choices; `json_schema` is not
    supported. No timeout and no retries. One thread at a time: others wait.

    Args:
        folder: Checkpoint folder (safetensors, tokenizer with chat template).
        name: What the user calls it.
        precision: Weights and compute.
        batch: Sequences that advance together.
        device: "cpu", "cuda", "cuda:1".

    Raises:
        InputError: the folder is missing, or a CUDA device is named and there is none.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        precision: Literal["bf16", "f32"] = "bf16",
        batch: int = 64,
        device: str = "cpu",
    ) -> None:
        from importlib.metadata import version

        super().__init__(name, precision, batch)
        weights = digest_of_weights(folder)
        engine = f"transformers {version('transformers')} torch {version('torch')}"
        kind = device.split(":")[0]
        self.fingerprint = f"transformers-{precision}-{digest_text(f'{weights} {engine} {precision} {kind}')[:16]}"
        self._folder, self._precision, self._batch, self._device = folder, precision, batch, device

    def complete(self, requests: Sequence[Request]) -> list[Completion | Failure]:
        """Answer requests together, equal ones once; same length and order as given.

        Raises:
            InputError: a request without one meaning, or one with a JSON schema.
            TargetError: the device failed (out of memory).
        """
        for request in requests:
            if request.json_schema:
                raise InputError(
                    "field json_schema: the transformers engine cannot constrain to a schema",
                    fix="use engine openvino or a server",
                )
        with self._lock:
            self._open()
            return complete_once_each(requests, self._serve)

    def choice_logprobs(self, requests: Sequence[Request]) -> list[tuple[float, ...]]:
        """Summed log-probability of each choice's own tokens after the prompt's own tokens.

        Raises:
            InputError: a request without choices, or one that does not fit the context window.
            TargetError: the device failed (out of memory).
        """
        with self._lock:
            self._open()
            jobs: list[tuple[int, int, list[int], int]] = []
            for number, request in enumerate(requests):
                if not request.choices:
                    raise InputError("field choices: empty", fix="give the texts to score")
                prompt = self._prompt_ids(request)
                for place, choice in enumerate(request.choices):
                    tail = self._encode(choice)
                    if len(prompt) + len(tail) > self._context():
                        raise InputError(
                            f"field prompt: {len(prompt) + len(tail)} tokens, the window has {self._context()}",
                            fix="shorten the prompt",
                        )
                    jobs.append((number, place, prompt + tail, len(tail)))
            jobs.sort(key=lambda job: (len(job[2]), job[2], job[3]))
            sums: dict[tuple[int, int], float] = {}
            for start in range(0, len(jobs), self._batch):
                group = jobs[start : start + self._batch]
                scores = self._guarded(self._score, [(ids, tail) for _, _, ids, tail in group])
                sums.update(
                    {(number, place): score for (number, place, _, _), score in zip(group, scores, strict=True)}
                )
            return [
                tuple(sums[number, place] for place in range(len(request.choices)))
                for number, request in enumerate(requests)
            ]

    def _open_tokenizer(self) -> None:
        if self._tokenizer is None:
            from transformers import AutoTokenizer

            self._tokenizer = AutoTokenizer.from_pretrained(self._folder, local_files_only=True)

    def _open(self) -> None:
        self._open_tokenizer()
        if self._engine is not None:
            return
        import torch
        from transformers import AutoModelForCausalLM

        if self._device.startswith("cuda") and not torch.cuda.is_available():
            raise InputError(
                f"device {self._device!r}: torch sees no CUDA device",
                where="target.device",
                fix="install a CUDA build of torch, or set target.device to cpu",
            )
        dtype = torch.bfloat16 if self._precision == "bf16" else torch.float32
        model: Any = AutoModelForCausalLM.from_pretrained(self._folder, dtype=dtype, local_files_only=True)
        self._engine = model.to(self._device).eval()

    def _serve(self, requests: list[Request]) -> list[Answer]:
        answers: list[Answer] = [context_is_full()] * len(requests)
        prompts = [self._prompt_ids(request) for request in requests]
        order = sorted(
            range(len(requests)), key=lambda index: (len(prompts[index]), prompts[index], repr(requests[index]))
        )
        order = [index for index in order if len(prompts[index]) < self._context()]
        for start in range(0, len(order), self._batch):
            group = order[start : start + self._batch]
            rows = [self._row(requests[index], prompts[index]) for index in group]
            started = time.perf_counter()
            self._guarded(self._decode, rows)
            seconds = shared_seconds(time.perf_counter() - started, len(rows))
            for index, row in zip(group, rows, strict=True):
                answers[index] = self._answer(row, seconds)
        return answers

    def _row(self, request: Request, prompt: list[int]) -> _Row:
        import torch

        choices = tuple((*self._encode(choice), self._end()) for choice in request.choices)
        limit = max([request.max_tokens, *(len(choice) for choice in choices)])
        generator = torch.Generator().manual_seed(request.seed % 2**63) if request.temperature > 0 else None
        return _Row(request, prompt, min(limit, self._context() - len(prompt)), generator, choices)

    def _answer(self, row: _Row, seconds: float) -> Completion:
        text, stopped = cut_at_stop(self._tokenizer.decode(row.new, skip_special_tokens=True), row.request.stop)
        usage = one_call(len(row.prompt), len(row.new), seconds)
        return Completion(text, "stop" if stopped or row.ended else "length", usage, (Attempt(usage),))

    def _decode(self, rows: list[_Row]) -> None:
        """Grow all rows until each has ended, met a stop string or reached its limit."""
        import torch

        ids, mask = self._left_padded([row.prompt for row in rows])
        cache = None
        live = list(rows)
        with torch.inference_mode():
            while live:
                positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
                output = self._engine(
                    input_ids=ids,
                    attention_mask=mask,
                    position_ids=positions,
                    past_key_values=cache,
                    use_cache=True,
                    logits_to_keep=1,
                )
                cache = output.past_key_values
                logits = output.logits[:, -1].float().cpu()
                tokens = [
                    self._next(row, scores) if row in live else self._end()
                    for row, scores in zip(rows, logits, strict=True)
                ]
                live = [row for row in live if self._grows(row)]
                ids = torch.tensor(tokens, device=self._device)[:, None]
                mask = torch.cat([mask, torch.ones_like(ids)], dim=1)

    def _next(self, row: _Row, scores: Any) -> int:
        """Choose and append a row's next token; `scores` has shape (vocabulary,)."""
        import torch

        if row.choices:
            at = len(row.new)
            allowed = sorted({choice[at] for choice in row.choices if choice[:at] == tuple(row.new)})
            limited = torch.full_like(scores, -torch.inf)
            limited[allowed] = scores[allowed]
            scores = limited
        if row.generator is None:
            token = int(scores.argmax())
        else:
            token = _sample(scores / row.request.temperature, row.request.top_p, row.generator)
        row.new.append(token)
        return token

    def _grows(self, row: _Row) -> bool:
        row.ended = row.new[-1] == self._end()
        if row.ended or len(row.new) >= row.limit:
            return False
        if not row.request.stop:
            return True
        tail = self._tokenizer.decode(row.new[-_TAIL_TOKENS - max(map(len, row.request.stop)) :])
        return not cut_at_stop(tail, row.request.stop)[1]

    def _score(self, jobs: list[tuple[list[int], int]]) -> list[float]:
        import torch

        ids, mask = self._left_padded([ids for ids, _ in jobs])
        keep = max(tail for _, tail in jobs) + 1
        with torch.inference_mode():
            positions = (mask.cumsum(-1) - 1).clamp(min=0)
            logits = self._engine(
                input_ids=ids, attention_mask=mask, position_ids=positions, logits_to_keep=keep
            ).logits
            logprobs = logits[:, :-1].float().log_softmax(-1)
            targets = ids[:, -logprobs.shape[1] :, None]
            tokens = logprobs.gather(-1, targets)[:, :, 0].cpu()
        return [float(row[-tail:].sum()) for row, (_, tail) in zip(tokens, jobs, strict=True)]

    def _left_padded(self, rows: list[list[int]]) -> tuple[Any, Any]:
        """Token ids and attention mask, both of shape (rows, longest), padding on the left."""
        import torch

        longest = max(len(row) for row in rows)
        ids = [[self._end()] * (longest - len(row)) + row for row in rows]
        mask = [[0] * (longest - len(row)) + [1] * len(row) for row in rows]
        return torch.tensor(ids, device=self._device), torch.tensor(mask, device=self._device)

    def _guarded(self, work: Any, argument: Any) -> Any:
        import torch

        try:
            return work(argument)
        except (torch.OutOfMemoryError, MemoryError) as error:
            raise TargetError(
                f"the device {self._device} ran out of memory", where=self.name, fix="set a smaller target.batch"
            ) from error

    def _template(self, rows: list[dict[str, str]]) -> str:
        return str(self._tokenizer.apply_chat_template(rows, tokenize=False, add_generation_prompt=True))

    def _begin(self) -> int:
        return int(self._tokenizer.bos_token_id or self._end())

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False).input_ids
        return ids

    def _end(self) -> int:
        return int(self._tokenizer.eos_token_id)

    def _context(self) -> int:
        return int(self._engine.config.max_position_embeddings)


def _sample(scores: Any, top_p: float, generator: Any) -> int:
    """Draw from the smallest set of tokens whose probability reaches `top_p`; `scores` (vocabulary,)."""
    import torch

    probabilities, tokens = scores.softmax(-1).sort(descending=True, stable=True)
    probabilities[probabilities.cumsum(-1) - probabilities >= top_p] = 0.0
    return int(tokens[torch.multinomial(probabilities, 1, generator=generator)])
