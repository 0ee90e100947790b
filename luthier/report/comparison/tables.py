"""The tables of a comparison: standings, differences, break-even, generalisation, and what was fixed for whom."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from luthier.evaluation.method_run import BEFORE_USE, MethodRun, Spend, Unit, measure, unit_label, use_label, use_scale
from luthier.evaluation.results import BreakEvenPair, Comparison, Group, MethodResult
from luthier.evaluation.statistics import BreakEven, Difference
from luthier.ledger.budget import Amount
from luthier.report.comparison.charts import Colours, compact
from luthier.report.html.charts import difference_bar, interval_bar, outcome_bar
from luthier.report.html.markup import Child, Html, element, join
from luthier.report.html.numbers import NONE, bounds, count, difference, estimate, percent, points, reading, short
from luthier.report.html.tables import DIFFERENCE, Column, cell, number, scrolling

_BAR = {"learned": "learned", "searched": "searched", "fixed": "baseline"}


def sortable(caption: Child, columns: Sequence[Column], rows: Sequence[Html], *, wide: bool = False) -> Html:
    """A table whose columns the page's script can sort; every cell may carry its value in `data-value`."""
    heads = [element("th", c.heading, scope="col", class_="num" if c.numeric else None) for c in columns]
    return scrolling(caption, heads, rows, class_="sortable wide" if wide else "sortable")


def standings(comparison: Comparison, colours: Colours) -> Html:
    """Everyone on every task under every budget, in one table."""
    columns = [
        Column("contender"),
        *_place_columns(comparison),
        Column("score", numeric=True),
        Column("0 to 100 %, 95 % interval"),
        Column("equal weight", numeric=True),
        Column("seeds, lowest to highest", numeric=True),
        Column("outcomes"),
        Column(f"{unit_label(comparison.unit)} before use", numeric=True),
        Column(use_label(comparison.unit), numeric=True),
        Column("against the baseline, points", numeric=True),
        Column("rescued / regressed", numeric=True),
    ]
    rows = [_standing(comparison, group, item, colours) for group in comparison.groups for item in group.standings]
    questions = sum({group.task: group.questions for group in comparison.groups}.values())
    said = (
        f"{count(questions)} test questions; baseline {label_of(comparison, comparison.baseline)}; "
        f"spend in {unit_label(comparison.unit)}, uncached"
    )
    return sortable(said, columns, rows, wide=True)


def _standing(comparison: Comparison, group: Group, item: MethodResult, colours: Colours) -> Html:
    gap = group.against_baseline(item.method, comparison.baseline)
    deviation = "" if item.spread.deviation is None else f", standard deviation {100 * item.spread.deviation:.1f}"
    seeds = f"seeds {', '.join(str(seed) for seed in item.seeds)}{deviation}"
    return _row(
        group,
        item.method,
        name(item, colours, front=True),
        *_place(comparison, group),
        _value(item.score.mean, element("strong", percent(item.score.mean))),
        cell(interval_bar(item.score, _BAR[item.kind])),
        _value(item.equal_weight, percent(item.equal_weight)),
        _value(item.spread.deviation or 0.0, _seed_range(item), title=seeds),
        cell(outcome_bar(item.outcomes)),
        _value(item.before_use, compact(item.before_use), title=count(round(item.before_use, 1))),
        _value(item.use_cost, _per_use(comparison, item.use_cost), title=_parts(comparison, item)),
        _difference(gap),
        number(f"{count(gap.rescued)} / {count(gap.regressed)}" if gap else NONE),
    )


