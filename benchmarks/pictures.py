"""The README's picture, from recorded rows: accuracy against what was spent before the first use.

Equal rows give equal bytes; a test holds the committed picture against them.

    python -m benchmarks.pictures
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from benchmarks.workspace import ROOT

ROWS = ROOT / "docs" / "results" / "comparison.csv"
PICTURE = ROOT / "docs" / "pictures" / "comparison.svg"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 56, 190, 20, 48
HIGHEST_PERCENT, HIGHEST_USD, LEAST_USD, LABEL_HEIGHT = 80.0, 0.019, 0.007, 15.0
COLOURS = {
    "MAS-Architect": "#b3261e",
    "MIPROv2": "#1f4e79",
    "DSPy bootstrap": "#2e7d32",
    "GEPA": "#6a4c93",
    "OptoPrime": "#8d6e63",
    "TextGrad": "#00838f",
}


@dataclass(frozen=True, slots=True)
class Point:
    """One row: mean in per cent with its interval, None where it was not measured, at a spending in USD."""

    method: str
    kind: str
    spent: float | None
    mean: float
    low: float | None
    high: float | None


def read_points(path: Path = ROWS) -> list[Point]:
    """The rows of the file, in order."""

    def number(text: str) -> float | None:
        return float(text) if text else None

    with path.open(encoding="utf-8", newline="") as file:
        return [
            Point(
                row["method"],
                row["kind"],
                number(row["spent_usd"]),
                float(row["mean"]),
                number(row["low"]),
                number(row["high"]),
            )
            for row in csv.DictReader(file)
        ]


def draw(points: Sequence[Point]) -> str:
    """The picture as SVG text."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        ' font-size="12" role="img" aria-label="Accuracy against total spending">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *_axes(),
    ]
    labels: list[tuple[float, str, str]] = []
    for name in dict.fromkeys(point.method for point in points):
        mine = [point for point in points if point.method == name]
        colour = COLOURS.get(name, "#666")
        parts += _line(mine, colour) if mine[0].spent is not None else _level(mine[0])
        labels.append((_y(mine[-1].mean), name, colour))
    return "\n".join([*parts, *_labels(labels), "</svg>"]) + "\n"


def _x(usd: float) -> float:
    return LEFT + (usd - LEAST_USD) / (HIGHEST_USD - LEAST_USD) * (WIDTH - LEFT - RIGHT)


def _y(percent: float) -> float:
    return HEIGHT - BOTTOM - percent / HIGHEST_PERCENT * (HEIGHT - TOP - BOTTOM)


def _axes() -> list[str]:
    parts = []
    for percent in range(0, int(HIGHEST_PERCENT) + 1, 20):
        y = _y(percent)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#444">{percent} %</text>')
    for usd in (0.008, 0.013, 0.018):
        parts.append(
            f'<text x="{_x(usd):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle" fill="#444">{usd}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    words = "spent on data, training and search, USD (nominal tariff)"
    parts.append(f'<text x="{middle:.1f}" y="{HEIGHT - 10}" text-anchor="middle" fill="#444">{words}</text>')
    return parts


def _line(points: Sequence[Point], colour: str) -> list[str]:
    places = [(_x(point.spent), point) for point in points if point.spent is not None]
    path = " ".join(f"{x:.1f},{_y(point.mean):.1f}" for x, point in places)
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>']
    for x, point in places:
        if point.low is not None and point.high is not None:
            low, high = _y(point.low), _y(point.high)
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="{colour}" opacity="0.5"/>'
            )
        parts.append(f'<circle cx="{x:.1f}" cy="{_y(point.mean):.1f}" r="4" fill="{colour}"/>')
    return parts


def _level(point: Point) -> list[str]:
    y = _y(point.mean)
    dashes = "6 4" if point.kind == "lookup" else "2 4"
    return [
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#666" stroke-dasharray="{dashes}"/>'
    ]


def _labels(labels: Sequence[tuple[float, str, str]]) -> list[str]:
    """Names at the right end, moved apart where they would touch."""
    parts, below = [], float("-inf")
    for y, name, colour in sorted(labels):
        place = max(y, below + LABEL_HEIGHT)
        below = place
        x = WIDTH - RIGHT + 8
        parts.append(f'<text x="{x}" y="{place + 4:.1f}" fill="{colour}">{escape(name)}</text>')
    return parts


def main() -> int:
    """Write the picture."""
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(draw(read_points()), encoding="utf-8")
    print(PICTURE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
