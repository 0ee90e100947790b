"""The arithmetic of comparing contenders that answered the same questions: intervals, differences, break-even.

Percentile bootstrap over questions (Efron and Tibshirani 1993, section 13.3), seeded, 95 %. Differences are
paired by question. A caller with several seeds gives each question's mean over them, so that the interval
speaks of new questions at the seeds measured, and reports the spread over seeds beside it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from luthier.errors import InputError

LEVEL = 0.95
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over `n` questions with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def above_zero(self) -> bool:
        """Whether all of it lies above 0; what only rounding keeps from 0 is 0."""
        return self.low > _ROUNDING

    @property
    def below_zero(self) -> bool:
        """Whether all of it lies below 0, rounding aside."""
        return self.high < -_ROUNDING


@dataclass(frozen=True, slots=True)
class Difference:
    """Paired difference `ours - theirs`, with the questions won and lost.

    Attributes:
        interval: Of the mean difference. rescued, regressed: Questions where ours scored higher, lower.
    """

    interval: Interval
    rescued: int
    regressed: int


def mean_interval(values: Sequence[float], *, resamples: int = 2000, seed: int = 0) -> Interval:
    """Mean of per-question scores with its interval.

    Raises:
        InputError: no values; a figure without a denominator is not printed.
    """
    import numpy as np

    if not len(values):
        raise InputError("no questions to average", where="comparison", fix="evaluate on at least one question")
    array = np.asarray(values, dtype=float)
    draws = np.random.default_rng(seed).integers(0, len(array), size=(resamples, len(array)))
    means = array[draws].mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(array.mean()), float(low), float(high), len(array))


def paired_difference(
    ours: Mapping[str, float], theirs: Mapping[str, float], *, resamples: int = 2000, seed: int = 0
) -> Difference:
    """Difference over the questions of both.

    Args:
        ours: Question id -> score.
        theirs: The same for the other contender.
        resamples: Bootstrap resamples.
        seed: Of the resampling.

    Raises:
        InputError: the two did not answer the same questions.
    """
    require_same_questions(ours, theirs)
    gaps = [ours[question] - theirs[question] for question in sorted(ours)]
    interval = mean_interval(gaps, resamples=resamples, seed=seed)
    return Difference(interval, sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps))


def seeded_difference(
    ours: Sequence[Mapping[str, float]], theirs: Sequence[Mapping[str, float]], *, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Mean of our scores minus mean of theirs, with an interval that speaks of new questions and new seeds.

    Questions are paired. Seeds are not: the two sides draw differently, so each side's seeds are resampled alone.
    Of three seeds the interval is rough, and too narrow rather than too wide.

    Args:
        ours: Question id -> score, one table a seed.
        theirs: The same of the other side.
        resamples: Bootstrap resamples.
        seed: Of the resampling.

    Raises:
        InputError: the tables hold different questions.
    """
    import numpy as np

    for table in (*ours, *theirs):
        require_same_questions(ours[0], table)
    questions = sorted(ours[0])
    rng = np.random.default_rng(seed)
    asked = _shares(rng, resamples, len(questions))
    tables = [[[table[question] for question in questions] for table in side] for side in (ours, theirs)]
    left, right = (_resampled(table, _shares(rng, resamples, len(table)), asked) for table in tables)
    gaps = [_unless_rounding(a - b, a) for a, b in zip(left, right, strict=True)]
    low, high = np.quantile(gaps, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(np.mean(tables[0]) - np.mean(tables[1])), float(low), float(high), len(questions))


# --- several seeds and families ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spread:
    """What other seeds gave: the mean of each, and their sample standard deviation (None for one seed)."""

    means: tuple[float, ...]
    deviation: float | None

    @property
    def low(self) -> float:
        """The lowest seed's mean."""
        return min(self.means)

    @property
    def high(self) -> float:
        """The highest seed's mean."""
        return max(self.means)


