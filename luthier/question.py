"""`Question`: the frozen row that everything starts from, and its JSON Lines file."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from luthier.errors import InputError
from luthier.files import digest_text, to_json, write_atomically
from luthier.reading import parse_object, read_text

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")


@dataclass(frozen=True, slots=True)
class Question:
    """One question with its reference answer.

    Attributes:
        id: First 16 hex digits of the SHA-256 of task, family, text and reference. The split is left
            out on purpose: the same question in two splits has one id, and is found as a leak.
        task: Name of the task that scores it (key of `luthier.tasks.TASKS`).
        family: Group inside the task for reporting ("word_sorting"); equals `task` when there is one.
        text: What the target may read.
        reference: The reference answer; never shown to a harness or a generator.
        split: train, validation or test.
        metadata: JSON values that scoring needs (choices, permutation, tolerance, tests). `corpus` names the documents
            that the question's tools search. Keys that begin with `_` are for scorers, tests and measurements of
            difficulty alone: no harness, generator or method may read them.
    """

    id: str
    task: str
    family: str
    text: str
    reference: str
    split: Split
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def make(
        cls,
        *,
        task: str,
        text: str,
        reference: str,
        split: Split,
        family: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> Question:
        """Build a question and give it its content id."""
        family = family or task
        content = json.dumps([task, family, text, reference], ensure_ascii=False)
        return cls(
            id=digest_text(content)[:16],
            task=task,
            family=family,
            text=text,
            reference=reference,
            split=split,
            metadata=dict(metadata or {}),
        )

    @property
    def corpus(self) -> str:
        """Reference of the corpus that its tools search (name@digest), empty when it has none."""
        return str(self.metadata.get("corpus", ""))

    def to_row(self) -> dict[str, Any]:
        """The JSON object of this question, keys in declaration order."""
        return asdict(self)


def read_questions(path: Path) -> list[Question]:
    """Read a JSON Lines file of questions.

    Raises:
        InputError: missing, empty or broken file, a missing or wrong field, an id that does not match
            its content, or a duplicate id; the message names file, line and field.
    """
    # Not splitlines: JSON leaves U+2028 and its like unescaped, and they would cut a row in two.
    lines = read_text(path, what="the question file", fix="run the stage that writes it, or correct the path").split(
        "\n"
    )
    questions: list[Question] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        question = _parse_row(line, f"{path}:{number}")
        if question.id in seen:
            raise InputError(
                f"field id: {question.id!r} already stands on line {seen[question.id]}",
                where=f"{path}:{number}",
                fix="remove one of the two rows; a question may be in one split only",
            )
        seen[question.id] = number
        questions.append(question)
    if not questions:
        raise InputError("the question file is empty", where=str(path), fix="give it at least one row")
    return questions


def write_questions(path: Path, questions: Iterable[Question]) -> None:
    """Write questions as JSON Lines, atomically."""
    write_atomically(path, "".join(to_json(question.to_row()) + "\n" for question in questions))


def _parse_row(line: str, where: str) -> Question:
    row = parse_object(line, where=where, fix="write one JSON object a line", strict=True)
    _check_fields(row, where)
    question = Question.make(
        task=row["task"],
        family=row.get("family", ""),
        text=row["text"],
        reference=row["reference"],
        split=row["split"],
        metadata=row.get("metadata", {}),
    )
    if row.get("id", question.id) != question.id:
        raise InputError(
            f"field id: {row['id']!r} does not match the content ({question.id!r})",
            where=where,
            fix="leave the id out, it is computed from the content",
        )
    return question


def _check_fields(row: dict[str, Any], where: str) -> None:
    known = [item.name for item in fields(Question)]
    for name in sorted(set(row) - set(known)):
        near = difflib.get_close_matches(name, known, n=1)
        fix = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}; the rest goes under metadata"
        raise InputError(f"field {name}: unknown", where=where, fix=fix)
    for name in ("task", "text", "reference", "split"):
        if not isinstance(row.get(name), str) or (name != "reference" and not row[name].strip()):
            raise InputError(f"field {name}: missing, empty or not a text", where=where, fix=f'add "{name}": "..."')
    if row["split"] not in SPLITS:
        fix = f"use one of {', '.join(SPLITS)}"
        raise InputError(f"field split: {row['split']!r} is unknown", where=where, fix=fix)
    if not isinstance(row.get("family", ""), str):
        raise InputError("field family: not a text", where=where, fix="write a name or leave it out")
    if not isinstance(row.get("metadata", {}), dict):
        raise InputError("field metadata: not an object", where=where, fix="write a JSON object or leave it out")
