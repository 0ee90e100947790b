"""The page's figures as files: a few for `dvc metrics`, all of them beside it, learning curves for `dvc plots`."""

from __future__ import annotations

import csv
import io

from luthier.report.sections.curves import COLUMNS, curve_rows, flat_share
from luthier.report.sections.data import OPPONENTS, MethodData, ReportData, pooled

DIGITS = 4


def headline(method: MethodData) -> dict[str, float]:
    """What `dvc metrics show` prints of a method in one row, to `DIGITS` digits.

    Mean test scores of the target alone, the best fixed configuration and the checkpoints of each phase; the interval
    and the target's tokens a question of the last one; new compositions.
    """
    scores = method.scores
    found = {name: pooled(scores.test[name]).mean for name in (*OPPONENTS, *method.card.phases) if name in scores.test}
    last = scores.test[scores.final]
    interval = pooled(last)
    found |= {"low": interval.low, "high": interval.high, "tokens": last.target_tokens}
    if scores.final in scores.novel:
        found["novel"] = len(scores.novel[scores.final])
    return {name: round(value, DIGITS) for name, value in found.items()}


def figures(data: ReportData) -> dict[str, float]:
    """Numbers by "<method>.<contender>.<name>"; the same as on the page, unrounded."""
    flat: dict[str, float] = {"grid.best_validation_score": data.grid["best_validation_score"] or 0.0}
    flat["grid.compared"] = data.grid["compared"]
    for method in data.methods:
        flat |= {f"{method.card.name}.{name}": value for name, value in _method(method).items()}
    return flat


def curves_csv(data: ReportData) -> str:
    """Text of `curves.csv`: one row per method, phase and step; empty where a phase logs no such value."""
    text = io.StringIO()
    writer = csv.DictWriter(text, ["method", "phase", "step", *COLUMNS], lineterminator="\n")
    writer.writeheader()
    for method in data.methods:
        writer.writerows(curve_rows(method))
    return text.getvalue()


def _method(method: MethodData) -> dict[str, float]:
    scores, flat = method.scores, dict[str, float]()
    for name, standing in scores.test.items():
        interval = pooled(standing)
        flat |= {f"{name}.score": interval.mean, f"{name}.low": interval.low, f"{name}.high": interval.high}
        flat[f"{name}.equal_weight"] = standing.equal_weight
        flat[f"{name}.target_tokens_per_question"] = standing.target_tokens
        flat[f"{name}.generator_tokens_per_question"] = standing.generator_tokens
    bound = scores.oracle.pooled
    flat |= {
        "oracle_over_pool.score": bound.mean,
        "oracle_over_pool.low": bound.low,
        "oracle_over_pool.high": bound.high,
    }
    for name, gap in scores.differences.items():
        key = f"difference.{name}"
        flat |= {key: gap.interval.mean, f"{key}.low": gap.interval.low, f"{key}.high": gap.interval.high}
        flat |= {f"{key}.rescued": gap.rescued, f"{key}.regressed": gap.regressed}
    for phase, found in scores.novel.items():
        flat[f"{phase}.novel_compositions"] = len(found)
    if method.teaching:
        flat |= {"teach.acceptance": method.teaching.log.acceptance, "teach.rows": len(method.teaching.rows)}
    for record in method.records:
        share = flat_share(record)
        if share is not None:
            flat[f"{record.phase}.zero_variance_share"] = share
    return flat
