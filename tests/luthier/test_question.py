"""Question files: what is written is read again, and every broken row is named by line and field."""

from __future__ import annotations

import json
import re

import pytest

from luthier.errors import InputError
from luthier.question import Question, read_questions, write_questions

GOOD = {"task": "toy", "text": "How many?", "reference": "3", "split": "train"}
ODD = 'line\u2028separator, next\u0085line, tab\t, new\nline, quote", \u00e9\U0001f3bb'


def write(path, *rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_what_is_written_is_read_again(tmp_path):
    questions = [
        Question.make(task="toy", text=ODD, reference=ODD, split="test", metadata={"choices": ["a", ODD]}),
        Question.make(task="toy", family="f", text="q", reference="", split="train"),
    ]
    write_questions(tmp_path / "q.jsonl", questions)
    assert read_questions(tmp_path / "q.jsonl") == questions


def test_the_id_is_the_content_without_the_split():
    make = lambda **changes: Question.make(**{**GOOD, **changes}).id  # noqa: E731
    assert make() == make(split="test") == make(family="toy")
    assert len({make(), make(text="x"), make(reference="4"), make(task="other"), make(family="f")}) == 5
    assert re.fullmatch(r"[0-9a-f]{16}", make())


def test_blank_lines_and_windows_line_ends_are_no_rows(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_bytes(b"\r\n" + json.dumps(GOOD).encode() + b"\r\n\r\n")
    assert [question.text for question in read_questions(path)] == ["How many?"]


BROKEN = [
    ("no JSON", "{broken", "2: not a JSON object"),
    ("deep", "[" * 100_000, "2: not a JSON object"),
    ("a list", [1], "2: not a JSON object"),
    ("no text", {k: v for k, v in GOOD.items() if k != "text"}, "2: field text: missing, empty or not a text"),
    ("empty text", GOOD | {"text": "  "}, "2: field text: missing, empty or not a text"),
    ("number", GOOD | {"reference": 3}, '2: field reference: missing, empty or not a text. Fix: add "reference"'),
    ("split", GOOD | {"split": "dev"}, "2: field split: 'dev' is unknown. Fix: use one of train, validation, test"),
    ("family", GOOD | {"family": 3}, "2: field family: not a text"),
    ("metadata", GOOD | {"metadata": [1]}, "2: field metadata: not an object"),
    ("typo", GOOD | {"metdata": {}}, "2: field metdata: unknown. Fix: did you mean 'metadata'?"),
    ("extra", GOOD | {"zzzz": 1}, "2: field zzzz: unknown. Fix: known are id, task"),
    ("id", GOOD | {"id": "0" * 16}, "2: field id: '0000000000000000' does not match the content"),
    ("surrogate", GOOD | {"reference": "\ud800"}, "2: field reference: holds half a character"),
    ("surrogate inside", GOOD | {"metadata": {"a": "\ud800"}}, "2: field metadata: holds half a character"),
]


@pytest.mark.parametrize(("row", "words"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_broken_row_names_file_line_and_field(tmp_path, row, words):
    path = write(tmp_path / "q.jsonl", GOOD | {"text": "another"}, row)
    with pytest.raises(InputError) as caught:
        read_questions(path)
    assert f"{path}:{words}" in str(caught.value)


def test_a_duplicate_names_both_lines(tmp_path):
    path = write(tmp_path / "q.jsonl", GOOD, GOOD | {"text": "other"}, GOOD | {"split": "test"})
    with pytest.raises(InputError, match=r"q.jsonl:3: field id: '\w+' already stands on line 1. Fix: remove one"):
        read_questions(path)


def test_missing_empty_and_binary_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"none.jsonl: cannot read the question file .*Fix: run the stage"):
        read_questions(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match=r"q.jsonl: the question file is empty. Fix: give it at least one row"):
        read_questions(write(tmp_path / "q.jsonl", "", " "))
    (tmp_path / "b.jsonl").write_bytes(b"\xff\x00")
    with pytest.raises(InputError, match="cannot read the question file"):
        read_questions(tmp_path / "b.jsonl")