def differences(comparison: Comparison) -> Html:
    """Paired differences of learned ones with everyone, and of everyone with the baseline; read over seeds, too."""
    columns = [
        Column("difference"),
        *_place_columns(comparison),
        *DIFFERENCE[:2],
        Column("over seeds, too", numeric=True),
        *DIFFERENCE[2:],
    ]
    rows = [
        _row(
            group,
            f"{pair.ours} {pair.theirs}",
            f"{label_of(comparison, pair.ours)} − {label_of(comparison, pair.theirs)}",
            *_place(comparison, group),
            _value(pair.difference.interval.mean, points(pair.difference.interval.mean)),
            number(bounds(pair.difference.interval)),
            number(bounds(pair.over_seeds) if pair.over_seeds else "one seed"),
            cell(difference_bar(pair.difference.interval)),
            _value(pair.difference.rescued, count(pair.difference.rescued)),
            _value(pair.difference.regressed, count(pair.difference.regressed)),
            cell(reading(pair.widest)),
        )
        for group in comparison.groups
        for pair in group.pairs
    ]
    return sortable(f"{len(rows)} pairs; intervals are not corrected for their number", columns, rows)


def break_evens(comparison: Comparison) -> Html:
    """When a learned method costs less in total, beside what it scores against the other."""
    columns = [
        Column("learned"),
        Column("against"),
        *_place_columns(comparison),
        Column("costs less"),
        Column(f"more {unit_label(comparison.unit)} before use", numeric=True),
        Column(f"{use_label(comparison.unit)}, saved", numeric=True),
        Column("resamples that agree", numeric=True),
        Column("score, points", numeric=True),
    ]
    rows = [
        _row(
            group,
            f"{item.learned} {item.other}",
            label_of(comparison, item.learned),
            cell(label_of(comparison, item.other)),
            *_place(comparison, group),
            cell(element("strong", verdict(item)), class_="sentence"),
            _value(item.result.gap, _signed(item.result.gap)),
            _value(item.result.saving, _signed(item.result.saving * use_scale(comparison.unit))),
            _value(item.result.agreement, percent(item.result.agreement)),
            _difference(item.pair.difference),
        )
        for group in comparison.groups
        for item in group.crossings
    ]
    return sortable("Uses are alike; a wrong answer costs as much as a right one", columns, rows)


def verdict(crossing: BreakEvenPair) -> str:
    """When the learned one costs less, in words; what costs less and scores significantly less is no saving."""
    said = when(crossing.result)
    if not crossing.pair.significantly_worse or crossing.result.verdict in ("never", "equal"):
        return said
    lost = difference(crossing.pair.widest).removeprefix("−")
    return f"{said}, but it scores {lost} less: no saving"


def when(found: BreakEven) -> str:
    """When ours costs less, in words; a number only where there is a crossing."""
    if found.uses is None:
        return {
            "always": "from the first use on",
            "never": "never: it costs more before use and saves nothing per use",
            "equal": "never: both always cost the same",
        }[found.verdict]
    low = "no lower bound" if found.low is None else count(math.ceil(found.low))
    high = "no upper bound" if found.high is None else count(math.ceil(found.high))
    if found.verdict == "from":
        return f"from {count(math.ceil(found.uses))} uses on [{low}, {high}]"
    return f"only for fewer than {count(math.ceil(found.uses))} uses [{low}, {high}]: it costs more per use"


def unseen_families(comparison: Comparison, colours: Colours) -> Html | None:
    """First axis: families that a contender's training held, and those that it did not. None when all were seen."""
    found = [(group, item) for group in comparison.groups for item in group.standings if item.unseen]
    if not found:
        return None
    columns = [
        Column("contender"),
        *_place_columns(comparison),
        Column("families in training", numeric=True),
        Column("n", numeric=True),
        Column("families held out", numeric=True),
        Column("n", numeric=True),
        Column("0 to 100 %, held out"),
    ]
    rows = []
    for group, item in found:
        assert item.unseen is not None
        seen = item.seen
        rows.append(
            _row(
                group,
                item.method,
                name(item, colours),
                *_place(comparison, group),
                _value(seen.mean if seen else -1.0, estimate(seen) if seen else NONE),
                number(count(seen.n) if seen else "0"),
                _value(item.unseen.mean, estimate(item.unseen)),
                number(count(item.unseen.n)),
                cell(interval_bar(item.unseen, _BAR[item.kind])),
            )
        )
    return sortable("On the target that they were made for", columns, rows)


