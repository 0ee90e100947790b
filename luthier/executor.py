"""`Executor`: runs a harness on a question. Many executions advance together, so that the engine is busy."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from luthier.execution import Limits, Outcome, Step
from luthier.harness import Harness
from luthier.question import Question
from luthier.target import Completion, Request


@dataclass(frozen=True, slots=True)
class RunResult:
    """What an executor makes of one run, before scoring."""

    outcome: Outcome
    answer: str = ""
    error: str = ""
    trace: tuple[Step, ...] = ()


Run = Generator[Sequence[Request], Sequence[Completion], RunResult]
"""A run in progress: it yields the requests that it needs at once, is sent their completions in the
same order, and returns its result. It never calls a target, never raises for a harness's own fault,
and reads nothing of the question but its text and the corpus that it names (no reference)."""


class Executor(Protocol):
    """Runs one harness kind."""

    kind: str

    @property
    def version(self) -> str:
        """Changes whenever equal harnesses may run differently; part of every execution's key."""
        ...

    def start(self, harness: Harness, question: Question, limits: Limits, seed: int) -> Run:
        """Begin a run. Equal arguments give equal requests."""
        ...
