"""`Benchmark`: what the published benchmarks share. A subclass says how one row becomes a question."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from random import Random
from string import ascii_uppercase
from typing import ClassVar

from luthier.errors import InputError
from luthier.question import SPLITS, Question, Split
from luthier.task import Score, validate
from luthier.tasks.answers import readable
from luthier.tasks.benchmarks.recognition import published_forms
from luthier.tasks.benchmarks.sources import Form, SourceRow, read_records
from luthier.tasks.copies import Row, merge
from luthier.tasks.scoring import judge
from luthier.tasks.splits import assign

_LONGEST_REFERENCE = 1_000
"""Characters; a longer reference is a worked solution, which no plain answer can equal."""
_MOST_UNSOUND = 0.5
"""Share of rows that may fail their own check; beyond it the file is wrong, not the rows."""


class Benchmark(ABC):
    """A task whose questions stand in files or on a hub.

    Rows are read once, at the first call that needs them. Splits are the source's own where it names them, else those
    of `luthier.tasks.splits.assign`. Rows without an answer, questions with contradictory answers and rows whose
    reference fails against itself are left out, copies are merged; `notes` counts them.

    Args:
        source: Local file or folder, or hub id ("owner/name" or "owner/name:config").

    Raises:
        InputError: no source is given.
    """

    name: str
    form: ClassVar[Form]
    example: ClassVar[str]
    """A source to suggest to a user who gave none."""

    def __init__(self, source: str) -> None:
        if not source.strip():
            raise InputError(
                "field source: missing",
                where=self.name,
                fix=f"give a local file or folder, or a hub id ({self.example})",
            )
        self.source = source
        self._pools: dict[Split, list[Question]] | None = None
        self._notes: list[str] = []

    def questions(self, split: Split, count: int, seed: int) -> list[Question]:
        """`count` questions drawn without replacement; see `luthier.task.Task`.

        Raises:
            InputError: the source is missing, broken, another benchmark's, or has fewer questions in this split.
        """
        if split not in SPLITS:
            raise InputError(
                f"field split: {split!r} is unknown", where=self.name, fix=f"use one of {', '.join(SPLITS)}"
            )
        pool = self._read()[split]
        if not 0 <= count <= len(pool):
            sizes = ", ".join(f"{name} {len(rows)}" for name, rows in self._read().items())
            raise InputError(
                f"field count: {count} questions of split {split!r} asked for, there are {len(pool)}",
                where=f"{self.name}, {self.source}",
                fix=f"ask for at most that many (the source gives {sizes})",
            )
        return Random(seed).sample(pool, count)

    def size(self, split: Split) -> int:
        """See `luthier.task.Published`."""
        return len(self._read()[split])

    def notes(self) -> Sequence[str]:
        """See `luthier.task.Published`."""
        self._read()
        return tuple(self._notes)

    def score(self, question: Question, answer: str) -> Score:
        """Score one answer; see `luthier.task.Task`. Thoughts are left out, and what is too long is no answer."""
        return self.judged(question, answer, readable(answer))

    def judged(self, question: Question, answer: str, text: str) -> Score:
        """The score of an answer.

        Args:
            question: What was asked.
            answer: As the model wrote it, for the feedback.
            text: The same as `luthier.tasks.answers.readable` leaves it, for the comparison.
        """
        return judge(self.correct(question, text), answer, question.reference)

    @abstractmethod
    def correct(self, question: Question, text: str) -> bool:
        """Whether a readable text answers a question. Never raises for any text."""

    @abstractmethod
    def content(self, record: SourceRow) -> str:
        """What identifies a row when splits are assigned and copies are found.

        Raises:
            InputError: the field is missing.
        """

    @abstractmethod
    def question(self, record: SourceRow, split: Split) -> Question:
        """The question of one row.

        Raises:
            InputError: a field is missing or wrong; file, line and field are named.
        """

    def keep(self, record: SourceRow) -> bool:
        """Whether a row can be asked; rows that are published without an answer cannot."""
        return True

    def records(self) -> Iterable[SourceRow]:
        """The rows of the source."""
        return read_records(self.source, self.form)

    def agree(self, one: Question, other: Question) -> bool:
        """Whether two rows of one content say the same."""
        if "choices" in one.metadata:
            return _right_option(one) == _right_option(other)
        return self.score(one, other.reference).value == 1.0

    def sound(self, question: Question) -> bool:
        """Whether the reference scores 1 and an empty answer 0."""
        return not validate(self, [question])

    def _read(self) -> dict[Split, list[Question]]:
        if self._pools is None:
            self._pools = self._load()
        return self._pools

    def _load(self) -> dict[Split, list[Question]]:
        records = [record for record in self.records() if self.keep(record)]
        if not records:
            raise InputError(
                "no row has an answer", where=self.source, fix="use a split that is published with its answers"
            )
        available = frozenset(record.split for record in records if record.split is not None)
        rows = []
        for record in records:
            self._check_form(record)
            content = self.content(record)
            question = self.question(record, assign(content, record.split, available))
            self._check_reference(record, question)
            rows.append(Row(content, question, record.where))
        merged = merge(self._sound_rows(rows), self.agree)
        self._notes += merged.notes
        pools: dict[Split, list[Question]] = {split: [] for split in SPLITS}
        for question in merged.questions:
            pools[question.split].append(question)
        return pools

    def _check_form(self, record: SourceRow) -> None:
        forms = published_forms(record.row)
        if forms and self.form.name not in forms:
            raise record.error(
                f"a row of the benchmark {forms[0]}, not of {self.name}", f"choose task {forms[0]}, or another source"
            )

    def _check_reference(self, record: SourceRow, question: Question) -> None:
        if self.form.short_answers and (
            len(question.reference) > _LONGEST_REFERENCE or "\n" in question.reference or "####" in question.reference
        ):
            raise record.error(
                "the answer is a worked solution, which no plain answer can equal",
                "give the final answer alone, or choose the task that this file belongs to",
            )

    def _sound_rows(self, rows: Sequence[Row]) -> list[Row]:
        sound = [row for row in rows if self.sound(row.question)]
        if len(sound) == len(rows):
            return sound
        kept = {id(row) for row in sound}
        first = next(row for row in rows if id(row) not in kept)
        problem = f"{len(rows) - len(sound)} of {len(rows)} rows fail their own check"
        if len(sound) < _MOST_UNSOUND * len(rows):
            raise InputError(
                f"{problem}: the reference {first.question.reference[:80]!r} does not score 1, or an empty answer does",
                where=first.where,
                fix=f"check that this is a file of {self.name}",
            )
        self._notes.append(f"{problem} and are left out, the first is {first.where}")
        return sound


def _right_option(question: Question) -> str:
    choices: Sequence[str] = question.metadata["choices"]
    return choices[ascii_uppercase.index(question.reference.strip("()"))]