def question_means(by_seed: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Question id -> mean over seeds, sorted by id.

    Raises:
        InputError: the seeds answered different questions, or there is none.
    """
    if not by_seed or not by_seed[0]:
        raise InputError("no questions to average", where="comparison", fix="evaluate on at least one question")
    for scores in by_seed[1:]:
        require_same_questions(by_seed[0], scores)
    return {question: math.fsum(s[question] for s in by_seed) / len(by_seed) for question in sorted(by_seed[0])}


def spread(by_seed: Sequence[Mapping[str, float]]) -> Spread:
    """The mean of every seed and how far they lie apart."""
    means = tuple(math.fsum(scores.values()) / len(scores) for scores in by_seed)
    return Spread(means, statistics.stdev(means) if len(means) > 1 else None)


def group_means(scores: Mapping[str, float], groups: Mapping[str, str]) -> dict[str, float]:
    """Mean per group (family, task), sorted by its name; their plain mean is the equal-weight mean.

    Args:
        scores: Question id -> score.
        groups: Question id -> group.
    """
    found: dict[str, list[float]] = {}
    for question in sorted(scores):
        found.setdefault(groups[question], []).append(scores[question])
    return {name: math.fsum(values) / len(values) for name, values in sorted(found.items())}


def require_same_questions(ours: Collection[str], theirs: Collection[str]) -> None:
    """Refuse two sets of questions that differ.

    Raises:
        InputError: they do; how many and the first one are named.
    """
    odd = sorted(set(ours) ^ set(theirs))
    if odd:
        raise InputError(
            f"{len(odd)} questions stand on one side only (first: {odd[0]})",
            where="comparison",
            fix="evaluate both contenders on the same questions; run again what ended as infra_error",
        )


# --- score against spend ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Band:
    """Mean, lowest and highest score over seeds once each of them had spent this much."""

    spent: float
    mean: float
    low: float
    high: float


def mean_curve(curves: Sequence[Sequence[tuple[float, float]]]) -> tuple[Band, ...]:
    """Average step curves of several seeds; each holds its last score until its next point.

    Starts where the last seed has its first score: before that there is no mean over all of them.

    Args:
        curves: Points (spent, score) of each seed, in order of spend.
    """
    if not curves or not all(curves):
        return ()
    start = max(curve[0][0] for curve in curves)
    bands = []
    for spent in sorted({x for curve in curves for x, _ in curve if x >= start}):
        scores = [[score for x, score in curve if x <= spent][-1] for curve in curves]
        bands.append(Band(spent, math.fsum(scores) / len(scores), min(scores), max(scores)))
    return tuple(bands)


def pareto_front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Whether each (score, cost) is on the front: none scores at least as much for no more, one of them strictly."""
    return [not any(s >= score and c <= cost and (s > score or c < cost) for s, c in points) for score, cost in points]


# --- break-even -------------------------------------------------------------------------------------------------

Verdict = Literal["from", "until", "always", "never", "equal"]
"""When ours is the cheaper one. from: after some uses. until: only before some uses. always: from the first use on.
never: at no number of uses. equal: both always cost the same."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What a contender costs, in one unit.

    Attributes:
        before: Spent before the first use, for each seed.
        per_use: Shape (seeds, questions): cost of each test question, all contenders in the same order.
    """

    before: tuple[float, ...]
    per_use: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class BreakEven:
    """From how many uses on ours costs less in total, all uses equal in worth.

    Attributes:
        verdict: See `Verdict`. No number is given but for `from` and `until`.
        uses: n* = gap / saving, None without a crossing.
        low, high: 95 % bounds of n*; None on a side where the resamples set no bound.
        agreement: Share of resamples with the same verdict.
        gap: Ours minus theirs, before use. saving: Theirs minus ours, for one use.
    """

    verdict: Verdict
    uses: float | None
    low: float | None
    high: float | None
    agreement: float
    gap: float
    saving: float


def break_even(ours: Costs, theirs: Costs, *, resamples: int = 2000, seed: int = 0) -> BreakEven:
    """Uses n* = (cost before use of ours - of theirs) / (cost per use of theirs - of ours).

    The bounds are percentiles of a bootstrap over questions and, independently of them, seeds; both contenders get
    the same questions in every resample, and the same seeds when they have equally many (paired). A resample
    without a crossing counts as 0 or as infinite uses, whichever side it is on, so that a saving that may be none
    leaves the interval open instead of narrowing it (ours).

    Raises:
        InputError: not the same number of questions, or none.
    """
    import numpy as np

    shapes = {len(row) for costs in (ours, theirs) for row in costs.per_use}
    if len(shapes) != 1 or 0 in shapes or not ours.before or not theirs.before:
        raise InputError(
            "the contenders did not pay for the same questions", where="break-even", fix="evaluate both on all of them"
        )
    rng = np.random.default_rng(seed)
    questions = shapes.pop()
    picked = _shares(rng, resamples, questions)
    drawn: dict[int, Any] = {}
    befores, uses = [], []
    for costs in (ours, theirs):
        seeds = len(costs.before)
        if seeds not in drawn:
            drawn[seeds] = _shares(rng, resamples, seeds)
        befores.append(drawn[seeds] @ np.asarray(costs.before, dtype=float))
        uses.append(_resampled(costs.per_use, drawn[seeds], picked))
    points = [(float(np.mean(c.before)), float(np.mean(c.per_use))) for c in (ours, theirs)]
    gap = _unless_rounding(points[0][0] - points[1][0], points[0][0])
    saving = _unless_rounding(points[1][1] - points[0][1], points[1][1])
    gaps = [_unless_rounding(a - b, a) for a, b in zip(befores[0], befores[1], strict=True)]
    savings = [_unless_rounding(b - a, b) for a, b in zip(uses[0], uses[1], strict=True)]
    verdict = _verdict(gap, saving)
    verdicts = [_verdict(g, s) for g, s in zip(gaps, savings, strict=True)]
    agreement = sum(item == verdict for item in verdicts) / resamples
    if verdict not in ("from", "until"):
        return BreakEven(verdict, None, None, None, agreement, gap, saving)
    far = ("never", "until", "equal") if verdict == "from" else ("always",)
    values = [
        g / s if v == verdict else math.inf if v in far else 0.0
        for g, s, v in zip(gaps, savings, verdicts, strict=True)
    ]
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    return BreakEven(verdict, gap / saving, _finite(low), _finite(high), agreement, gap, saving)


def _verdict(gap: float, saving: float) -> Verdict:
    if gap > 0:
        return "from" if saving > 0 else "never"
    if gap < 0:
        return "until" if saving < 0 else "always"
    return "equal" if saving == 0 else "always" if saving > 0 else "never"


def _shares(rng: Any, resamples: int, size: int) -> Any:
    """Shape (resamples, size): the share of each item in each resample."""
    import numpy as np

    flat = rng.integers(0, size, size=(resamples, size)) + size * np.arange(resamples)[:, None]
    return np.bincount(flat.ravel(), minlength=resamples * size).reshape(resamples, size) / size


def _resampled(table: Sequence[Sequence[float]], seeds: Any, questions: Any) -> Any:
    """Shape (resamples,): means of a table of shape (seeds, questions) under the shares of both."""
    import numpy as np

    return np.einsum("rs,sq,rq->r", seeds, np.asarray(table, dtype=float), questions)


def _unless_rounding(value: float, scale: float) -> float:
    """The value, 0 when it is no more than a rounding error of sums of this scale."""
    return 0.0 if abs(value) <= 1e-9 * abs(scale) else float(value)


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else float(value)
