"""`Benchmark`: what the published benchmarks share. A subclass says how one row becomes a question."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from random import Random
from typing import ClassVar

from luthier.errors import InputError
from luthier.question import SPLITS, Question, Split
from luthier.task import Score
from luthier.tasks.sources import Form, Record, read_records
from luthier.tasks.splits import assign, without_copies


class Benchmark(ABC):
    """A task whose questions stand in files or on a hub.

    Rows are read once, at the first call of `questions`. Splits are the source's own where it names
    them, else those of `luthier.tasks.splits.assign`.

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

    def questions(self, split: Split, count: int, seed: int) -> list[Question]:
        """`count` questions drawn without replacement; see `luthier.task.Task`.

        Raises:
            InputError: the source is missing, broken, or has fewer questions in this split.
        """
        if split not in SPLITS:
            raise InputError(
                f"field split: {split!r} is unknown", where=self.name, fix=f"use one of {', '.join(SPLITS)}"
            )
        if self._pools is None:
            self._pools = self._read()
        pool = self._pools[split]
        if not 0 <= count <= len(pool):
            sizes = ", ".join(f"{name} {len(rows)}" for name, rows in self._pools.items())
            raise InputError(
                f"field count: {count} questions of split {split!r} asked for, there are {len(pool)}",
                where=f"{self.name}, {self.source}",
                fix=f"ask for at most that many (the source gives {sizes})",
            )
        return Random(seed).sample(pool, count)

    @abstractmethod
    def score(self, question: Question, answer: str) -> Score:
        """Score one answer; see `luthier.task.Task`."""

    @abstractmethod
    def content(self, record: Record) -> str:
        """What identifies a row when splits are assigned and copies are found.

        Raises:
            InputError: the field is missing.
        """

    @abstractmethod
    def question(self, record: Record, split: Split) -> Question:
        """The question of one row.

        Raises:
            InputError: a field is missing or wrong; file, line and field are named.
        """

    def keep(self, record: Record) -> bool:
        """Whether a row can be asked; rows that are published without an answer cannot."""
        return True

    def records(self) -> Iterable[Record]:
        """The rows of the source."""
        return read_records(self.source, self.form)

    def _read(self) -> dict[Split, list[Question]]:
        records = [record for record in self.records() if self.keep(record)]
        if not records:
            raise InputError(
                "no row has an answer", where=self.source, fix="use a split that is published with its answers"
            )
        available = frozenset(record.split for record in records if record.split is not None)
        questions = []
        for record in records:
            content = self.content(record)
            questions.append((content, self.question(record, assign(content, record.split, available))))
        pools: dict[Split, list[Question]] = {split: [] for split in SPLITS}
        for question in without_copies(questions):
            pools[question.split].append(question)
        return pools
