"""`OpenVinoTarget`: the embedded default. OpenVINO GenAI on an F16 GGUF, continuous batching, exact.

What holds, measured on two cores with AVX512-BF16 (SmolLM2-135M, 48 prompts, 24 new tokens):

* With prefix caching off, outputs do not depend on order, repetition or batch size 2-48, greedy and
  sampled. A sequence that decodes *alone* takes another matrix kernel: 2 of 48 greedy and 40 of 48
  sampled outputs changed. So a companion sequence (ours) always decodes beside the requests; with it a
  request's answer depends on the request alone. The companion's tokens are nobody's and are not counted;
  its cost drowned in the noise (64 sequences: 169 new tokens/s without, 168 with; alone: 1.8 s both).
* With prefix caching on (`share_prefixes=True`), outputs may differ: 60 % of random-text prompts did in a
  first measurement, later only some prompts that were asked again as a whole (docs/decisions/002). Off by
  default, and part of the fingerprint. The engine looks for a known beginning only when a sequence is
  added, so one sequence of each beginning is read before the others are added: 48 prompts of 248 tokens
  with one beginning took 4.0 s; added at once 15.1 s, one after the other 17.3 s.
* Sampled calls have their own generator, seeded by their own seed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
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
    leaders,
    one_call,
    shared_seconds,
)
from luthier.targets.support.in_process import InProcessTarget
from luthier.targets.support.watch import ends_when_hung
from luthier.targets.support.weights import digest_of_weights

Precision = Literal["bf16", "f32"]
_STEP_TOKENS = 4096
_COMPANION_TOKENS = 2048
# Not `re.escape`: the engine's grammar warns of escapes that it does not need, such as those of spaces.
_SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()/-]")


@dataclass(frozen=True, slots=True)
class _Output:
    """What the engine made of one sequence: new token ids (or all, echoed), their log-probabilities."""

    ids: list[int]
    logprobs: list[float]
    ended: bool


_Job = tuple[list[int], Any]
"""Prompt token ids and the engine's settings for them."""


