"""How much better one side's held-out scores are, when each side ran with some seeds of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from luthier.comparison import LEVEL, Interval, require_same_questions


def score_difference(
    ours: Sequence[Mapping[str, float]], theirs: Sequence[Mapping[str, float]], *, resamples: int = 10_000
) -> Interval:
    """Mean of our scores minus mean of theirs, with a 95 % bootstrap interval over questions and seeds.

    Questions are paired. Seeds are not: the two sides draw differently, so each side's seeds are resampled alone.
    Of three seeds the interval is rough, and too narrow rather than too wide.

    Args:
        ours: Question id -> score, one table a seed.
        theirs: The same of the other side.
        resamples: Bootstrap resamples.

    Raises:
        InputError: the tables hold different questions.
    """
    import numpy as np

    for table in (*ours, *theirs):
        require_same_questions(ours[0], table)
    questions = sorted(ours[0])
    left, right = (np.array([[table[q] for q in questions] for table in side]) for side in (ours, theirs))
    draws = np.random.default_rng(0)
    gaps = []
    for _ in range(resamples):
        asked = draws.integers(0, len(questions), len(questions))
        means = [side[draws.integers(0, len(side), len(side))][:, asked].mean() for side in (left, right)]
        gaps.append(means[0] - means[1])
    low, high = np.quantile(gaps, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(left.mean() - right.mean()), float(low), float(high), len(questions))
