"""A task of published rows through the stages: what a suite of our own has and it lacks is left out, with a line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from luthier.files import read_rows
from luthier.harnesses.pool.configurations import pool
from luthier.question import read_questions
from stages import evaluate, grid, questions, reinforce, report, sft, teach
from stages.entry import run_stage
from tests.luthier.tasks.conftest import SHARED_DATA
from tests.stages.conftest import ASK, PROFILE

HELD_OUT = PROFILE.replace("test: 17 }", "test: 17, held_out: 3 }")
ROOT = Path(__file__).parents[2]
GENERAL = ["direct", "chain-of-thought", "step-back"]


def run(module) -> int:
    name = module.__name__.rpartition(".")[2]
    per_method = name not in ("questions", "grid", "report")
    extra = ("--method", "mas_architect") if per_method else ()
    return run_stage(name, module.work, extra, per_method=per_method)


def gsm8k(folder: Path, profile: str = HELD_OUT) -> None:
    """Make a project ask for a file of its own in GSM8K's form; two rows in three have the scripted answer."""
    rows = [
        {"question": f"What is {n} minus {n - 2}?", "answer": f"so\n#### {2 if n % 3 else 5}"} for n in range(2, 120)
    ]
    (folder / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "params.yaml").write_text(ASK + f"task: {{ name: gsm8k, source: {folder / 'own.jsonl'} }}\n")
    (folder / "profiles" / "tiny.yaml").write_text(profile)


def test_the_axis_that_a_task_lacks_is_left_out_with_a_line(project, capsys):
    gsm8k(project())
    assert run(questions) == 0
    assert "task gsm8k has no families beyond its splits, so nothing is held out" in capsys.readouterr().out
    assert Path("data/questions/held_out.jsonl").read_text() == ""


def test_the_grid_takes_as_many_general_configurations_and_says_so(project, capsys):
    gsm8k(project())
    assert [run(questions), run(grid)] == [0, 0]
    assert f"these general ones of the pool run instead: {', '.join(GENERAL)}" in capsys.readouterr().out
    rows = list(read_rows(Path("data/grid/executions.jsonl")))
    assert [row["configuration"] for row in rows[:3]] == GENERAL
    assert {row["outcome"] for row in rows} == {"ok"}


def test_configurations_that_suit_any_question_are_taken_as_they_are(project, capsys):
    gsm8k(project(), HELD_OUT.replace("direct, gcd, sort-words", "direct, two-critics"))
    assert [run(questions), run(grid)] == [0, 0]
    assert "run instead" not in capsys.readouterr().out
    assert {row["configuration"] for row in read_rows(Path("data/grid/executions.jsonl"))} == {"direct", "two-critics"}


def test_general_configurations_use_tools_only_to_hand_on_what_agents_wrote():
    general = [item for item in pool() if item.general]
    assert general
    for item in general:
        assert item.harness is not None
        tools = {node.name for node in item.harness.nodes if item.harness.kind_of(node) == "tool"}
        assert tools <= {"copy", "first", "last", "sum"}


def test_the_teacher_sees_all_where_the_profile_names_families_of_another_task(project, capsys):
    gsm8k(project(), HELD_OUT.replace("teach: {", "teach: { families: [gcd, lcm],"))
    assert [run(questions), run(grid), run(teach)] == [0, 0, 0]
    assert "task gsm8k has none of the families in teach.families" in capsys.readouterr().out
    assert list(read_rows(Path("data/teach/mas_architect/rows.jsonl")))


def test_copies_and_contradictions_are_said_when_questions_are_drawn(project, capsys):
    gsm8k(folder := project())
    source = folder / "own.jsonl"
    first, second = (json.loads(line) for line in source.read_text().splitlines()[:2])
    added = [first, {**second, "answer": "#### 77"}]
    source.write_text(source.read_text() + "".join(json.dumps(row) + "\n" for row in added))
    assert run(questions) == 0
    out = capsys.readouterr().out
    assert "questions: 1 copies of questions merged" in out
    assert "questions: 1 questions left out because their rows contradict each other, the first: '5' and '77'" in out


@pytest.mark.slow
def test_the_whole_pipeline_runs_without_held_out_families(project, tiny_base, capsys):
    gsm8k(project(), HELD_OUT.replace("MODEL", str(tiny_base)))
    chain = (questions, grid, teach, sft, reinforce, evaluate, report)
    assert [run(module) for module in chain] == [0] * len(chain), capsys.readouterr().err
    scores = json.loads(Path("data/evaluate/mas_architect/scores.json").read_text())
    assert "held_out" not in scores
    assert sorted(scores["pool"]) == sorted(GENERAL)
    assert {row["harness"] for row in read_rows(Path("data/teach/mas_architect/rows.jsonl"))}
    assert Path("reports/index.html").stat().st_size > 10_000


@pytest.mark.slow
def test_questions_and_grid_of_real_rows_on_the_embedded_target(project, capsys):
    file = SHARED_DATA / "gsm8k" / "part_a.jsonl"
    weights = ROOT / ".cache" / "weights"
    if not file.is_file() or not weights.is_dir():
        pytest.skip("the real benchmark files (shared/data beside the checkout) or the model's weights are absent")
    folder = project()
    smoke = (ROOT / "profiles" / "smoke.yaml").read_text()
    smoke = re.sub(r"configurations: .*", "configurations: [direct, calculate, gcd, lcm]", smoke)
    smoke = re.sub(r"\b(train|validation|test): 17\b", r"\1: 3", smoke)
    (folder / "profiles" / "tiny.yaml").write_text(smoke)
    (folder / "params.yaml").write_text(ASK + f"task: {{ name: gsm8k, source: {file} }}\n")
    (folder / ".cache").mkdir()
    (folder / ".cache" / "weights").symlink_to(weights.resolve())
    assert [run(questions), run(grid)] == [0, 0], capsys.readouterr().err
    rows = list(read_rows(Path("data/grid/executions.jsonl")))
    assert len(rows) == (3 + 3) * 4
    assert {row["outcome"] for row in rows} <= {"ok", "incomplete", "noop"}
    assert sum(row["outcome"] == "ok" for row in rows) > len(rows) // 2
    assert {q.task for q in read_questions(Path("data/questions/test.jsonl"))} == {"gsm8k"}
