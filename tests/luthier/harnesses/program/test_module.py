from __future__ import annotations

from typing import Any

import pytest

from luthier.errors import HarnessError
from luthier.executors.llm_calls import build_prompt
from luthier.harnesses.program.module import Module, check_module, implementation_of, label
from luthier.target import Message

ADD = Module("add", ("question",), ("answer",), "Add the numbers.", demos=({"question": "1 and 1", "answer": "2"},))
JUDGE = Module(
    "judge",
    ("question", "first_draft"),
    ("verdict", "why"),
    "Judge the draft.",
    demos=({"question": "1+1", "first_draft": "3", "verdict": "wrong", "why": "It is 2."},),
    descriptions={"first_draft": "what somebody wrote", "verdict": "right or wrong"},
)


def prompt(module: Module, *inputs: str) -> str | tuple[Message, ...]:
    return build_prompt(implementation_of(check_module(module)), inputs)


def test_a_chat_module_with_one_output() -> None:
    assert prompt(ADD, "2 and 3") == (
        Message("system", "Add the numbers."),
        Message("user", "Question: 1 and 1\nAnswer:"),
        Message("assistant", "2"),
        Message("user", "Question: 2 and 3\nAnswer:"),
    )


def test_a_raw_module_with_one_output_stops_at_the_line() -> None:
    raw = Module("add", ADD.inputs, ADD.outputs, ADD.instruction, ADD.demos, style="raw")
    expected = "Add the numbers.\n\nQuestion: 1 and 1\nAnswer: 2\n\nQuestion: 2 and 3\nAnswer:"
    assert prompt(raw, "2 and 3") == expected
    assert implementation_of(raw).stop == ("\n",)


def test_a_chat_module_with_several_outputs_says_what_is_wanted() -> None:
    assert prompt(JUDGE, "2+2", "4") == (
        Message(
            "system",
            "Judge the draft.\n\nGiven:\nFirst Draft: what somebody wrote\n\n"
            "Wanted, each on a line that begins with its name:\nVerdict: right or wrong\nWhy: ...",
        ),
        Message("user", "Question: 1+1\nFirst Draft: 3"),
        Message("assistant", "Verdict: wrong\nWhy: It is 2."),
        Message("user", "Question: 2+2\nFirst Draft: 4"),
    )


def test_a_raw_module_with_several_outputs_goes_on_after_the_first_label() -> None:
    raw = Module("judge", ("question",), ("verdict", "why"), "", ({"question": "a", "verdict": "b", "why": "c"},),
                 style="raw")  # fmt: skip
    expected = (
        "Wanted, each on a line that begins with its name:\nVerdict: ...\nWhy: ...\n\n"
        "Question: a\nVerdict: b\nWhy: c\n\nQuestion: x\nVerdict:"
    )
    assert prompt(raw, "x") == expected
    assert implementation_of(raw).stop == ("\n\n",)


def test_without_instruction_and_demonstrations_the_inputs_are_all() -> None:
    assert prompt(Module("f", ("question",), ("answer",)), "x") == (Message("user", "Question: x\nAnswer:"),)


def test_braces_in_texts_and_inputs_are_only_texts() -> None:
    module = Module("f", ("question",), ("answer",), "Keep {question}.", ({"question": "{answer}", "answer": "{x}"},))
    assert prompt(module, "{question}") == (
        Message("system", "Keep {question}."),
        Message("user", "Question: {answer}\nAnswer:"),
        Message("assistant", "{x}"),
        Message("user", "Question: {question}\nAnswer:"),
    )


@pytest.mark.parametrize(
    ("name", "words"), [("answer", "Answer"), ("final_answer", "Final Answer"), ("SQL_query", "SQL Query")]
)
def test_labels(name: str, words: str) -> None:
    assert label(name) == words


def test_texts_are_tidied() -> None:
    module = check_module(Module("f", ("q",), ("a",), "  Do it. \n now ", ({"a": " 1 ", "q": "x\n"},), {"a": " "}))
    assert (module.instruction, module.demos, module.descriptions) == ("Do it.\n now", ({"q": "x", "a": "1"},), {})


@pytest.mark.parametrize(
    ("change", "rule", "word"),
    [
        ({"name": "1x"}, "bad-signature", "no name"),
        ({"name": "sort"}, "name-clash", "already a tool"),
        ({"name": "vote"}, "name-clash", "already a tool"),
        ({"name": "state"}, "name-clash", "word of the language"),
        ({"inputs": ()}, "bad-signature", "0 names"),
        ({"outputs": ()}, "bad-signature", "0 names"),
        ({"inputs": ("a b",)}, "bad-signature", "no name"),
        ({"inputs": ("answer",)}, "bad-signature", "same label"),
        ({"outputs": ("an_x", "An_X")}, "bad-signature", "same label"),
        ({"style": "loud"}, "bad-option", "unknown"),
        ({"max_tokens": 0}, "bad-option", "whole number"),
        ({"max_tokens": 5000}, "bad-option", "whole number"),
        ({"temperature": 2.5}, "bad-option", "from 0 to 2"),
        ({"temperature": float("nan")}, "bad-option", "from 0 to 2"),
        ({"descriptions": {"colour": "x"}}, "bad-option", "no field"),
        ({"instruction": 3}, "bad-option", "not a text"),
        ({"instruction": "\ud800"}, "syntax", "half a character"),
        ({"demos": ({"question": "x"},)}, "bad-demo", "demonstration 1 lacks answer"),
        ({"demos": ({"question": "x", "answer": "y", "z": ""},)}, "bad-demo", "demonstration 1 has z"),
        ({"demos": ({"question": "x", "answer": 5},)}, "bad-demo", "not a text"),
        ({"demos": ({"question": "x", "answer": "y"},) * 33}, "bad-demo", "at most 32"),
    ],
)
def test_an_invalid_module_is_refused_with_its_field_and_a_fix(change: dict[str, Any], rule: str, word: str) -> None:
    values: dict[str, Any] = {"name": "add", "inputs": ("question",), "outputs": ("answer",), **change}
    with pytest.raises(HarnessError, match=word) as caught:
        check_module(Module(**values))
    assert caught.value.rule == rule
    assert caught.value.field.startswith("module ")
    assert caught.value.fix
