"""Axes for scatter and line plots: linear and logarithmic scales, ticks, labels that keep apart. SVG, no script."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from luthier.report.html.charts import ticks
from luthier.report.html.markup import Child, Html, element, join

WIDTH, HEIGHT = 560.0, 350.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, 150.0, 26.0, 44.0
_LINE = 14.0
"""Least distance between two labels, in pixels of the drawing."""
_SHORT, _GAP = 42.0, 9.0
"""Width of a short label, a number, and its distance from what it names."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps values to positions between `start` and `end`, and says where its ticks are.

    Attributes:
        low, high: Values at the two ends. log: Whether equal factors take equal room.
        marks: Ticks, all between the ends.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool
    marks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Position of a value; one beyond the ends stays at the end."""
        if self.log:
            value, low, high = (math.log10(max(v, self.low)) for v in (value, self.low, self.high))
        else:
            low, high = self.low, self.high
        share = min(max((value - low) / (high - low), 0.0), 1.0)
        return self.start + (self.end - self.start) * share


def linear(low: float, high: float, start: float, end: float) -> Axis:
    """An axis whose ends are round numbers around the values."""
    marks = ticks(low, high)
    return Axis(marks[0], marks[-1], start, end, False, marks)


def logarithmic(low: float, high: float, start: float, end: float) -> Axis:
    """An axis from the power of ten at or below `low` (> 0) to the first 1, 2 or 5 times one at or above `high`."""
    first = 10.0 ** math.floor(math.log10(low) + 1e-9)
    exponents = range(math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(max(high, first))) + 2)
    steps = [m * 10.0**e for e in exponents for m in (1, 2, 5)]
    last = next(step for step in steps if step >= max(high, first * 10) * 0.999)
    powers = tuple(10.0**e for e in exponents if first <= 10.0**e <= last * 1.001)
    marks = powers if len(powers) > 3 else tuple(step for step in steps if first <= step <= last * 1.001)
    return Axis(first, last, start, end, True, marks)


def spanning(values: Sequence[float], start: float, end: float) -> Axis:
    """An axis for positive values: logarithmic when they differ by more than a factor of 20, else linear from 0."""
    positive = [value for value in values if value > 0]
    if positive and max(positive) > 20 * min(positive):
        return logarithmic(min(positive), max(positive), start, end)
    return linear(0.0, max(positive, default=1.0), start, end)


def plot(
    title: str,
    said: str,
    across: Axis,
    up: Axis,
    content: Child,
    *,
    x_label: str,
    y_label: str,
    x_mark: Callable[[float], str],
    y_mark: Callable[[float], str],
    data: dict[str, str | None] | None = None,
) -> Html:
    """A figure: grid, ticks, labels of both axes, and what is drawn between them.

    Args:
        title: Heading.
        said: The text alternative.
        across: The horizontal axis.
        up: The upright axis.
        content: SVG elements.
        x_label: What the horizontal axis counts; a logarithmic one says so.
        y_label: The same for the upright one.
        x_mark: Prints a tick.
        y_mark: Prints a tick.
        data: `data-*` attributes of the figure, None left out.
    """
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts: list[Html] = []
    for mark in up.marks:
        parts.append(line(LEFT, up.place(mark), right, up.place(mark), "grid"))
        parts.append(element("text", y_mark(mark), x=LEFT - 7, y=up.place(mark) + 4, text_anchor="end"))
    for mark in across.marks:
        parts.append(line(across.place(mark), TOP, across.place(mark), bottom, "grid"))
        parts.append(element("text", x_mark(mark), x=across.place(mark), y=bottom + 16, text_anchor="middle"))
    parts.append(line(LEFT, bottom, right, bottom, "axis"))
    parts.append(element("text", y_label + _scale(up), x=6.0, y=13.0, class_="unit"))
    parts.append(element("text", x_label + _scale(across), x=right, y=HEIGHT - 8, text_anchor="end", class_="unit"))
    drawing = element(
        "svg",
        parts,
        content,
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        role="img",
        aria_label=f"{title}: {said}",
        class_="plot",
    )
    attributes = {f"data_{name}": value for name, value in (data or {}).items()}
    return element("figure", element("figcaption", title), drawing, class_="plot-figure", **attributes)


def _scale(axis: Axis) -> str:
    return " (log scale)" if axis.log else ""


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    """A straight line."""
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def path(points: Sequence[tuple[float, float]], class_: str) -> Html:
    """A line through positions."""
    return element("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=class_)


def area(points: Sequence[tuple[float, float]], class_: str) -> Html:
    """A filled shape."""
    return element("polygon", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=class_)


def steps(points: Sequence[tuple[float, float]], until: float) -> list[tuple[float, float]]:
    """Corners of a line that keeps each value until the next point, the last one until `until`."""
    corners: list[tuple[float, float]] = []
    for x, y in points:
        if corners:
            corners.append((x, corners[-1][1]))
        corners.append((x, y))
    return [*corners, (max(until, corners[-1][0]), corners[-1][1])] if corners else []


def whisker(x: float, low: float, high: float, *, upright: bool = True) -> Html:
    """An interval with caps, upright at x, or lying at height x."""
    ends = [(x, low), (x, high)] if upright else [(low, x), (high, x)]
    caps = [(x - 4, y, x + 4, y) if upright else (y, x - 4, y, x + 4) for y in (low, high)]
    return join(line(*ends[0], *ends[1], "whisker"), [line(*cap, "whisker") for cap in caps])


def marker(kind: str, x: float, y: float, said: str, *, hollow: bool = False) -> Html:
    """A contender's point: a disc when learned, a square when searched, a diamond when fixed."""
    tip, class_ = element("title", said), "mark hollow" if hollow else "mark"
    if kind == "learned":
        return element("circle", tip, cx=float(x), cy=float(y), r=5.5, class_=class_)
    size = 4.8
    square = {"x": x - size, "y": y - size, "width": 2 * size, "height": 2 * size}
    turned = f"rotate(45 {x:.1f} {y:.1f})" if kind == "fixed" else None
    return element("rect", tip, **square, class_=class_, transform=turned)


def keep_apart(heights: Sequence[float], low: float, high: float) -> list[float]:
    """Heights of labels moved as little as a single pass needs, so that they do not overlap.

    Args:
        heights: Wanted positions in any order.
        low: Least height.
        high: Greatest height; when there is no room for all, labels pass `low`.
    """
    order = sorted(range(len(heights)), key=lambda i: (heights[i], i))
    placed = [0.0] * len(heights)
    floor = low
    for index in order:
        placed[index] = max(heights[index], floor)
        floor = placed[index] + _LINE
    ceiling = high
    for index in reversed(order):
        placed[index] = min(placed[index], ceiling)
        ceiling = placed[index] - _LINE
    return placed


def heights_above(points: Sequence[tuple[float, float]]) -> list[float]:
    """Heights of short labels over these points; one that would meet that of its left neighbour goes above it.

    Args:
        points: Positions in any order.
    """
    heights = [0.0] * len(points)
    last_x, last = -math.inf, math.inf
    for number in sorted(range(len(points)), key=lambda n: points[n]):
        x, y = points[number]
        heights[number] = y - _GAP if x - last_x >= _SHORT else min(y - _GAP, last - _LINE)
        last_x, last = x, heights[number]
    return heights


def end_label(text: str, x: float, y: float, at: float) -> Html:
    """A name to the right of the plot at height `at`, with a hair line from its point (x, y)."""
    edge = WIDTH - RIGHT + 8
    return join(line(x, y, edge, at, "leader"), element("text", text, x=edge + 4, y=at + 4, class_="name"))
