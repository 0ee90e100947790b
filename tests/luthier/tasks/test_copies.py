from __future__ import annotations

import json
from pathlib import Path

from luthier.question import Question, Split
from luthier.tasks import open_task
from luthier.tasks.benchmarks.bbh import BigBenchHard
from luthier.tasks.benchmarks.mmlu import Mmlu
from luthier.tasks.copies import Row, merge


def row(content: str, reference: str, split: Split = "train", where: str = "f:1") -> Row:
    return Row(content, Question.make(task="t", text=content, reference=reference, split=split), where)


def same_reference(one: Question, other: Question) -> bool:
    return one.reference == other.reference


def test_the_most_protected_copy_stays() -> None:
    rows = [row("q", "1", "train"), row("p", "2"), row("q", "1", "test"), row(" q\n", "1", "validation", "f:4")]
    merged = merge(rows, same_reference)
    assert [(q.text, q.split) for q in merged.questions] == [("q", "test"), ("p", "train")]
    assert merged.notes == ("2 copies of questions merged, the first is f:1",)


def test_rows_that_contradict_each_other_are_both_left_out() -> None:
    rows = [row("q", "Yes", where="f:1"), row("p", "2"), row("q", "No", where="f:3"), row("r", "1"), row("r", "2")]
    merged = merge(rows, same_reference)
    assert [q.text for q in merged.questions] == ["p"]
    assert merged.notes == (
        "2 questions left out because their rows contradict each other, the first: 'Yes' and 'No' in f:1 and f:3",
    )


def test_a_benchmark_says_what_it_merged_and_left_out(tmp_path: Path) -> None:
    rows = [("q", "Yes"), ("p", "Yes"), ("q", "No"), ("p", "yes."), ("r", "No")]
    file = tmp_path / "t.json"
    file.write_text(json.dumps({"examples": [{"input": text, "target": target} for text, target in rows]}))
    task = BigBenchHard(str(file))
    texts = {q.text for split in ("train", "validation", "test") for q in task.questions(split, task.size(split), 0)}
    assert texts == {"p", "r"}
    merged, contradicted = task.notes()
    assert merged == f"1 copies of questions merged, the first is {file}, row 4"
    assert contradicted.startswith(
        "1 questions left out because their rows contradict each other, the first: 'Yes' and"
    )


def test_equal_options_in_another_order_are_the_same_answer(tmp_path: Path) -> None:
    (tmp_path / "a_test.csv").write_text("q,w,x,y,z,A\nq,z,y,x,w,D\nr,w,x,y,z,A\nr,w,x,y,z,B\n")
    task = Mmlu(str(tmp_path))
    assert [question.text.split("\n")[0] for question in task.questions("test", task.size("test"), 0)] == ["q"]
    assert len(task.notes()) == 2


def test_real_copies_are_merged_with_their_number(shared_data: Path) -> None:
    task = open_task("bbh", str(shared_data / "bbh" / "sports_understanding.json"))
    assert isinstance(task, BigBenchHard)
    assert [note.split(",")[0] for note in task.notes()] == ["2 copies of questions merged"]