class OpenVinoTarget(InProcessTarget):
    """A GGUF model in this process, on the CPU's matrix units.

    Chat messages go through the model's own template, unchanged: where it adds a system message of its
    own (SmolLM2's does when a conversation has none), that is part of the model, and counted; give a
    system message to replace it. Raw prompts get no template and no begin token; an empty one becomes
    the begin token alone. A prompt that leaves no room in the context window is answered with "" and
    finish "length", without reaching the engine. `choices` and `json_schema` constrain the sampler
    through a grammar; for choices `max_tokens` is raised to fit the longest one. In-process calls have
    no timeout and no retries. One thread at a time: others wait.

    Args:
        gguf: F16 GGUF (`weights.prepare(...).gguf`). The engine reads Q4_1 files wrongly.
        name: What the user calls it.
        precision: Compute precision; "f32" is about 2.5 times slower.
        batch: Sequences that advance together at most.
        share_prefixes: Prefix caching; inexact, see the module's text.
        cache_gib: Memory of the key-value cache in GiB.
        device: OpenVINO device name.

    Raises:
        InputError: the file is missing, or the CPU has no bf16 and precision asks for it.
    """

    def __init__(
        self,
        gguf: Path,
        name: str,
        *,
        precision: Precision = "bf16",
        batch: int = 64,
        share_prefixes: bool = False,
        cache_gib: int = 2,
        device: str = "CPU",
    ) -> None:
        from importlib.metadata import version

        super().__init__(name, precision, batch)
        weights = digest_of_weights(gguf)
        facts = [weights, "openvino-genai", version("openvino-genai"), precision, str(share_prefixes), device]
        self.fingerprint = f"openvino-{precision}-{digest_text(' '.join(facts))[:16]}"
        self._gguf, self._precision, self._batch, self._device = gguf, precision, batch, device
        self._share_prefixes, self._cache_gib = share_prefixes, cache_gib
        self._context = 0

    def complete(self, requests: Sequence[Request]) -> list[Completion | Failure]:
        """Answer requests together, equal ones once; same length and order as given.

        Raises:
            InputError: a request without one meaning, or a schema that the engine refuses.
            TargetError: the engine broke.
        """
        with self._lock:
            self._open()
            return complete_once_each(requests, self._serve)

    def choice_logprobs(self, requests: Sequence[Request]) -> list[tuple[float, ...]]:
        """Summed log-probability of each choice's own tokens after the prompt's own tokens.

        Prompt and choice are tokenised apart, so that the border between them is the same for all.

        Raises:
            InputError: a request without choices, or one that does not fit the context window.
            TargetError: the engine broke.
        """
        with self._lock:
            self._open()
            jobs: list[_Job] = []
            tails: list[int] = []
            for request in requests:
                if not request.choices:
                    raise InputError("field choices: empty", fix="give the texts to score")
                prompt = self._prompt_ids(request)
                for choice in request.choices:
                    tail = self._encode(choice)
                    if len(prompt) + len(tail) > self._context:
                        raise InputError(
                            f"field prompt: {len(prompt) + len(tail)} tokens, the context window has {self._context}",
                            fix="shorten the prompt",
                        )
                    jobs.append((prompt + tail, self._settings(echo=True, logprobs=1, max_new_tokens=0)))
                    tails.append(len(tail))
            outputs = [output for group in _groups(jobs) for output in self._run(group, companion=False)]
            sums = [sum(output.logprobs[-tail:]) for output, tail in zip(outputs, tails, strict=True)]
            rows, start = [], 0
            for request in requests:
                rows.append(tuple(sums[start : start + len(request.choices)]))
                start += len(request.choices)
            return rows

    def _open_tokenizer(self) -> None:
        self._open()

    def _open(self) -> None:
        if self._engine is not None:
            return
        import gguf
        import openvino
        import openvino_genai as genai

        capabilities = openvino.Core().get_property(self._device, "OPTIMIZATION_CAPABILITIES")
        if self._precision == "bf16" and "BF16" not in capabilities:
            raise InputError(
                "this processor has no bf16 arithmetic", where="target.precision", fix="set target.precision to f32"
            )
        scheduler = genai.SchedulerConfig()
        scheduler.enable_prefix_caching = self._share_prefixes
        scheduler.max_num_seqs = self._batch + 1
        scheduler.max_num_batched_tokens = _STEP_TOKENS
        scheduler.cache_size = self._cache_gib
        try:
            self._engine = genai.ContinuousBatchingPipeline(
                str(self._gguf), scheduler, self._device, {"INFERENCE_PRECISION_HINT": self._precision}
            )
        except RuntimeError as error:
            raise TargetError(
                f"OpenVINO cannot load the weights ({_short(error)})",
                where=str(self._gguf),
                fix="make the F16 file again (`luthier.targets.support.weights`)",
            ) from error
        self._tokenizer = self._engine.get_tokenizer()
        self._context = int(gguf.GGUFReader(self._gguf).fields["llama.context_length"].contents())

    def _serve(self, requests: list[Request]) -> list[Answer]:
        started = time.perf_counter()
        prompts = [self._prompt_ids(request) for request in requests]
        fits = [index for index, prompt in enumerate(prompts) if len(prompt) < self._context]
        jobs = [
            (prompts[index], self._request_settings(requests[index], self._context - len(prompts[index])))
            for index in fits
        ]
        outputs = self._run(jobs)
        seconds = shared_seconds(time.perf_counter() - started, len(fits))
        answers: list[Answer] = [context_is_full()] * len(requests)
        for index, output in zip(fits, outputs, strict=True):
            text, stopped = cut_at_stop(self._tokenizer.decode(output.ids), requests[index].stop)
            usage = one_call(len(prompts[index]), len(output.ids), seconds)
            finish: Literal["stop", "length"] = "stop" if stopped or output.ended else "length"
            answers[index] = Completion(text, finish, usage, (Attempt(usage),))
        return answers

    def _run(self, jobs: Sequence[_Job], *, companion: bool = True) -> list[_Output]:
        """Advance all sequences until each is done, with the companion beside them unless they only echo.

        The engine misplaces the log-probabilities of echoed prompts that share a step with sequences
        that do not echo; an echoed prompt has two tokens or more, so it never meets the lone kernel.
        """
        import openvino_genai as genai

        done = (genai.GenerationStatus.FINISHED, genai.GenerationStatus.IGNORED)
        if not jobs:
            return []
        try:
            beside = self._add(len(jobs), *self._companion()) if companion else None
            handles = self._add_all(jobs)
            waiting = handles
            while waiting:
                self._step()
                waiting = [handle for handle in waiting if handle.get_status() not in done]
                if waiting and beside is not None and beside.get_status() in done:
                    beside = self._add(len(jobs), *self._companion())
            if beside is not None:
                beside.cancel()
            while self._engine.has_non_finished_requests():
                self._step()
        except RuntimeError as error:
            self.close()
            raise TargetError(
                f"OpenVINO failed ({_short(error)})",
                where=self.name,
                fix="check the JSON schema if one was given; else run again with a smaller target.batch",
            ) from error
        if any(handle.get_status() == genai.GenerationStatus.IGNORED for handle in handles):
            raise TargetError(
                f"a sequence did not fit the key-value cache of {self._cache_gib} GiB",
                where=self.name,
                fix="give the target more cache_gib, or set a smaller target.batch",
            )
        return [_output(handle.read_all()) for handle in handles]

    def _add_all(self, jobs: Sequence[_Job]) -> list[Any]:
        """Handles of all jobs. With shared prefixes one of each beginning is read first: what starts together shares
        nothing, because the engine looks for a beginning only when a sequence is added.
        """
        import openvino_genai as genai

        handles: dict[int, Any] = {}
        for number in leaders([ids for ids, _ in jobs]) if self._share_prefixes else ():
            handles[number] = self._add(number, *jobs[number])
        reading = list(handles.values())
        while reading:
            self._step()
            running = genai.GenerationStatus.RUNNING
            reading = [handle for handle in reading if handle.get_status() == running and not handle.can_read()]
        return [handles.get(number) or self._add(number, *job) for number, job in enumerate(jobs)]

    def _step(self) -> None:
        """One step of the engine, under watch: once in many hours its sampler waits for ever on a lost wake-up."""
        with ends_when_hung():
            self._engine.step()

    def _add(self, number: int, ids: list[int], settings: Any) -> Any:
        import numpy as np
        import openvino

        return self._engine.add_request(number, openvino.Tensor(np.array([ids], dtype=np.int64)), settings)

    def _companion(self) -> _Job:
        length = min(_COMPANION_TOKENS, self._context - 1)
        return [self._begin()], self._settings(max_new_tokens=length, ignore_eos=True)

    def _request_settings(self, request: Request, room: int) -> Any:
        import openvino_genai as genai

        values: dict[str, Any] = {"max_new_tokens": min(request.max_tokens, room)}
        if request.temperature > 0:
            values |= {"do_sample": True, "temperature": request.temperature, "top_p": request.top_p}
            values["rng_seed"] = request.seed % 2**32
        if request.stop:
            # Kept in the output and cut by us, so that the tokens that were computed are counted.
            values |= {"stop_strings": set(request.stop), "include_stop_str_in_output": True}
        if request.choices:
            longest = max(len(self._encode(choice)) for choice in request.choices) + 1
            values["max_new_tokens"] = min(max(request.max_tokens, longest), room)
            pattern = "|".join(_SPECIAL.sub(r"\\\g<0>", choice) for choice in request.choices)
            values["structured_output_config"] = genai.StructuredOutputConfig(regex=f"({pattern})")
        elif request.json_schema:
            values["structured_output_config"] = genai.StructuredOutputConfig(json_schema=request.json_schema)
        return self._settings(**values)

    def _settings(self, **values: Any) -> Any:
        import openvino_genai as genai

        settings = genai.GenerationConfig()
        settings.eos_token_id = self._tokenizer.get_eos_token_id()
        settings.apply_chat_template = False
        for name, value in values.items():
            setattr(settings, name, value)
        return settings

    def _template(self, rows: list[dict[str, str]]) -> str:
        return str(self._tokenizer.apply_chat_template(rows, add_generation_prompt=True))

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).input_ids.data.reshape(-1).tolist()
        return ids

    def _begin(self) -> int:
        return int(self._tokenizer.get_bos_token_id())


def _groups(jobs: Sequence[_Job]) -> list[list[_Job]]:
    """Jobs in order, cut so that a group's prompts fit one engine step (a longer prompt goes alone)."""
    groups: list[list[_Job]] = []
    size = 0
    for job in jobs:
        if not groups or size + len(job[0]) > _STEP_TOKENS:
            groups.append([])
            size = 0
        groups[-1].append(job)
        size += len(job[0])
    return groups


def _output(sequences: Sequence[Any]) -> _Output:
    """The one sequence of a request; none at all means that the model ended at once."""
    import openvino_genai as genai

    if not sequences:
        return _Output([], [], True)
    sequence = sequences[0]
    ended = sequence.finish_reason == genai.GenerationFinishReason.STOP
    return _Output(list(sequence.generated_ids), list(sequence.generated_log_probs), ended)


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[-200:]
