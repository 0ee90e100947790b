"""Figures of a checkpoint for a person: grouped, rounded, wrapped."""

from pathlib import Path

import pytest

from luthier.lineage.checkpoint import Checkpoint
from luthier.lineage.figures import (
    by_role,
    family_lines,
    metric_name,
    score_lines,
    score_name,
    spending_lines,
    spending_metrics,
)
from luthier.lineage.sources import Output, StageFacts
from luthier.lineage.tree import render_tree

FAMILIES = [f"family_number_{number}" for number in range(20)]
SCORES = {
    "test.score": 0.77647,
    "test.score.low": 0.70588,
    "test.score.high": 0.83529,
    "validation.score": 0.8,
    **{f"test.family.{family}": number / 19 for number, family in enumerate(FAMILIES)},
}
LEDGER = {
    f"train.{role}.{alone}{unit}": value
    for role, factor in (("generator", 1), ("target", 2))
    for alone in ("", "alone.")
    for unit, value in (
        ("rollouts", 0), ("calls", 18 * factor), ("prompt_tokens", 119), ("completion_tokens", 556),
        ("seconds", 37.6849), ("price", None if role == "target" else 1.97607e-05),
    )
}  # fmt: skip


def checkpoint() -> Checkpoint:
    stage = StageFacts("sft@m", {"data/rows": "1" * 32}, ())
    rows = StageFacts("teach@m", {}, (Output("data/rows", "1" * 32, 5000, 1, {"rows": 11}),))
    return Checkpoint(
        model_id="m-1", run_id="r", experiment_id="1", method="m", phase="sft", stage="sft@m", aliases=("candidate",),
        path="models/sft/m", digest="a" * 64, files={}, parent=None, parent_digest="b" * 64,
        stages={"sft@m": stage, "teach@m": rows}, commit="c" * 40, changed=(), params_digest="d" * 64,
        packages_digest="e" * 64, target="t", seed=17, ledger=LEDGER, scores=SCORES, scores_digest="", md5s={},
        imported=False,
    )  # fmt: skip


@pytest.mark.parametrize("width", [60, 80, 140])
def test_no_line_is_longer_than_asked(tmp_path: Path, width: int) -> None:
    lines = render_tree(checkpoint(), tmp_path, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert all(any(family in line for line in lines) for family in FAMILIES)


def test_figures_are_grouped_and_rounded(tmp_path: Path) -> None:
    text = render_tree(checkpoint(), tmp_path, width=200)
    assert "scores    test 77.6 % [70.6, 83.5]" in text
    assert "          validation 80.0 %" in text
    assert "spent     generator: 18 calls, 675 tokens, 37.7 s, 1.98e-05 USD" in text
    assert "          target: 36 calls, 675 tokens, 37.7 s, price unknown" in text
    assert "uncached" not in text, "nothing was saved, so it would say the same again"


def test_what_stored_answers_saved_is_told() -> None:
    saved = {**LEDGER, "train.target.calls": 0, "train.target.prompt_tokens": 0, "train.target.completion_tokens": 0}
    assert "target, uncached: 36 calls, 675 tokens, 37.7 s, price unknown" in spending_lines(saved)


def test_unknown_amounts_stay_unknown_and_are_no_metric() -> None:
    assert by_role(LEDGER)["target"]["usd"] is None
    metrics = spending_metrics(LEDGER)
    assert "spend/target.usd" not in metrics
    assert metrics["spend/generator.tokens"] == 675


def test_scores_without_an_interval_or_families_are_told() -> None:
    assert score_lines({"test.score": 1.0}) == ["test 100.0 %"]
    assert family_lines({"test.score": 1.0}) == []
    assert score_lines({}) == []


@pytest.mark.parametrize("score", ["test.score", "test.score.low", "validation.family.gcd"])
def test_a_score_has_one_name_here_and_in_mlflow(score: str) -> None:
    assert score_name(metric_name(score)) == score
    assert score_name(score) == score, "older stores have no slash"
