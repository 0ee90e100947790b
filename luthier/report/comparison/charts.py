"""The three plots of a comparison: score against spend, total cost against uses, score against price per use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from luthier.evaluation.method_run import Unit, unit_label, use_label, use_scale
from luthier.evaluation.results import BreakEvenPair, Group, MethodResult
from luthier.evaluation.statistics import Interval
from luthier.report.html.markup import Html, element, join
from luthier.report.html.numbers import NONE, count, estimate
from luthier.report.html.plot import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    area,
    end_label,
    heights_above,
    keep_apart,
    line,
    linear,
    logarithmic,
    marker,
    path,
    plot,
    spanning,
    steps,
    whisker,
)

_RIGHT, _LOW = WIDTH - RIGHT, HEIGHT - BOTTOM
_BELOW = 30.0
"""How far, as a factor, total costs are drawn below the cheapest one that was learned or searched."""
Colours = Mapping[str, str]
"""Method -> class of its colour."""


def compact(value: float) -> str:
    """A large number in few characters: 1200000 is 1.2M."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size * 0.9995:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def spend_plot(group: Group, unit: Unit, colours: Colours) -> Html:
    """Score against everything spent before use; curves are validation scores, points with whiskers test scores."""
    name = unit_label(unit)
    values = [s.before_use for s in group.standings] + [b.spent for s in group.standings for b in s.curve]
    reached = [band.high for item in group.standings for band in item.curve]
    across, up = spanning(values, LEFT, _RIGHT), _score_axis(group, reached)
    places = [(_spent(s, across), up.place(s.score.mean)) for s in group.standings]
    heights = keep_apart([y for _, y in places], TOP, _LOW - 4)
    drawn = [
        _who(
            item,
            colours,
            _curve(item, across, up) if item.before_use else line(LEFT, y, _RIGHT, y, "level"),
            _interval(item.score, x, up),
            marker(item.kind, x, y, f"{item.label}: {estimate(item.score)} after {compact(item.before_use)} {name}"),
            end_label(item.label, x, y, at),
        )
        for item, (x, y), at in zip(group.standings, places, heights, strict=True)
    ]
    said = "; ".join(
        f"{item.label} scores {estimate(item.score)} after {compact(item.before_use)}" for item in group.standings
    )
    return plot(
        f"Score against spend before use: {_title(group)}",
        said,
        across,
        up,
        drawn,
        x_label=f"{name} before use, training included",
        y_label="score, %",
        x_mark=compact,
        y_mark=_percent,
        data=group_data(group),
    )


def use_plot(group: Group, unit: Unit, colours: Colours) -> Html:
    """Total cost against the number of uses; where a learned method begins to cost less is marked."""
    crossings = [c for c in group.crossings if c.result.uses is not None]
    furthest = max((bound for c in crossings for bound in (c.result.uses, c.result.high) if bound), default=100.0)
    across = logarithmic(1.0, max(100.0, furthest * 4), LEFT, _RIGHT)
    totals = [_total(s, n) for s in group.standings for n in (1.0, across.high)]
    least = min((_total(s, 1.0) for s in group.standings if s.kind != "fixed"), default=min(totals)) / _BELOW
    up = logarithmic(max(least, min(totals), 1e-9), max([*totals, 1.0]), _LOW, TOP)
    places = [up.place(_total(s, across.high)) for s in group.standings]
    heights = keep_apart(places, TOP, _LOW - 4)
    uses = [across.low * (across.high / across.low) ** (i / 60) for i in range(61)]
    drawn = [
        _who(
            item,
            colours,
            path([(across.place(n), up.place(t)) for n in uses if (t := _total(item, n)) >= up.low], "curve"),
            end_label(item.label, _RIGHT, y, at),
        )
        for item, y, at in zip(group.standings, places, heights, strict=True)
    ]
    points = [_place(group, item, across, up) for item in crossings]
    marks = [
        _crossing(group, item, point, at, across, colours)
        for item, point, at in zip(crossings, points, heights_above(points), strict=True)
    ]
    said = "; ".join(
        f"{item.label} costs {compact(item.before_use)} before use and "
        f"{compact(item.use_cost * use_scale(unit))} {use_label(unit)}"
        for item in group.standings
    )
    return plot(
        f"Total cost against uses: {_title(group)}",
        said,
        across,
        up,
        join(drawn, marks),
        x_label="uses",
        y_label=f"{unit_label(unit)} in total",
        x_mark=compact,
        y_mark=compact,
        data=group_data(group),
    )


