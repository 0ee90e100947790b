"""The comparison in a few lines of text, and its figures as JSON."""

from __future__ import annotations

from typing import Any

from luthier.evaluation.method_run import unit_label, use_label, use_scale
from luthier.evaluation.results import Comparison
from luthier.evaluation.statistics import Interval
from luthier.report.comparison.tables import verdict


def table(comparison: Comparison) -> dict[str, Any]:
    """The figures by budget and method: score with interval, spend before use, price of a use, unseen families."""
    return {
        "unit": comparison.unit,
        "warnings": list(comparison.warnings),
        "budgets": {
            group.budget_name: {
                item.method: {
                    "score": item.score.mean,
                    "low": item.score.low,
                    "high": item.score.high,
                    "equal_weight": item.equal_weight,
                    "seeds": len(item.seeds),
                    "spent": item.before_use,
                    "per_use": item.use_cost,
                    "unseen_families": item.unseen.mean if item.unseen else None,
                }
                for item in group.standings
            }
            for group in comparison.groups
        },
    }


def lines(comparison: Comparison) -> list[str]:
    """The standings of each task and budget, the uses from which a learned method pays off, and the warnings."""
    text: list[str] = []
    for group in comparison.groups:
        text.append(
            f"{group.task}, budget {group.budget_name}, {group.questions} questions, in {unit_label(comparison.unit)}"
        )
        text += [
            f"  {item.label:36} {_percent(item.score)}  before use {item.before_use:.4g}, "
            f"{use_label(comparison.unit)} {item.use_cost * use_scale(comparison.unit):.3g}"
            for item in group.standings
        ]
        text += [
            f"  {group.standing(item.learned).label} costs less in total than {group.standing(item.other).label}"
            f" {verdict(item)}"
            for item in group.crossings
        ]
    return [*text, *comparison.warnings]


def _percent(score: Interval) -> str:
    return f"{score.mean:6.1%} [{score.low:.1%}, {score.high:.1%}]"
