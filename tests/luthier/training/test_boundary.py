"""The embedded tokenizer cuts between prompt and harness, so that training and sampling see the same tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from luthier.harnesses.pool.configurations import pool
from luthier.methods.mas_architect import generator_prompt
from luthier.targets.support.weights import prepare
from luthier.tasks.generated.mixed import MixedSuite

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_prompt_and_harness_are_tokenised_alike_together_and_apart():
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(prepare(ROOT / ".cache").hf)
    texts = [item.harness.text for item in pool() if item.harness is not None]
    questions = MixedSuite().questions("train", 34, 7)
    for number, text in enumerate(texts):
        prompt = generator_prompt(questions[number % len(questions)].text)
        apart = tokenizer(prompt)["input_ids"] + tokenizer(text)["input_ids"]
        assert tokenizer(prompt + text)["input_ids"] == apart
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert tokenizer.eos_token_id != tokenizer.convert_tokens_to_ids("\n")
