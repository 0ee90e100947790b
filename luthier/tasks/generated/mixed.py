"""The mixed suite: generated questions that a small frozen target answers only with the right harness (ours).

Splits are disjoint twice over: each draws its seeds from a range of its own, and each subject (a question
without its wording) belongs to one split by its content hash, so that two seeds which happen to make the
same question cannot leak it from one split into another, whatever counts and seeds a caller asks for.
"""

from __future__ import annotations

from collections.abc import Sequence

from luthier.errors import InputError
from luthier.question import SPLITS, Question, Split
from luthier.task import Score
from luthier.tasks.answers import readable
from luthier.tasks.generated.families import FAMILIES, HELD_OUT
from luthier.tasks.question_draft import Draft
from luthier.tasks.scoring import judge, same_text
from luthier.tasks.splits import content_split, stable_hash

_RANGE = 1_000_000_000
"""Seeds per split: train [0, 1e9), validation [1e9, 2e9), test [2e9, 3e9)."""
_TRIES = 2_000
"""Seeds tried for one question; small families run out of new subjects, and then say so."""

_ALL = {**FAMILIES, **HELD_OUT}


class MixedSuite:
    """Balanced questions over the families of `luthier.tasks.generated.families.FAMILIES`.

    Args:
        families: Names to keep (default: all); the order of the table holds whatever the order given. Those of
            `luthier.tasks.generated.families.HELD_OUT` come only when they are named.

    Raises:
        InputError: a family is unknown.
    """

    name = "mixed"

    def __init__(self, families: Sequence[str] = ()) -> None:
        unknown = sorted(set(families) - set(_ALL))
        if unknown:
            raise InputError(
                f"field families: {unknown[0]!r} is unknown", where="mixed", fix=f"use some of {', '.join(_ALL)}"
            )
        self.families = tuple(name for name in _ALL if name in (families or FAMILIES))

    def questions(self, split: Split, count: int, seed: int) -> list[Question]:
        """`count` distinct questions, round robin over the families; see `luthier.task.Task`.

        Raises:
            InputError: the split is unknown, the count negative, or a family has no more new questions.
        """
        if split not in SPLITS:
            raise InputError(f"field split: {split!r} is unknown", where="mixed", fix=f"use one of {', '.join(SPLITS)}")
        if count < 0:
            raise InputError(f"field count: {count} is negative", where="mixed", fix="ask for 0 or more questions")
        start = SPLITS.index(split) * _RANGE + stable_hash(f"start:{seed}") % (_RANGE // 2)
        cursors = dict.fromkeys(self.families, start)
        seen: set[str] = set()
        questions: list[Question] = []
        for position in range(count):
            turn, place = divmod(position, len(self.families))
            family = self.families[place]
            cursors[family], draft = self._next(family, split, cursors[family], turn, seen)
            seen |= {draft.text, _subject_key(family, draft)}
            questions.append(
                Question.make(
                    task=self.name,
                    family=family,
                    text=draft.text,
                    reference=draft.reference,
                    split=split,
                    metadata={"kind": _ALL[family].kind},
                )
            )
        return questions

    def held_out(self, count: int, seed: int) -> list[Question]:
        """`count` test questions of families that stand in no split (`luthier.tasks.generated.families.HELD_OUT`)."""
        return MixedSuite(tuple(HELD_OUT)).questions("test", count, seed)

    def score(self, question: Question, answer: str) -> Score:
        """1 for an answer equal to the reference after normalisation, else 0."""
        return judge(same_text(readable(answer), question.reference), answer, question.reference)

    def _next(self, family: str, split: Split, cursor: int, turn: int, seen: set[str]) -> tuple[int, Draft]:
        """The next unused question of a family from seed `cursor` on, and the seed after it."""
        labels = _ALL[family].labels
        for candidate in range(cursor, cursor + _TRIES):
            draft = _ALL[family].draft(candidate)
            if draft is None or split_of(family, draft.subject) != split:
                continue
            if draft.text in seen or _subject_key(family, draft) in seen:
                continue
            if labels and draft.reference != labels[turn % len(labels)]:
                continue
            return candidate + 1, draft
        raise InputError(
            f"family {family!r} gives no new question of split {split!r} within {_TRIES} seeds",
            where="mixed",
            fix="ask for fewer questions or for more families",
        )


def split_of(family: str, subject: str) -> Split:
    """The split that a subject belongs to, by its content alone."""
    return content_split(f"{family}\n{subject}")


def _subject_key(family: str, draft: Draft) -> str:
    return f"{family}\n{draft.subject}"
