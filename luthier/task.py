"""`Task`: where questions come from and how an answer is scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from luthier.question import Question, Split


@dataclass(frozen=True, slots=True)
class Score:
    """What a task says of one answer.

    Attributes:
        value: In [0, 1].
        feedback: One sentence for searches that read text; may name the reference (training splits only).
    """

    value: float
    feedback: str = ""


class Task(Protocol):
    """A family of questions with one scorer. Spends no tokens."""

    name: str

    def questions(self, split: Split, count: int, seed: int) -> list[Question]:
        """`count` questions of a split; the same arguments give the same rows.

        Raises:
            InputError: the source is missing or too small for `count`.
        """
        ...

    def score(self, question: Question, answer: str) -> Score:
        """Score one answer. Never raises for any answer text."""
        ...


@runtime_checkable
class HoldsOut(Protocol):
    """A task with families that stand in no split, for generalisation to what nobody trained or chose on."""

    def held_out(self, count: int, seed: int) -> list[Question]:
        """`count` test questions of these families; the same arguments give the same rows."""
        ...


@runtime_checkable
class Published(Protocol):
    """A task whose questions are published rows, in files or on a hub, and as many as there are."""

    def size(self, split: Split) -> int:
        """How many questions a split has."""
        ...

    def notes(self) -> Sequence[str]:
        """What was done with the rows that are no questions: copies merged, rows left out; one line each."""
        ...


@dataclass(frozen=True, slots=True)
class ValidationProblem:
    """A question whose reference or empty answer is scored wrongly."""

    question: Question
    problem: str


def validate(task: Task, questions: Sequence[Question]) -> list[ValidationProblem]:
    """Prove that each reference scores 1 and that an empty answer scores 0."""
    problems: list[ValidationProblem] = []
    for question in questions:
        reference = task.score(question, question.reference).value
        if reference != 1.0:
            problems.append(ValidationProblem(question, f"the reference scores {reference:g}, not 1"))
        empty = task.score(question, "").value
        if empty != 0.0:
            problems.append(ValidationProblem(question, f"an empty answer scores {empty:g}, not 0"))
    return problems
