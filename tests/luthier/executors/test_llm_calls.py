from __future__ import annotations

from typing import Any

import pytest

from luthier.executors.llm_calls import build_prompt, build_requests, read_answer, show
from luthier.harnesses.graph.implementation import Implementation, Shot
from luthier.target import Message

SHOTS = (Shot((("question", "2+2"),), "4"),)


def test_raw_prompts_end_right_after_the_question() -> None:
    raw = Implementation("x", ("question",), "Q: {question}\nA:", style="raw", role="Add.", shots=SHOTS)
    assert build_prompt(raw, ["3+3"]) == "Add.\n\nQ: 2+2\nA: 4\n\nQ: 3+3\nA:"


def test_chat_prompts_show_examples_as_turns() -> None:
    chat = Implementation("x", ("question",), "Q: {question}", role="Add.", shots=SHOTS)
    assert build_prompt(chat, ["3+3"]) == (
        Message("system", "Add."),
        Message("user", "Q: 2+2"),
        Message("assistant", "4"),
        Message("user", "Q: 3+3"),
    )


def test_braces_inside_values_stay_as_they_are() -> None:
    chat = Implementation("x", ("a", "b"), "{a} {b} {}")
    assert build_prompt(chat, ["{b}", "1"]) == (Message("user", "{b} 1 {}"),)


def test_reasoning_is_asked_for_in_chat() -> None:
    (message,) = build_prompt(Implementation("x", ("q",), "{q}", reasoning="cot"), ["why"])
    assert isinstance(message, Message)
    assert message.content.startswith("why\n")
    assert "step by step" in message.content


def test_requests_carry_every_setting() -> None:
    how = Implementation("x", ("q",), "{q}", stop=("\n",), parse="choice", choices=("a", "b"))
    (request,) = build_requests(how, ["hi"], samples=1, temperature=0, max_tokens=7, seed=3, visit=2)
    assert (request.max_tokens, request.stop, request.choices, request.seed) == (7, ("\n",), ("a", "b"), 0)


def test_lists_in_prompts_are_numbered_lines() -> None:
    assert show(["a\nb", "c"]) == "1. a\nb\n2. c"
    assert show(["a"]) == "a"
    assert show(3) == "3"


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        ("line", "\n first \nsecond", "first"),
        ("line", " ", ""),
        ("text", " first\nsecond ", "first\nsecond"),
        ("number", "3 then 4", "3"),
        ("last_number", "3 then 1,004.0", "1004"),
        ("last_number", "none", ""),
        ("letter", "The answer is (B).", "B"),
        ("letter", "none", ""),
        ("list", "b, a", ["b", "a"]),
        ("list", "", []),
        ("choice", "Correct, I think", "correct"),
        ("json", 'x {"a": [1]} y', {"a": [1]}),
        ("json", "{broken [2]", [2]),
        ("json", '{"a": NaN}', ""),
        ("json", "none", ""),
    ],
)
def test_completions_as_values(parse: str, text: str, value: Any) -> None:
    assert read_answer(Implementation("x", (), "x", parse=parse), text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("check again.", "check again"), ("CHECK", "check"), ("no", ""), ("checked", "check")]
)
def test_the_longest_choice_that_a_text_begins_with(text: str, value: str) -> None:
    how = Implementation("x", (), "x", parse="choice", choices=("check", "check again"))
    assert read_answer(how, text) == value


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        ("line", "First. Answer: 3\nthen\nAnswer: 4", "4"),
        ("line", "So the answer is 12.", "12."),
        ("line", "thinking\nthe last line", "the last line"),
        ("last_number", "3 and 5", "5"),
        ("text", "free text", "free text"),
    ],
)
def test_after_reasoning_only_the_answer_is_read(parse: str, text: str, value: str) -> None:
    assert read_answer(Implementation("x", (), "x", parse=parse, reasoning="cot"), text) == value
