"""Sampling harness texts from the model that is being trained, many per question, on CPU or GPU.

`transformers.generate` reads the same prompt once per sample and runs the fp32 master weights. Here each
distinct prompt is read once, its key-value cache is copied to its samples, and a bfloat16 copy of the
weights writes the tokens (the copy is refreshed from the master weights before each batch).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luthier.target import Usage
from luthier.training import zero

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Sample:
    """One sampled continuation: its token ids (end token included when it came) and their log-probabilities."""

    prompt_ids: list[int]
    ids: list[int]
    logprobs: list[float]


class Sampler:
    """Draws continuations from a model, repeatably.

    Args:
        model: The master weights; never changed here.
        tokenizer: Its tokenizer; the end token is the tokenizer's.
        max_tokens: Bound of new tokens.
        temperature: Softmax temperature; the stored log-probabilities are those at this temperature.
    """

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, max_tokens: int, temperature: float
    ) -> None:
        import torch

        self._master = model
        writer: Any = copy.deepcopy(model)
        self._writer = writer.to(torch.bfloat16).eval()
        self._writer.requires_grad_(False)
        self._tokenizer: Any = tokenizer
        self._max_tokens, self._temperature = max_tokens, temperature

    def refresh(self) -> None:
        """Copy the master weights into the bfloat16 writer, on the device where they are now.

        The writer is whole in every process, also under ZeRO-3, where all of them refresh together: it must fit
        beside the process's part of the training.
        """
        import torch

        self._writer.to(next(self._master.parameters()).device)
        with torch.no_grad():
            for mine, theirs in zip(self._writer.parameters(), self._master.parameters(), strict=True):
                with zero.whole(theirs) as values:
                    mine.copy_(values)

    def sample(self, prompts: Sequence[str], count: int, seed: int) -> list[list[Sample]]:
        """`count` samples of each distinct prompt.

        Args:
            prompts: P distinct texts, no chat template.
            count: Samples per prompt, G.
            seed: Equal seeds and weights give equal samples.

        Returns:
            P lists of G samples.
        """
        import torch

        generator = torch.Generator().manual_seed(seed)
        encoded = [self._tokenizer(prompt, add_special_tokens=False)["input_ids"] for prompt in prompts]
        with torch.inference_mode():
            rows = self._decode(encoded, count, generator)
        return [[Sample(encoded[p], *rows[p * count + g]) for g in range(count)] for p in range(len(prompts))]

    def most(self, prompts: Sequence[str], count: int) -> Usage:
        """The most that `sample` can cost: every prompt is read once, and no sample ends before its bound."""
        read = sum(len(self._tokenizer(prompt, add_special_tokens=False)["input_ids"]) for prompt in prompts)
        return Usage(len(prompts) * count, read, len(prompts) * count * self._max_tokens)

    def text(self, sample: Sample) -> str:
        """The sampled text without its end token."""
        return str(self._tokenizer.decode(sample.ids, skip_special_tokens=True))

    def _decode(
        self, encoded: list[list[int]], count: int, generator: torch.Generator
    ) -> list[tuple[list[int], list[float]]]:
        import torch

        device = next(self._writer.parameters()).device
        end = self._tokenizer.eos_token_id
        longest = max(map(len, encoded))
        ids = torch.full((len(encoded), longest), end, device=device)  # (P, L), padded on the left
        mask = torch.zeros_like(ids)
        for row, tokens in enumerate(encoded):
            ids[row, longest - len(tokens) :] = torch.tensor(tokens, device=device)
            mask[row, longest - len(tokens) :] = 1
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        out = self._writer(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1)
        cache = out.past_key_values
        cache.batch_repeat_interleave(count)
        logits = out.logits[:, -1].repeat_interleave(count, 0)  # (P*G, V)
        mask = mask.repeat_interleave(count, 0)
        position = positions[:, -1:].repeat_interleave(count, 0)
        total = logits.shape[0]
        texts: list[list[int]] = [[] for _ in range(total)]
        scores: list[list[float]] = [[] for _ in range(total)]
        rows = torch.arange(total, device=device)  # the samples that are still being written
        for step in range(self._max_tokens):
            uniform = torch.rand(total, generator=generator).to(device)[rows]
            token, logprob = draw(logits.float() / self._temperature, uniform)
            for row, value, score in zip(rows.tolist(), token.tolist(), logprob.tolist(), strict=True):
                texts[row].append(value)
                scores[row].append(score)
            going_on = (token != end).nonzero()[:, 0]
            if not len(going_on) or step + 1 == self._max_tokens:
                break
            if len(going_on) < len(rows):
                cache.batch_select_indices(going_on)
                rows, token, mask, position = rows[going_on], token[going_on], mask[going_on], position[going_on]
            mask = torch.cat([mask, mask.new_ones(len(rows), 1)], dim=1)
            position = position + 1
            out = self._writer(
                input_ids=token[:, None],
                attention_mask=mask,
                position_ids=position,
                past_key_values=cache,
                use_cache=True,
            )
            cache, logits = out.past_key_values, out.logits[:, -1]
        return list(zip(texts, scores, strict=True))


def draw(logits: torch.Tensor, uniform: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One token per row from softmax(logits), by inverting the cumulative distribution.

    Args:
        logits: Shape (rows, vocabulary), already divided by the temperature.
        uniform: Shape (rows,), in [0, 1): one number decides a row, whatever the other rows are.

    Returns:
        Token ids and their log-probabilities, each of shape (rows,).
    """
    import torch

    logprobs = logits.log_softmax(-1)
    cumulative = logprobs.exp().cumsum(-1)
    # Scaled by the total, so that rounding never leaves a gap above the last token.
    point = (uniform * cumulative[:, -1])[:, None]
    token = torch.searchsorted(cumulative, point, right=True)[:, 0].clamp(max=logits.shape[-1] - 1)
    return token, logprobs.gather(-1, token[:, None])[:, 0]
