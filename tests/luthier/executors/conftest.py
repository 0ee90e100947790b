"""`run`: drives an executor against a scripted target, one batch at a time, as the real driver does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from luthier.execution import Limits
from luthier.executor import RunResult
from luthier.executors import executor_for
from luthier.harnesses import parse
from luthier.question import Question
from luthier.target import Completion, Request
from luthier.targets.scripted import ScriptedTarget


def _run(
    kind: str,
    text: str,
    answer: Callable[[Request], str] = lambda request: "",
    *,
    asked: str = "pear, fig, apple",
    limits: Limits | None = None,
    seed: int = 0,
) -> tuple[RunResult, list[list[Request]]]:
    question = Question.make(task="toy", text=asked, reference="unused", split="train")
    target = ScriptedTarget(answer)
    running = executor_for(kind).start(parse(kind, text), question, limits or Limits(), seed)
    batches: list[list[Request]] = []
    try:
        requests = next(running)
        while True:
            batches.append(list(requests))
            completions = [c for c in target.complete(requests) if isinstance(c, Completion)]
            assert len(completions) == len(requests)
            requests = running.send(completions)
    except StopIteration as stop:
        return stop.value, batches


@pytest.fixture
def run() -> Callable[..., Any]:
    """(kind, text, answer, asked=, limits=, seed=) -> (RunResult, batches of requests)."""
    return _run