def second_targets(comparison: Comparison) -> Html | None:
    """Second axis: the same harnesses or generators on another target. None when there is none."""
    columns = [
        Column("contender"),
        *_place_columns(comparison),
        Column("second target"),
        Column("own target", numeric=True),
        Column("second target", numeric=True),
        Column("difference, points", numeric=True),
        Column("rescued / regressed", numeric=True),
        Column("seeds"),
    ]
    rows = [
        _row(
            group,
            item.method,
            join(element("span", item.label), " ", _tag(item.kind)),
            *_place(comparison, group),
            cell(element("code", item.target)),
            _value(item.home.mean, estimate(item.home)),
            _value(item.score.mean, estimate(item.score)),
            _difference(item.difference),
            number(f"{count(item.difference.rescued)} / {count(item.difference.regressed)}"),
            cell(", ".join(str(seed) for seed in item.seeds)),
        )
        for group in comparison.groups
        for item in group.transfers
    ]
    return sortable("Families that were trained on", columns, rows) if rows else None


def overall(comparison: Comparison) -> Html | None:
    """Means over tasks, None for one task."""
    if not comparison.overall:
        return None
    columns = [
        Column("contender"),
        Column("budget"),
        Column("pooled over questions", numeric=True),
        Column("0 to 100 %"),
        Column("equal weight of tasks", numeric=True),
    ]
    rows = [
        element(
            "tr",
            element("th", item.label, scope="row"),
            cell(item.budget or NONE),
            _value(item.pooled.mean, estimate(item.pooled)),
            cell(interval_bar(item.pooled, _BAR[item.kind])),
            _value(item.equal_weight, percent(item.equal_weight)),
            data_method=item.method,
            data_budget=item.budget or None,
        )
        for item in comparison.overall
    ]
    return sortable(f"Over {comparison.overall[0].tasks} tasks", columns, rows)


def conditions(comparison: Comparison) -> Html:
    """What is trained, what is frozen and what may be edited, for each contender."""
    columns = [Column("contender"), *_place_columns(comparison), Column("trained"), Column("frozen"), Column("scope")]
    columns += [Column("made for"), Column("seeds")]
    rows = [
        _row(
            group,
            item.method,
            item.label,
            *_place(comparison, group),
            cell(item.runs[0].trained),
            cell(item.runs[0].frozen),
            cell(item.runs[0].scope),
            cell(element("code", short(item.runs[0].home))),
            cell(", ".join(str(seed) for seed in item.seeds)),
        )
        for group in comparison.groups
        for item in group.standings
    ]
    return sortable("The same for all seeds of a contender", columns, rows)


def bills(comparison: Comparison) -> Html:
    """Spend by account and role, mean over seeds, uncached and as paid."""
    columns = [Column("contender"), *_place_columns(comparison), Column("account"), Column("role")]
    columns += [Column(f"{unit_label(comparison.unit)}, uncached", numeric=True), Column("paid", numeric=True)]
    columns += [Column("calls, uncached", numeric=True), Column("rollouts", numeric=True), Column("in the budget")]
    rows = []
    for group in comparison.groups:
        for item in group.standings:
            for spend in _bill(item.runs):
                figures = [
                    _spent(amount, spend, comparison.unit, len(item.runs)) for amount in (spend.alone, spend.paid)
                ]
                rows.append(
                    _row(
                        group,
                        item.method,
                        item.label,
                        *_place(comparison, group),
                        cell(spend.account),
                        cell(f"{spend.role}, update passes" if spend.trained else spend.role),
                        *figures,
                        _value(spend.alone.calls, count(round(spend.alone.calls / len(item.runs), 1))),
                        _value(spend.alone.rollouts, count(round(spend.alone.rollouts / len(item.runs), 1))),
                        cell("yes" if spend.account in BEFORE_USE else "no"),
                    )
                )
    return sortable("Mean over seeds", columns, rows)


