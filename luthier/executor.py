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
    """What an executor makes of one run, before scoring.

    Attributes:
        outcome, answer, error, trace: As of `luthier.execution.Execution`.
        score: In [0, 1], where the run ended in an environment that scores its own end state; the task is then not
            asked. None leaves the scoring to the task.
    """

    outcome: Outcome
    answer: str = ""
    error: str = ""
    trace: tuple[Step, ...] = ()
    score: float | None = None


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
