"""Questions to whoever writes harnesses: who is found, what is said where there is none, and what comes back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from luthier.ask import ask, questions_in, questions_of
from luthier.context import StageContext
from luthier.errors import InputError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The project's settings in a folder where nothing was built."""
    for name in ("params.yaml", "pipeline.yaml", "profiles"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_questions_come_from_texts_lines_and_rows(tmp_path):
    assert [question.text for question in questions_of(["One? ", "Two?"])] == ["One?", "Two?"]
    lines = tmp_path / "questions.txt"
    lines.write_bytes("\ufeffOne?\n\n  Two?\n".encode())
    assert [question.text for question in questions_in(lines)] == ["One?", "Two?"]
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"task": "mixed", "text": "One?", "reference": "1", "split": "test"}\n')
    assert [(question.text, question.reference) for question in questions_in(rows)] == [("One?", "1")]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: questions_of([]), "there is no question"),
        (lambda folder: questions_of(["One?", " "]), "question 2 is empty"),
        (lambda folder: questions_in(folder / "none.txt"), "cannot read the questions"),
        (lambda folder: questions_in(folder / "empty.txt"), "the file holds no question"),
    ],
)
def test_what_is_no_question_is_refused(tmp_path, make, words):
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(InputError, match=words):
        make(tmp_path)


@pytest.mark.parametrize(
    ("writer", "words"),
    [
        ("", "nothing was trained yet for mas_architect.*make run"),
        ("mas_architect/sft", "no checkpoint 'mas_architect/sft'"),
        ("pool:dirct", "configuration 'dirct' is unknown.*did you mean direct"),
        ("direct", "'direct' is a configuration of the pool.*write pool:direct"),
        ("search:gepa", "there is no search 'gepa'.*dvc repro search"),
    ],
)
def test_a_writer_that_is_not_there_is_named_with_the_way_on(project, writer, words):
    with StageContext("ask", "mas_architect") as context, pytest.raises(InputError, match=words):
        ask(context, writer, questions_of(["One?"]))


def test_a_search_is_found_by_method_and_seed(project):
    for seed in ("17", "18"):
        folder = project / "data" / "search" / "mipro" / seed
        folder.mkdir(parents=True)
        (folder / "program.txt").write_text((ROOT / "luthier/harnesses/pool/programs/single.txt").read_text())
    with StageContext("ask", "mas_architect") as context, pytest.raises(InputError, match="did you mean search:mipro"):
        ask(context, "search:mipro/19", questions_of(["One?"]))


@pytest.mark.slow
def test_the_pool_answers_from_the_shell_and_pays_once(project):
    """Real engine; a list of words in alphabetical order, its last word: only the right tools give it."""
    (project / ".cache").mkdir()
    weights = ROOT / ".cache" / "weights"
    weights.mkdir(parents=True, exist_ok=True)
    (project / ".cache" / "weights").symlink_to(weights)
    question = "Sort these words in ascending order (using ASCII/Unicode ordering): pear, fig, apple"
    command = [sys.executable, "-m", "luthier.cli", "ask", question, "--with", "pool:sort-words"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert "question → [words]" in shown
    assert "trace" in shown
    assert "USD for a thousand such" in shown
    again = subprocess.run([*command, "--json"], env=environment, capture_output=True, text=True, check=True).stdout
    row = json.loads(again)
    assert row["answer"]
    assert f"answer    {row['answer']}" in shown
    assert row["score"] is None  # no reference, so nothing to score
    ledger = subprocess.run(
        [sys.executable, "-m", "luthier.cli", "ledger"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert "use" in ledger
