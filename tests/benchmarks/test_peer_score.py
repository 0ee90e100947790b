"""The difference of two sides that ran with seeds of their own."""

from __future__ import annotations

import pytest

from benchmarks.peer_score import score_difference
from luthier.errors import InputError


def test_seeds_widen_the_interval() -> None:
    even = [{"a": 1.0, "b": 0.0, "c": 1.0, "d": 0.0}] * 3
    same = score_difference(even, even, resamples=500)
    assert (same.mean, same.low, same.high, same.n) == (0.0, 0.0, 0.0, 4)
    uneven = [dict.fromkeys("abcd", score) for score in (1.0, 0.5, 0.0)]
    wide = score_difference(uneven, even, resamples=500)
    assert wide.mean == 0.0  # the means are 0.5 and 0.5
    assert wide.low < -0.2 < 0.2 < wide.high


def test_one_seed_leaves_the_questions() -> None:
    found = score_difference([{"a": 1.0, "b": 0.0}], [{"a": 0.0, "b": 0.0}], resamples=500)
    assert (found.mean, found.low, found.high) == (0.5, 0.0, 1.0)


def test_other_questions_are_refused() -> None:
    with pytest.raises(InputError):
        score_difference([{"a": 1.0}], [{"b": 1.0}])
