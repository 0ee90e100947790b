from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from luthier.errors import InputError
from luthier.execution import Limits
from luthier.executors.prompt import PromptExecutor
from luthier.harnesses import parse
from luthier.question import Question
from luthier.target import Message

Run = Callable[..., Any]


def test_a_prompt_is_one_chat_call(run: Run) -> None:
    result, batches = run("prompt", "Sort the words.", lambda r: " apple, fig, pear ")
    assert (result.outcome, result.answer) == ("ok", "apple, fig, pear")
    assert batches[0][0].prompt == (Message("user", "Sort the words.\n\npear, fig, apple"),)
    assert [(step.node, step.usage.calls) for step in result.trace] == [("prompt", 1)]


def test_options_reach_the_call(run: Run) -> None:
    _, batches = run("prompt", "# raw max_tokens=9 temperature=0.5\nSort: {question} =", lambda r: "x")
    (request,) = batches[0]
    assert (request.prompt, request.max_tokens, request.temperature) == ("Sort: pear, fig, apple =", 9, 0.5)
    assert request.stop == ("\n",)
    assert request.seed > 0


def test_an_empty_answer_is_a_noop(run: Run) -> None:
    assert run("prompt", "Sort.", lambda r: "  ")[0].outcome == "noop"


@pytest.mark.parametrize(("limits", "calls"), [(Limits(calls=0), 0), (Limits(tokens=1), 1)])
def test_limits_end_it_incomplete(run: Run, limits: Limits, calls: int) -> None:
    result, batches = run("prompt", "Sort the words.", lambda r: "a b", limits=limits)
    assert result.outcome == "incomplete"
    assert len(batches) == calls


def test_another_kind_is_refused() -> None:
    row = Question.make(task="toy", text="x", reference="y", split="train")
    with pytest.raises(InputError, match="no prompt"):
        PromptExecutor().start(parse("graph", "answer = copy(question)"), row, Limits(), 0)