def _bill(runs: Sequence[MethodRun]) -> list[Spend]:
    """Sums over runs."""
    found: dict[tuple[str, str, bool], Spend] = {}
    for run in runs:
        for spend in run.spent:
            key = (spend.account, spend.role, spend.trained)
            old = found.get(key)
            if old is not None:
                paid = None if old.paid is None or spend.paid is None else old.paid + spend.paid
                spend = replace(old, alone=old.alone + spend.alone, paid=paid)
            found[key] = spend
    return [found[key] for key in sorted(found)]


def _spent(amount: Amount | None, spend: Spend, unit: Unit, seeds: int) -> Html:
    value = None if amount is None else measure(amount, unit, amount if spend.trained else Amount())
    if value is None:
        return number("unknown")
    return _value(value, compact(value / seeds), title=count(round(value / seeds, 1)))


# --- cells ------------------------------------------------------------------------------------------------------


def label_of(comparison: Comparison, method: str) -> str:
    """A method's name in print."""
    return next(item.label for group in comparison.groups for item in group.standings if item.method == method)


def name(item: MethodResult, colours: Colours, *, front: bool = False) -> Html:
    """A contender's name with its colour and kind, and with `front` whether it is on the Pareto front."""
    key = element("span", class_=f"swatch {item.kind} {colours[item.method]}", aria_hidden="true")
    return join(key, element("span", item.label), " ", _tag(item.kind), _mark(item) if front else None)


def _mark(item: MethodResult) -> Html | None:
    if not item.on_front:
        return None
    if item.below_best:
        said = "none scores as much for as little per use, but it scores significantly less than the best one"
        return element("em", "cheaper, but worse", title=said, class_="tag")
    return element("em", "front", title="on the Pareto front of score and price per use", class_="tag good")


def _tag(kind: str) -> Html:
    return element("em", kind, class_=f"tag kind-{kind}")


def _row(group: Group, method: str, head: Child, *cells: Html) -> Html:
    return element(
        "tr",
        element("th", head, scope="row"),
        cells,
        data_task=group.task,
        data_budget=group.budget_name or None,
        data_method=method,
    )


def _place_columns(comparison: Comparison) -> list[Column]:
    """Task and budget, where there are several."""
    return [Column(heading) for heading, many in zip(("task", "budget"), _many(comparison), strict=True) if many]


def _place(comparison: Comparison, group: Group) -> list[Html]:
    texts = (group.task, group.budget_name or NONE)
    return [cell(text, class_="word") for text, many in zip(texts, _many(comparison), strict=True) if many]


def _many(comparison: Comparison) -> tuple[bool, bool]:
    groups = comparison.groups
    return (len({g.task for g in groups}) > 1, len({g.budget_name for g in groups}) > 1)


def _value(value: float, shown: Child, title: str | None = None) -> Html:
    return element("td", shown, class_="num", data_value=f"{value:.9g}", title=title)


def _difference(gap: Difference | None) -> Html:
    if gap is None:
        return _value(0.0, "baseline")
    return _value(
        gap.interval.mean,
        join(points(gap.interval.mean), " ", element("span", bounds(gap.interval), class_="soft")),
        title=reading(gap.interval),
    )


def _seed_range(item: MethodResult) -> str:
    low, high = (f"{100 * value:.1f}" for value in (item.spread.low, item.spread.high))
    return f"{low} to {high}" if len(item.seeds) > 1 else "one seed"


def _per_use(comparison: Comparison, cost: float) -> str:
    return compact(cost * use_scale(comparison.unit))


def _parts(comparison: Comparison, item: MethodResult) -> str:
    generator, target = (_per_use(comparison, c) for c in (item.use_cost - item.target_cost, item.target_cost))
    return f"generator {generator}, target {target}"


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + compact(value).replace("-", "−")
