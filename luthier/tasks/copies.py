"""Copies of a question: merged when they say the same, left out when they contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from luthier.question import SPLITS, Question


@dataclass(frozen=True, slots=True)
class Row:
    """A question with what identifies it and where it stands."""

    content: str
    question: Question
    where: str


@dataclass(frozen=True, slots=True)
class Merged:
    """What is left of rows.

    Attributes:
        questions: Each content once, in the order of its first row.
        notes: What was merged and left out, one line each.
    """

    questions: tuple[Question, ...]
    notes: tuple[str, ...]


def merge(rows: Sequence[Row], agree: Callable[[Question, Question], bool]) -> Merged:
    """Keep each content once. Contents are compared without regard to spacing.

    A content that stands in several splits stays in the most protected: test is more protected than validation,
    validation more than train. So a training row that is also a test row is dropped, never the other way round.
    A content with answers that differ is left out, because nobody can say which of them is right.

    Args:
        rows: In the order of the source.
        agree: Whether two questions of one content have the same answer.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(" ".join(row.content.split()), []).append(row)
    agreeing = {key: group for key, group in groups.items() if _all_agree(group, agree)}
    contradictory = [group for key, group in groups.items() if key not in agreeing]
    notes = []
    copies = sum(len(group) - 1 for group in agreeing.values())
    if copies:
        first = next(group for group in agreeing.values() if len(group) > 1)
        notes.append(f"{copies} copies of questions merged, the first is {first[1].where}")
    if contradictory:
        first = contradictory[0]
        answers = " and ".join(repr(row.question.reference[:40]) for row in first[:2])
        notes.append(
            f"{len(contradictory)} questions left out because their rows contradict each other, the first:"
            f" {answers} in {first[0].where} and {first[1].where}"
        )
    return Merged(tuple(_most_protected(group) for group in agreeing.values()), tuple(notes))


def _all_agree(group: Sequence[Row], agree: Callable[[Question, Question], bool]) -> bool:
    first = group[0].question
    return all(agree(first, row.question) and agree(row.question, first) for row in group[1:])


def _most_protected(group: Sequence[Row]) -> Question:
    return max((row.question for row in group), key=lambda question: SPLITS.index(question.split))
