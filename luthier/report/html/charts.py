"""Small charts as inline SVG: intervals, outcomes, learning curves. No library, no script; colours come from the page.

Every chart has a text alternative, and the table or sentence beside it says the same in figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from luthier.evaluation.statistics import Interval
from luthier.report.html.markup import Child, Html, element, join
from luthier.report.html.numbers import difference, estimate

OUTCOMES = ("ok", "noop", "incomplete", "invalid", "infra_error")
"""In the order in which a bar shows them."""
_SMOOTH = 5
"""Steps that the bold line of a noisy curve averages over."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart: its name, its points (x, y) in order of x, and its colour 1-4 of the page."""

    name: str
    points: tuple[tuple[float, float], ...]
    colour: int = 1


def interval_bar(interval: Interval, kind: str) -> Html:
    """A bar from 0 to the mean with whiskers, on an axis from 0 to 1.

    Args:
        interval: Mean with its bounds.
        kind: Class of the fill: baseline, learned or bound.
    """
    width, height = 200.0, 22.0
    low, high, mean = (width * min(max(value, 0.0), 1.0) for value in (interval.low, interval.high, interval.mean))
    return _svg(
        (width, height),
        estimate(interval),
        [_line(x, 0, x, height, "grid") for x in (0.0, width / 4, width / 2, 3 * width / 4, width)],
        element("rect", x=0, y=4.0, width=max(mean, 1.0), height=height - 8, class_=f"fill {kind}"),
        _whiskers(low, high, height),
        class_="interval",
    )


def difference_bar(interval: Interval) -> Html:
    """A dot with whiskers on an axis from -1 to 1 with a line at 0."""
    width, height = 200.0, 22.0

    def place(value: float) -> float:
        return width * (min(max(value, -1.0), 1.0) + 1) / 2

    return _svg(
        (width, height),
        difference(interval),
        [_line(x, 0, x, height, "grid") for x in (0.0, width / 4, 3 * width / 4, width)],
        _line(width / 2, 0, width / 2, height, "zero"),
        _whiskers(place(interval.low), place(interval.high), height),
        element("circle", cx=place(interval.mean), cy=height / 2, r=4.0, class_="dot"),
        class_="interval",
    )


def outcome_bar(outcomes: Mapping[str, int]) -> Html:
    """The shares of all outcomes as one stacked bar."""
    width, height, total = 200.0, 22.0, sum(outcomes.values())
    parts, start = [], 0.0
    for name in OUTCOMES:
        size = width * outcomes.get(name, 0) / total if total else 0.0
        if size:
            parts.append(element("rect", x=start, y=4.0, width=size, height=height - 8, class_=f"outcome {name}"))
        start += size
    said = ", ".join(f"{name} {outcomes[name]}" for name in OUTCOMES if outcomes.get(name))
    return _svg((width, height), said, parts, class_="interval")


def line_chart(title: str, series: Sequence[Series], *, unit: str, top: float | None = None) -> Html:
    """A chart of curves over training steps, with axes, ticks and a legend.

    Curves of ten points and more are noisy, because each step asks other questions: they are drawn thin, with
    their mean over the last five steps in bold.

    Args:
        title: Heading of the figure.
        series: At least one, each with at least one point.
        unit: What the y axis counts.
        top: Upper end of the y axis; found from the data when left out. The lower end is 0 where nothing is below.
    """
    frame = _Frame.around(series, top)
    lines = [_curve(item, frame) for item in series]
    said = f"{title}: " + "; ".join(f"{s.name} from {s.points[0][1]:.3g} to {s.points[-1][1]:.3g}" for s in series)
    drawing = _svg((_Frame.WIDTH, _Frame.HEIGHT), said, frame.axes(unit), lines, class_="chart")
    legend = [
        element("li", element("span", class_=f"key line-{item.colour}", aria_hidden="true"), item.name)
        for item in series
    ]
    names = element("ul", legend, class_="legend") if len(series) > 1 else None
    return element("figure", element("figcaption", title), names, drawing, class_="chart-figure")


