"""The whole pipeline, from nothing to the report, once on the real embedded model (profile `smoke`)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.faults import kill_and_finish, paid_twice
from benchmarks.workspace import copy_project, digests, environment, repro
from luthier.methods import card, searches

pytestmark = pytest.mark.slow
METHOD = "mas_architect"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy_project(tmp_path_factory.mktemp("pipeline") / "first", profile="smoke")
    done = repro(folder)
    assert done.returncode == 0, (folder / ".cache" / "repro.log").read_text()[-4000:]
    return folder


def test_the_build_ends_in_scores_of_every_contender(built):
    scores = json.loads((built / "data" / "evaluate" / METHOD / "scores.json").read_text())
    untrained = ["target_alone", "best_fixed", "random_graph", "nearest_row", "router"]
    contenders = [*untrained, "sft", "reinforce_1", "reinforce"]
    assert list(scores["test"]) == contenders
    assert set(scores["held_out"]) == set(contenders) - {"random_graph"}
    for standing in scores["test"].values():
        assert sum(standing["outcomes"].values()) == 17
        assert standing["by_family"]
        assert 0.0 <= standing["pooled"]["low"] <= standing["pooled"]["mean"] <= standing["pooled"]["high"] <= 1.0
    assert scores["oracle_over_pool"]["pooled"]["mean"] >= scores["test"]["best_fixed"]["pooled"]["mean"]


def test_the_first_steps_already_lower_the_loss(built):
    curve = json.loads((built / "models" / "sft" / METHOD / "training.json").read_text())["curve"]
    assert len(curve) >= 2
    assert curve[-1]["loss"] < curve[0]["loss"] - 0.5


def test_the_report_is_one_page_with_the_measured_numbers(built):
    page = (built / "reports" / "index.html").read_text()
    metrics = json.loads((built / "reports" / "figures.json").read_text())
    assert "MAS-Architect" in page
    assert METHOD in json.dumps(metrics)


def test_the_comparison_holds_everyone_at_every_budget(built):
    table = json.loads((built / "data" / "compare" / "table.json").read_text())
    everyone = {METHOD, *searches(), "target_alone", "best_fixed", "program"}
    assert [set(methods) for methods in table["budgets"].values()] == [everyone, everyone]
    for methods in table["budgets"].values():
        assert all(methods[name]["spent"] > 0 for name in {METHOD, *searches()})
        assert all(0.0 <= figures["score"] <= 1.0 for figures in methods.values())
    page = (built / "reports" / "comparison.html").read_text()
    assert all(card(name).title in page for name in searches())


def test_a_second_repro_has_nothing_to_do(built):
    log = built / ".cache" / "repro.log"
    before = log.stat().st_size
    assert repro(built).returncode == 0
    assert "up to date" in log.read_bytes()[before:].decode()


def test_the_lineage_reaches_the_questions(built):
    shown = subprocess.run(
        ["luthier", "lineage", f"{METHOD}/reinforce"], cwd=built, env=environment(built), capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    for part in ("reinforce", "sft", "teach", "grid", "questions"):
        assert part in shown.stdout


@pytest.mark.parametrize(("writer", "contender"), [(f"{METHOD}/reinforce", "reinforce"), ("pool", "best_fixed")])
def test_asking_gives_what_the_evaluation_gave(built, writer, contender):
    folder = built / "data" / "evaluate" / METHOD
    best = json.loads((folder / "scores.json").read_text())["best_fixed_configuration"]
    command = ["luthier", "ask", "--file", "data/questions/test.jsonl", "--json", "--with"]
    command.append(f"pool:{best}" if writer == "pool" else writer)
    asked = subprocess.run(command, cwd=built, env=environment(built), capture_output=True, text=True)
    assert asked.returncode == 0, asked.stderr
    evaluated = [json.loads(line) for line in (folder / "executions.jsonl").read_text().splitlines()]
    expected = [
        (row["harness_text"], row["outcome"], row["answer"], row["score"])
        for row in evaluated
        if row["contender"] == contender
    ]
    rows = [json.loads(line) for line in asked.stdout.splitlines()]
    assert [(row["harness"], row["outcome"], row["answer"], row["score"]) for row in rows] == expected
    assert len(rows) == 17


MLFLOW = """
import json, mlflow
from luthier.question import read_questions
from pathlib import Path
mlflow.set_tracking_uri("sqlite:///mlruns/mlflow.db")
texts = [question.text for question in read_questions(Path("data/questions/test.jsonl"))][:3]
answers = mlflow.pyfunc.load_model("models:/mas_architect@champion").predict(texts)
print(answers.to_json(orient="records"))
"""


def test_mlflow_loads_the_champion_of_a_first_build(built):
    done = subprocess.run(
        [sys.executable, "-c", MLFLOW], cwd=built, env=environment(built), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    evaluated = (built / "data" / "evaluate" / METHOD / "executions.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, evaluated) if row["contender"] == "reinforce"][:3]
    answered = json.loads(done.stdout.splitlines()[-1])
    assert [(row["harness"], row["outcome"]) for row in answered] == [
        (row["harness_text"], row["outcome"]) for row in rows
    ]


def test_a_build_under_fire_ends_with_the_same_files_and_pays_nothing_twice(built, tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.faults.WORK", tmp_path)
    killed = kill_and_finish("smoke", kills=3, seconds=90.0, seed=5)
    assert digests(killed) == digests(built)
    assert paid_twice(killed) == 0
