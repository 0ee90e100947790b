"""Intervals and paired differences between contenders that answered the same questions.

Percentile bootstrap over questions (Efron and Tibshirani 1993, section 13.3), seeded, 95 %. Differences are
paired by question. A caller with several seeds gives each question's mean over them, so that the interval
speaks of new questions at the seeds measured, and reports the spread over seeds beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from luthier.errors import InputError

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over `n` questions with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float
    n: int


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
    if set(ours) != set(theirs):
        odd = sorted(set(ours) ^ set(theirs))
        raise InputError(
            f"{len(odd)} questions stand on one side only (first: {odd[0]})",
            where="comparison",
            fix="evaluate both contenders on the same questions; run again what ended as infra_error",
        )
    gaps = [ours[question] - theirs[question] for question in sorted(ours)]
    interval = mean_interval(gaps, resamples=resamples, seed=seed)
    return Difference(interval, sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps))
