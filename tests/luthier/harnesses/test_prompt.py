from __future__ import annotations

import pytest

from luthier.errors import HarnessError
from luthier.harness import Harness
from luthier.harnesses import parse
from luthier.harnesses.prompt import PromptHarness


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("Answer briefly. ", "Answer briefly.\n\n{question}"),
        ("Q: {question}\nA:", "Q: {question}\nA:"),
        ("# chat max_tokens=64\nQ: {question}", "Q: {question}"),
        ("#  temperature=1.0   raw max_tokens=032\nQ: {question}", "# raw max_tokens=32 temperature=1\nQ: {question}"),
        ("# chat\n# raw\n{question}", "# chat\n# raw\n{question}"),
        ("# A heading\n{question}", "# A heading\n{question}"),
    ],
)
def test_canonical_text_is_a_fixed_point(text: str, canonical: str) -> None:
    prompt = PromptHarness.parse(text)
    assert prompt.text == canonical
    assert parse("prompt", canonical) == prompt


def test_it_is_a_harness_and_its_digest_is_of_kind_and_text() -> None:
    one, two = PromptHarness.parse("A {question}"), PromptHarness.parse("B {question}")
    assert isinstance(one, Harness)
    assert one.kind == "prompt"
    assert len({one.digest, two.digest, parse("prompt", " A {question}").digest}) == 2


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "syntax"),
        ("# raw", "syntax"),
        ("{question} {question}", "syntax"),
        ("x" * 4001, "too-long"),
        ("# max_tokens=0\nA", "bad-option"),
        ("# max_tokens=many\nA", "bad-option"),
        ("# temperature=2.5\nA", "bad-option"),
        ("# colour=red\nA", "bad-option"),
    ],
)
def test_an_invalid_prompt_is_refused_with_a_fix(text: str, rule: str) -> None:
    with pytest.raises(HarnessError) as caught:
        PromptHarness.parse(text)
    assert caught.value.rule == rule
    assert caught.value.fix
