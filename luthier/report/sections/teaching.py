"""What the teacher showed (the filter as a funnel) and what the grid found on validation."""

from __future__ import annotations

from collections.abc import Mapping

from luthier.report.html.markup import Html, element, join
from luthier.report.html.numbers import NONE, count, percent, whole_percent
from luthier.report.html.tables import Column, cell, heat, note, number, row, section, table
from luthier.report.sections.data import MethodData, ReportData, Teaching

_DROPS = ("infra_error", "invalid", "noop", "incomplete", "wrong", "duplicate", "cheating")
"""The filters in the order in which they apply."""


def teaching(method: MethodData) -> Html | None:
    """How candidates became rows; None for a method without a teacher."""
    if method.teaching is None:
        return None
    return section(
        f"{method.card.name}-teach",
        f"{method.card.title}: the teacher",
        _funnel(method.teaching),
        note(
            f"Acceptance {percent(method.teaching.log.acceptance)}: correct and honest among those that the machine "
            "could run, repetitions included. A question keeps its most dependable candidates, so there are fewer rows "
            "than accepted candidates."
        ),
        _by_family(method.teaching),
    )


def funnel_steps(counts: Mapping[str, int]) -> list[tuple[str, int, int]]:
    """(what is left, how many, how many fell away before it), from all candidates down to the rows."""
    left = counts.get("executed", 0)
    steps = [("candidates executed", left, 0)]
    names = {
        "wrong": "answered right",
        "duplicate": "not repeated for their question",
        "cheating": "honest",
        "unreliable": "dependable on their family",
    }
    unanswered = sum(counts.get(name, 0) for name in _DROPS[:4])
    left -= unanswered
    steps.append(("valid and answered", left, unanswered))
    for name, label in names.items():
        left -= counts.get(name, 0)
        steps.append((label, left, counts.get(name, 0)))
    rows = counts.get("rows", 0)
    steps.append(("kept as rows", rows, left - rows))
    return steps


def _funnel(taught: Teaching) -> Html:
    steps = funnel_steps(taught.log.counts)
    first = max(steps[0][1], 1)
    rows = [
        row(
            label,
            cell(element("div", class_="funnel", style=f"--w:{100 * left / first:.2f}%")),
            number(count(left)),
            number(count(dropped) if dropped else NONE),
        )
        for label, left, dropped in steps
    ]
    columns = [Column("step"), Column("share"), Column("left", numeric=True), Column("fell away", numeric=True)]
    return table("From candidates to teacher rows", columns, rows)


def _by_family(taught: Teaching) -> Html:
    columns = [
        Column("family"),
        *(Column(name, numeric=True) for name in ("executed", "right", *_DROPS)),
        Column("rows", numeric=True),
    ]
    rows = []
    for family, steps in taught.log.by_family.items():
        executed = sum(steps.values())
        right = (steps.get("correct", 0) + steps.get("duplicate", 0)) / executed if executed else 0.0
        drops = [number(count(steps[name]) if steps.get(name) else NONE) for name in _DROPS]
        rows.append(
            row(
                family,
                number(count(executed)),
                number(percent(right)),
                *drops,
                number(count(taught.families.get(family, 0))),
            )
        )
    return table("Candidates by family: share that was right, and why others fell away", columns, rows)


def grid(data: ReportData) -> Html:
    """Configurations by families on validation, the best one marked."""
    best, compared = data.grid["best_on_validation"], data.grid["compared"]
    scores = data.grid["scores"].get("validation", {})
    families = sorted({family for values in scores.values() for family in values} - {"mean"})
    on_test = data.methods[0].scores.pool if data.methods else {}
    columns = [
        Column("configuration"),
        Column("all", numeric=True),
        Column("test", numeric=True),
        *(Column(element("span", family, class_="upright"), numeric=True) for family in families),
    ]
    ranked = sorted(scores.items(), key=lambda item: (-item[1]["mean"], item[0]))
    rows = [
        row(
            join(name, " ", element("span", "best", class_="tag good") if name == best else None),
            heat(values["mean"], mark=name == best),
            number(whole_percent(on_test[name]) if name in on_test else NONE),
            *(heat(values.get(family)) for family in families),
            class_="best" if name == best else None,
        )
        for name, values in ranked
    ]
    outcomes = ", ".join(f"{name} {count(number_)}" for name, number_ in data.grid["outcomes"].items())
    return section(
        "grid",
        "The grid: hand-written configurations",
        note(
            f"{compared} configurations were compared on validation and the best was taken ({best}), so its validation "
            "score is the best of many and flatters it; the column “test” is not used for any choice. "
            f"Executions: {outcomes}."
        ),
        table("Mean validation score in per cent, by family", columns, rows),
    )
