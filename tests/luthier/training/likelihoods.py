"""Log-probabilities of a text after a prompt, computed without TRL."""

from __future__ import annotations

from typing import Any


def log_probabilities(model: Any, tokenizer: Any, prompt: str, text: str) -> list[float]:
    """One for each token of the text and the end token that follows it."""
    import torch

    before = tokenizer(prompt)["input_ids"]
    ids = [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
    with torch.no_grad():
        found = model(torch.tensor([before + ids])).logits[0].log_softmax(-1)
    return [found[len(before) - 1 + place, token].item() for place, token in enumerate(ids)]