@dataclass(frozen=True, slots=True)
class _Frame:
    """Maps values to the picture."""

    x_ticks: tuple[float, ...]
    y_ticks: tuple[float, ...]
    right: float

    WIDTH = 340.0
    HEIGHT = 210.0
    LEFT, RIGHT, TOP, BOTTOM = 46.0, 12.0, 20.0, 34.0

    @classmethod
    def around(cls, series: Sequence[Series], top: float | None) -> _Frame:
        xs = [x for item in series for x, _ in item.points]
        ys = [y for item in series for _, y in item.points]
        return cls(ticks(0.0, max(xs)), ticks(min(0.0, *ys), max(ys) if top is None else top), max(xs))

    def x(self, value: float) -> float:
        left, right = self.x_ticks[0], max(self.right, self.x_ticks[0] + 1e-9)
        return self.LEFT + (self.WIDTH - self.LEFT - self.RIGHT) * (value - left) / (right - left)

    def y(self, value: float) -> float:
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return self.HEIGHT - self.BOTTOM - (self.HEIGHT - self.TOP - self.BOTTOM) * (value - low) / (high - low)

    def axes(self, unit: str) -> Html:
        """Grid lines with their figures, the unit above the y axis and the word "step" under the x axis."""
        right, bottom = self.WIDTH - self.RIGHT, self.HEIGHT - self.BOTTOM
        parts = [element("text", unit, x=4.0, y=11.0, class_="unit")]
        for tick in self.y_ticks:
            parts.append(_line(self.LEFT, self.y(tick), right, self.y(tick), "grid"))
            parts.append(element("text", f"{tick:g}", x=self.LEFT - 6, y=self.y(tick) + 4, text_anchor="end"))
        for tick in self.x_ticks:
            if tick <= self.right:
                parts.append(element("text", f"{tick:g}", x=self.x(tick), y=bottom + 15, text_anchor="middle"))
        parts.append(_line(self.LEFT, bottom, right, bottom, "axis"))
        parts.append(element("text", "step", x=right, y=self.HEIGHT - 4, text_anchor="end", class_="unit"))
        return join(parts)


def ticks(low: float, high: float, wanted: int = 4) -> tuple[float, ...]:
    """Round numbers from at most `low` to at least `high`, in about `wanted` steps of 1, 2 or 5 times 10^n."""
    span = high - low or 1.0
    rough = span / wanted
    scale = 10.0 ** math.floor(math.log10(rough))
    step = next(m * scale for m in (1, 2, 5, 10) if m * scale >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil((low + span) / step - 1e-9)
    return tuple(round(i * step, 10) for i in range(first, last + 1))


def trailing_mean(values: Sequence[float], window: int) -> list[float]:
    """Mean of each value and the `window` - 1 before it; fewer at the start."""
    return [sum(part) / len(part) for i in range(len(values)) for part in [values[max(0, i - window + 1) : i + 1]]]


def _curve(series: Series, frame: _Frame) -> Html:
    colour = f"line-{series.colour}"
    if len(series.points) < 2 * _SMOOTH:
        dots = [
            element("circle", cx=frame.x(x), cy=frame.y(y), r=2.5, class_=f"point {colour}") for x, y in series.points
        ]
        return join(_path(series.points, frame, f"curve {colour}"), dots)
    smooth = trailing_mean([y for _, y in series.points], _SMOOTH)
    bold = [(x, y) for (x, _), y in zip(series.points, smooth, strict=True)]
    return join(_path(series.points, frame, f"curve thin {colour}"), _path(bold, frame, f"curve {colour}"))


def _path(points: Sequence[tuple[float, float]], frame: _Frame, class_: str) -> Html:
    text = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in points)
    return element("polyline", points=text, class_=class_)


def _whiskers(low: float, high: float, height: float) -> Html:
    middle = height / 2
    caps = [_line(x, middle - 5, x, middle + 5, "whisker") for x in (low, high)]
    return join(_line(low, middle, high, middle, "whisker"), caps)


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def _svg(size: tuple[float, float], said: str, *children: Child, class_: str) -> Html:
    box = f"0 0 {size[0]:g} {size[1]:g}"
    return element("svg", *children, viewBox=box, role="img", aria_label=said, class_=class_)
