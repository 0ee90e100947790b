"""The comparison as text and as JSON: the numbers of the comparison itself, in every group."""

import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from luthier.evaluation.compare import compare
from luthier.report.comparison.summary import lines, table

SPEC = importlib.util.spec_from_file_location("synthetic_contest", Path(__file__).parents[1] / "synthetic_contest.py")
synthetic = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(synthetic)


@pytest.fixture(scope="module")
def comparison():
    runs = [
        run
        for budget in (("1: small", 400_000), ("2: large", 800_000))
        for run in synthetic.contest(seeds=(17, 18), budget=budget, size=12)[0]
        if run.kind != "fixed" or budget[1] == 800_000
    ]
    return compare(runs, "target_alone", resamples=100)


def test_the_table_holds_every_standing_by_budget(comparison):
    found = table(comparison)
    assert json.loads(json.dumps(found)) == found
    assert (found["unit"], list(found["budgets"])) == ("tokens", ["1: small", "2: large"])
    for group in comparison.groups:
        methods = found["budgets"][group.budget_name]
        assert list(methods) == [item.method for item in group.standings]
        assert {item[0] for item in synthetic.METHODS} == set(methods)
        for item in group.standings:
            figures = methods[item.method]
            trials = [trial for run in item.runs for trial in run.trials]
            assert figures["score"] == pytest.approx(sum(t.execution.score for t in trials) / len(trials))
            assert figures["low"] <= figures["score"] <= figures["high"]
            unseen = [trial.execution.score for trial in trials if trial.held_out]
            assert figures["unseen_families"] == (pytest.approx(sum(unseen) / len(unseen)) if unseen else None)
            assert figures["seeds"] == len(item.runs)
            spent = [run.before_use.prompt_tokens + run.before_use.completion_tokens for run in item.runs]
            assert figures["spent"] == sum(spent) / len(spent)
            assert figures["per_use"] == item.use_cost


def test_the_table_carries_the_warnings(comparison):
    assert table(comparison)["warnings"] == [
        "mixed, budget 1: small: 2 seeds, not a headline; a result to quote needs 3.",
        "mixed, budget 2: large: 2 seeds, not a headline; a result to quote needs 3.",
    ]


def test_the_lines_are_a_group_its_standings_its_crossings_then_the_warnings(comparison):
    text = lines(comparison)
    per_group = 1 + len(synthetic.METHODS) + 2 * 5
    assert len(text) == 2 * per_group + 2
    assert text[0] == "mixed, budget 1: small, 12 questions, in tokens"
    assert text[per_group] == "mixed, budget 2: large, 12 questions, in tokens"
    assert text[-2:] == list(comparison.warnings)
    item = comparison.groups[1].standing("mas_architect")
    (row,) = [line for line in text[per_group:] if line.startswith("  MAS-Architect  ")]
    said = re.fullmatch(
        r"  MAS-Architect +([\d.]+)% \[([\d.]+)%, ([\d.]+)%\]  before use ([\d.e+]+), tokens per use ([\d.e+]+)", row
    )
    expected = (100 * item.score.mean, 100 * item.score.low, 100 * item.score.high)
    assert [float(number) for number in said.groups()[:3]] == pytest.approx(expected, abs=0.05)
    assert float(said[4]) == pytest.approx(item.before_use, rel=1e-3)
    assert float(said[5]) == pytest.approx(item.use_cost, rel=1e-2)
    crossings = [line for line in text[:per_group] if " costs less in total than " in line]
    pairs = [line.split(" costs less in total than ")[0].strip() for line in crossings]
    assert pairs == ["MAS-Architect"] * 5 + ["MAS-GPT"] * 5


def test_a_comparison_in_usd_says_so(comparison):
    said = lines(replace(comparison, unit="price"))
    assert said[0].endswith("12 questions, in USD")
    use = comparison.groups[0].standing("mas_architect").use_cost
    (row,) = [line for line in said[: len(synthetic.METHODS) + 1] if line.startswith("  MAS-Architect  ")]
    assert float(row.rpartition(" USD per thousand uses ")[2]) == pytest.approx(1000 * use, rel=1e-2)