def front_plot(group: Group, unit: Unit, colours: Colours) -> Html:
    """Score against price per use, with the Pareto front."""
    prices = {item.method: item.use_cost * use_scale(unit) for item in group.standings}
    across = spanning(list(prices.values()), LEFT, _RIGHT)
    up = _score_axis(group)
    places = [(across.place(prices[s.method]), up.place(s.score.mean)) for s in group.standings]
    heights = keep_apart([y for _, y in places], TOP, _LOW - 4)
    front = sorted(place for item, place in zip(group.standings, places, strict=True) if item.on_front)
    drawn = [
        _who(
            item,
            colours,
            _interval(item.score, x, up),
            marker(
                item.kind,
                x,
                y,
                f"{item.label}: {estimate(item.score)} at {compact(prices[item.method])} {use_label(unit)}",
                hollow=not item.on_front,
            ),
            end_label(item.label, x, y, at),
        )
        for item, (x, y), at in zip(group.standings, places, heights, strict=True)
    ]
    said = "on the front: " + ", ".join(item.label for item in group.standings if item.on_front)
    return plot(
        f"Score against price per use: {_title(group)}",
        said,
        across,
        up,
        join(path(steps(front, _RIGHT), "front"), drawn),
        x_label=f"{use_label(unit)}, generator and target",
        y_label="score, %",
        x_mark=compact,
        y_mark=_percent,
        data=group_data(group),
    )


def group_data(group: Group) -> dict[str, str | None]:
    """What filters look at."""
    return {"task": group.task, "budget": group.budget_name or None}


def _title(group: Group) -> str:
    return f"{group.task}, budget {group.budget_name}" if group.budget else group.task


def _who(item: MethodResult, colours: Colours, *content: Html) -> Html:
    return element("g", content, class_=f"who {colours[item.method]}", data_method=item.method)


def _curve(item: MethodResult, across: Axis, up: Axis) -> Html:
    if not item.curve:
        return join()
    end = _spent(item, across)
    lows, highs = (
        steps([(across.place(b.spent), up.place(pick(b))) for b in item.curve], end)
        for pick in (lambda band: band.low, lambda band: band.high)
    )
    means = steps([(across.place(b.spent), up.place(b.mean)) for b in item.curve], end)
    return join(area([*lows, *reversed(highs)], "band"), path(means, "curve"))


def _interval(score: Interval, x: float, up: Axis) -> Html:
    return whisker(x, up.place(score.low), up.place(score.high))


def _place(group: Group, item: BreakEvenPair, across: Axis, up: Axis) -> tuple[float, float]:
    """Where two contenders cost the same."""
    assert item.result.uses is not None
    return across.place(item.result.uses), up.place(_total(group.standing(item.learned), item.result.uses))


def _crossing(
    group: Group, item: BreakEvenPair, point: tuple[float, float], label_at: float, across: Axis, colours: Colours
) -> Html:
    found, (x, y) = item.result, point
    assert found.uses is not None
    learned, other = group.standing(item.learned), group.standing(item.other)
    low = across.place(found.low) if found.low is not None else LEFT
    high = across.place(found.high) if found.high is not None else _RIGHT
    bounds = " to ".join(NONE if value is None else count(round(value)) for value in (found.low, found.high))
    said = f"{learned.label} and {other.label} cost the same after {count(round(found.uses))} uses [{bounds}]"
    dot = element("circle", element("title", said), cx=x, cy=y, r=4.5, class_=f"crossing {colours[item.learned]}")
    return element(
        "g",
        whisker(y, low, high, upright=False),
        dot,
        element("text", compact(math.ceil(found.uses)), x=x, y=label_at, text_anchor="middle", class_="name"),
        class_=f"who {colours[item.other]}",
        data_method=item.other,
    )


def _total(item: MethodResult, uses: float) -> float:
    return item.before_use + uses * item.use_cost


def _spent(item: MethodResult, across: Axis) -> float:
    """Position of its test point; what cost nothing stands on the axis."""
    return across.place(item.before_use) if item.before_use else across.start


def _score_axis(group: Group, reached: Sequence[float] = ()) -> Axis:
    return linear(0.0, max([item.score.high for item in group.standings] + list(reached)), _LOW, TOP)


def _percent(share: float) -> str:
    return f"{100 * share:g}"
