"""How figures are printed: one place, so that the sentence, the tables and the charts say the same."""

from __future__ import annotations

from luthier.evaluation.statistics import Interval

NONE = "–"
"""Printed where there is nothing to print."""


def percent(share: float) -> str:
    """A share in per cent: 0.912 is 91.2 %."""
    return f"{100 * share:.1f} %"


def whole_percent(share: float) -> str:
    """A share in whole per cent, for cells whose heading says so: 0.912 is 91."""
    return f"{100 * share:.0f}"


def points(share: float) -> str:
    """A difference in percentage points: 0.712 is +71.2."""
    return f"{100 * share:+.1f}".replace("-", "−")


def bounds(interval: Interval) -> str:
    """An interval in per cent, as in [87.1, 94.7]."""
    return f"[{100 * interval.low:.1f}, {100 * interval.high:.1f}]".replace("-", "−")


def estimate(interval: Interval) -> str:
    """A score with its interval, as in 91.2 % [87.1, 94.7]."""
    return f"{percent(interval.mean)} {bounds(interval)}"


def difference(interval: Interval) -> str:
    """A difference with its interval, as in +74.1 points [67.6, 80.6]."""
    return f"{points(interval.mean)} points {bounds(interval)}"


def reading(gap: Interval) -> str:
    """What the interval of a difference allows to say; what only rounding keeps from 0 is 0."""
    if gap.above_zero:
        return "better"
    return "worse" if gap.below_zero else "the interval holds 0: undecided"


def count(value: float) -> str:
    """A count with its thousands separated; fractions keep one decimal."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def short(digest: str) -> str:
    """The first digits of a digest, enough for a person to compare."""
    return digest[:12]
