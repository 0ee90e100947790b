import csv
import io
import json

from luthier.report.sections.metrics import curves_csv, figures, headline

METHOD = "mas_architect"


def test_metrics_are_flat_numbers_equal_to_the_scores(data, project):
    found = figures(data)
    scores = json.loads((project / f"data/evaluate/{METHOD}/scores.json").read_text())
    assert all(isinstance(value, int | float) for value in found.values())
    for name, row in scores["test"].items():
        assert found[f"{METHOD}.{name}.score"] == row["pooled"]["mean"]
        assert found[f"{METHOD}.{name}.low"] == row["pooled"]["low"]
        assert found[f"{METHOD}.{name}.target_tokens_per_question"] == row["target_tokens"]
    for name, row in scores["differences"].items():
        assert found[f"{METHOD}.difference.{name}"] == row["interval"]["mean"]
        assert found[f"{METHOD}.difference.{name}.rescued"] == row["rescued"]
    assert found[f"{METHOD}.reinforce.novel_compositions"] == len(scores["novel_compositions"]["reinforce"]) > 0
    log = json.loads((project / f"data/teach/{METHOD}/log.json").read_text())
    assert found[f"{METHOD}.teach.acceptance"] == log["acceptance"]


def test_a_method_has_one_short_row_of_rounded_headlines(data, project):
    """`dvc metrics show` prints a row for each method, and must fit a terminal."""
    row = headline(data.methods[0])
    scores = json.loads((project / f"data/evaluate/{METHOD}/scores.json").read_text())
    assert list(row) == ["target_alone", "best_fixed", "sft", "reinforce", "low", "high", "tokens", "novel"]
    assert row["reinforce"] == round(scores["test"]["reinforce"]["pooled"]["mean"], 4)
    assert row["low"] == round(scores["test"]["reinforce"]["pooled"]["low"], 4)
    assert row["novel"] == len(scores["novel_compositions"]["reinforce"])
    assert len("  ".join(row)) < 80


def test_zero_variance_share_is_the_mean_over_steps(data, project):
    curve = json.loads((project / f"models/reinforce/{METHOD}/training.json").read_text())["curve"]
    shares = [row["flat_groups"] for row in curve]
    assert figures(data)[f"{METHOD}.reinforce.zero_variance_share"] == sum(shares) / len(shares)
    assert f"{METHOD}.sft.zero_variance_share" not in figures(data)


def test_curves_hold_every_logged_step_under_its_column(data, project):
    rows = list(csv.DictReader(io.StringIO(curves_csv(data))))
    columns = [
        "method",
        "phase",
        "step",
        "loss",
        "reward",
        "valid",
        "correct",
        "flat_groups",
        "kl",
        "entropy",
        "length",
    ]
    assert list(rows[0]) == columns
    for phase in ("sft", "reinforce"):
        curve = json.loads((project / f"models/{phase}/{METHOD}/training.json").read_text())["curve"]
        mine = [row for row in rows if row["phase"] == phase]
        assert [int(row["step"]) for row in mine] == [row["step"] for row in curve]
        assert [float(row["loss"]) for row in mine] == [row["loss"] for row in curve]
    last = rows[-1]
    assert float(last["length"]) == curve[-1]["completions/mean_length"]
    assert last["kl"] == ""
    assert rows[0]["reward"] == ""
