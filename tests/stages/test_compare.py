"""The stage `compare` on replicas worked by hand and on real searches: who stands under a budget, and its figures."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from luthier.evaluation.compare import compare as contest
from luthier.evaluation.method_run import read_contenders
from luthier.harnesses.pool.task_programs import program_for
from luthier.report.comparison.summary import table
from stages import compare, search
from stages.entry import run_stage
from tests.stages.replica_files import CALLS, GENERATOR_USE, METHOD, SEEDS, TARGET_USE, TOKENS, write_replicas
from tests.stages.search_world import SEARCH_ASK, budgets, result

ASK = SEARCH_ASK.replace("bootstrap, mipro, textgrad, optoprime, gepa", "gepa")
LIMITS = (20, 26, 60)
"""Between the first two checkpoints, exactly at the second, beyond the last."""


def profile(*limits: float, more: str = "") -> str:
    return budgets(*limits).replace("seeds: [17]", f"seeds: [17, 18]{more}")


@pytest.fixture
def compared(begin):
    """A function (limits=, more=): makes a project with replicas and a finished search of two seeds."""

    def make(*limits: float, more: str = "") -> Path:
        folder = begin(ask=ASK, profile=profile(*(limits or LIMITS), more=more))
        write_replicas(folder)
        assert run_stage("search", search.work, ["--method", "gepa"], per_method=True, searches=True) == 0
        return folder

    return make


def run(*arguments: str) -> int:
    return run_stage("compare", compare.work, arguments)


def message(capsys) -> str:
    """What the stage that must fail says, in one line."""
    assert run() == 1
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    return said[0]


def mean(*values: float) -> float:
    return sum(values) / len(values)


def test_the_table_holds_the_means_that_were_worked_by_hand(compared, capsys):
    compared()
    assert run() == 0
    said = json.loads(Path("data/compare/table.json").read_text())
    assert said["unit"] == "tokens"
    assert list(said["budgets"]) == ["1: 20 calls", "2: 26 calls", "3: 60 calls"]
    hand = {
        "1: 20 calls": ("sft", (2 + 1) / 16, 0.0),
        "2: 26 calls": ("reinforce_1", (3 + 4) / 16, 1 / 4),
        "3: 60 calls": ("reinforce", (4 + 6) / 16, 0.0),
    }
    use = sum(u.prompt_tokens + u.completion_tokens for u in (TARGET_USE, GENERATOR_USE))
    for number, (name, (stage, score, unseen)) in enumerate(hand.items()):
        methods = said["budgets"][name]
        assert sorted(methods) == ["best_fixed", "gepa", METHOD, "program", "target_alone"]
        learned, searched = methods[METHOD], methods["gepa"]
        assert (learned["score"], learned["unseen_families"]) == pytest.approx((score, unseen))
        assert (learned["seeds"], learned["per_use"]) == (2, use)
        assert learned["spent"] == mean(TOKENS[stage], 2 * TOKENS[stage])
        assert methods["target_alone"]["score"] == pytest.approx(1 / 8)
        assert methods["best_fixed"]["score"] == pytest.approx(2 / 8)
        assert searched["score"] == pytest.approx(2 / 8), "a target that always says gcd is right on one family"
        stands = [result("gepa", seed)["stands"][number]["spent"] for seed in SEEDS]
        assert searched["spent"] == mean(*(s["prompt_tokens"] + s["completion_tokens"] for s in stands))
        assert learned["low"] <= learned["score"] <= learned["high"]
    assert "2 seeds, not a headline" in said["warnings"][0]
    out = capsys.readouterr().out
    assert "mixed, budget 3: 60 calls, 8 questions, in tokens" in out
    assert "1: 20 calls" in compare.PAGE.read_text()


def test_who_stands_under_a_budget_was_paid_by_it(compared):
    compared()
    assert run() == 0
    runs = read_contenders(Path("data/compare/contenders"))
    moving = [item for item in runs if item.kind != "fixed"]
    assert sorted((item.method, item.seed, item.budget.limit) for item in moving) == sorted(
        (method, seed, limit) for method in ("gepa", METHOD) for seed in SEEDS for limit in LIMITS
    )
    assert sorted((item.method, item.budget) for item in runs if item.kind == "fixed") == [
        ("best_fixed", None),
        ("program", None),
        ("target_alone", None),
    ]
    stages = dict(zip(LIMITS, CALLS, strict=True))
    for item in moving:
        assert 0 < item.before_use.calls <= item.budget.limit
        assert all(point.spent.calls <= item.budget.limit for point in item.curve)
        if item.kind == "learned":
            assert item.before_use.calls == CALLS[stages[item.budget.limit]]
            assert [point.stage for point in item.curve] == list(CALLS)[: len(item.curve)]
            assert item.curve[-1].stage == stages[item.budget.limit]
            assert item.trained_before_use.calls == 4
        else:
            stand = next(s for s in result("gepa", item.seed)["stands"] if s["budget"] == item.budget.limit)
            assert {trial.harness for trial in item.trials} == {stand["program"]}
            assert asdict(item.before_use) == stand["spent"] | {"seconds": None}
        assert [trial.held_out for trial in item.trials] == [False] * 6 + [True] * 2
    assert {item.scope for item in moving} == {compare.SCOPE}
    program = next(item for item in runs if item.method == "program")
    assert {trial.harness for trial in program.trials} == {program_for("mixed").text}


def test_a_second_comparison_pays_nothing_and_finds_the_same(compared):
    compared()
    assert run() == 0
    first = Path("data/compare/table.json").read_bytes(), compare.PAGE.read_bytes()
    assert run() == 0
    assert (Path("data/compare/table.json").read_bytes(), compare.PAGE.read_bytes()) == first


def test_the_files_of_the_contenders_give_the_table_again(compared):
    compared()
    assert run() == 0
    again = contest(read_contenders(Path("data/compare/contenders")), "target_alone", unit="tokens", resamples=200)
    assert table(again) == json.loads(Path("data/compare/table.json").read_text())


def test_a_second_target_runs_the_same_texts_of_the_largest_budget(compared):
    compared(more=", second_target: { engine: scripted, model: lcm }")
    assert run() == 0
    runs = read_contenders(Path("data/compare/contenders"))
    away = [item for item in runs if item.target != item.home]
    assert sorted((item.method, item.seed, item.budget.limit) for item in away if item.kind != "fixed") == [
        (method, seed, 60) for method in ("gepa", METHOD) for seed in SEEDS
    ]
    assert [item.method for item in away if item.kind == "fixed"] == ["program"]
    for item in away:
        twin = next(
            r
            for r in runs
            if r.target == r.home and (r.method, r.seed, r.budget) == (item.method, item.seed, item.budget)
        )
        assert [trial.harness for trial in item.trials] == [trial.harness for trial in twin.trials]
        assert sum(trial.execution.score for trial in item.trials) == 2, "gcd by tool there, lcm by what it says"
    learned = next(item for item in away if item.method == METHOD)
    assert [trial.execution.outcome for trial in learned.trials][-1] == "invalid", "a text that parses nowhere scores 0"


def test_a_dry_run_writes_nothing(begin, capsys):
    begin(ask=ASK, profile=profile(*LIMITS))
    assert run("--dry-run") == 0
    assert capsys.readouterr().out == "compare: mas_architect, gepa; seeds 17, 18; budgets 20, 26, 60 calls\n"
    assert not compare.OUT.exists()


# --- bad input -------------------------------------------------------------------------------------------------


def test_no_budget_is_refused(begin, capsys):
    begin(ask=ASK, profile=profile())
    assert "profiles/tiny.yaml: field compare.budgets: empty, so there is no equal total budget" in message(capsys)


def test_a_budget_that_pays_for_no_checkpoint_is_named_with_what_the_first_takes(begin, capsys):
    folder = begin(ask=ASK, profile=profile(15, 60))
    write_replicas(folder)
    words = (
        "field compare.budgets: 15 calls pays for no checkpoint of mas_architect with seed 17, the first one takes 16"
    )
    assert f"profiles/tiny.yaml: {words}. Fix: raise the budget" in message(capsys)
    assert not compare.OUT.exists()


def test_a_budget_that_pays_for_no_step_of_a_search_is_named(compared, capsys):
    compared(17)
    capsys.readouterr()
    words = "field compare.budgets: 17 calls pays for no step of gepa with seed 17. Fix: raise the budget"
    assert f"profiles/tiny.yaml: {words}" in message(capsys)


def test_a_search_under_other_budgets_is_not_taken_for_one_under_these(compared, capsys):
    folder = compared(20, 60)
    for limits in ((26, 60), (20,), (20, 60, 70)):
        (folder / "profiles" / "tiny.yaml").write_text(profile(*limits))
        capsys.readouterr()
        said = message(capsys)
        assert "data/search/gepa/17/result.json: field stands: searched under [20.0, 60.0] calls" in said
        assert "Fix: run `dvc repro search@gepa`" in said


@pytest.mark.parametrize("name", ["executions.jsonl", "held_out.jsonl", "scores.json", "spending.json"])
def test_a_missing_replica_is_named(begin, capsys, name):
    folder = begin(ask=ASK, profile=profile(*LIMITS))
    write_replicas(folder)
    (folder / "data" / "replicas" / METHOD / "18" / name).unlink()
    assert f"data/replicas/mas_architect/18/{name}: cannot read" in message(capsys)


def test_a_missing_search_is_named(begin, capsys):
    write_replicas(begin(ask=ASK, profile=profile(*LIMITS)))
    assert "data/search/gepa/17/result.json: cannot read what an earlier stage wrote" in message(capsys)
