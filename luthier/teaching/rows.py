"""Candidates that a teacher tried, and the rows that it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from luthier.execution import Execution
from luthier.executors.execute import InvalidHarness
from luthier.harness import Harness
from luthier.question import Question


@dataclass(frozen=True, slots=True)
class TeacherCandidate:
    """A system that the teacher tried on a question.

    Attributes:
        question: The question. harness: Parsed graph, or the broken text.
        source: "pool:<name>", "variation" or "server". execution: What happened.
    """

    question: Question
    harness: Harness | InvalidHarness
    source: str
    execution: Execution


@dataclass(frozen=True, slots=True)
class TeacherRow:
    """One row for supervised fine-tuning, with the candidate that it came from."""

    question: str
    family: str
    prompt: str
    completion: str
    harness: str
    source: str


@dataclass(frozen=True, slots=True)
class TeachLog:
    """How candidates were filtered: one count per step, and the share of the graded ones that were accepted."""

    counts: Mapping[str, int]
    acceptance: float
    by_family: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
