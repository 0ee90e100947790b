"""Intervals and paired differences against values worked by hand."""

from __future__ import annotations

import subprocess
import sys

import pytest

from luthier.comparison import Interval, mean_interval, paired_difference
from luthier.errors import InputError


def test_equal_scores_have_an_interval_of_no_width():
    assert mean_interval([0.5, 0.5, 0.5]) == Interval(0.5, 0.5, 0.5, 3)
    assert mean_interval([1.0]) == Interval(1.0, 1.0, 1.0, 1)


def test_two_scores_resample_to_three_means():
    """A resample of {0, 1} has mean 0, 1/2 or 1 with probability 1/4, 1/2, 1/4; 2.5 % lies inside each tail."""
    assert mean_interval([0.0, 1.0]) == Interval(0.5, 0.0, 1.0, 2)


def test_one_success_in_forty_has_the_binomial_interval():
    """Successes in a resample are Binomial(40, 1/40): P(0) = 36 %, P(<= 2) = 92.3 %, P(<= 3) = 98.3 %."""
    interval = mean_interval([1.0] + [0.0] * 39, resamples=20_000)
    assert interval == Interval(1 / 40, 0.0, 3 / 40, 40)


def test_a_mean_without_questions_is_refused():
    with pytest.raises(InputError, match="no questions to average"):
        mean_interval([])


def test_differences_are_paired_by_question_and_count_both_directions():
    ours = {"a": 1.0, "b": 0.0, "c": 1.0, "d": 1.0}
    theirs = {"d": 1.0, "c": 0.0, "b": 1.0, "a": 0.0}
    found = paired_difference(ours, theirs)
    assert (found.rescued, found.regressed) == (2, 1)
    assert (found.interval.mean, found.interval.n) == (0.25, 4)
    # Gaps 1, -1, 1, 0. Of the 256 resamples 1 sums to -4 and 4 to -3 (2.0 % together), so that the 2.5 % point is
    # a sum of -2; 16 sum to 4 (6.3 %), so that the 97.5 % point is 4.
    assert (found.interval.low, found.interval.high) == (-0.5, 1.0)


def test_a_constant_gap_is_certain_however_the_scores_vary():
    ours = {str(i): float(i % 2) for i in range(10)}
    theirs = {key: value - 0.25 for key, value in ours.items()}
    found = paired_difference(ours, theirs)
    assert (found.interval.mean, found.interval.low, found.interval.high) == (0.25, 0.25, 0.25)


def test_unequal_question_sets_are_refused_by_name():
    with pytest.raises(InputError, match=r"2 questions stand on one side only \(first: b\).*Fix: evaluate both"):
        paired_difference({"a": 1.0, "b": 1.0}, {"a": 1.0, "c": 1.0})


def test_the_order_of_questions_and_the_hash_seed_do_not_matter():
    ours = {f"q{i}": float(i % 3 == 0) for i in range(30)}
    theirs = {f"q{i}": float(i % 2 == 0) for i in range(30)}
    backward = dict(reversed(ours.items()))
    assert paired_difference(ours, theirs) == paired_difference(backward, theirs)
    assert paired_difference(ours, theirs, seed=1) == paired_difference(ours, theirs, seed=1)
    code = (
        "from luthier.comparison import paired_difference as d;"
        "print(d({f'q{i}': float(i % 3 == 0) for i in range(30)}, {f'q{i}': float(i % 2 == 0) for i in range(30)}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONHASHSEED": "7"})
    assert run.stdout.strip() == str(paired_difference(ours, theirs))
