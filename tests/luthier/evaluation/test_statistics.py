"""Intervals and paired differences against values worked by hand."""

from __future__ import annotations

import subprocess
import sys

import pytest

from luthier.errors import InputError
from luthier.evaluation.statistics import (
    Band,
    BreakEven,
    Costs,
    Interval,
    break_even,
    group_means,
    mean_curve,
    mean_interval,
    paired_difference,
    pareto_front,
    question_means,
    seeded_difference,
    spread,
)


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
        "from luthier.evaluation.statistics import paired_difference as d;"
        "print(d({f'q{i}': float(i % 3 == 0) for i in range(30)}, {f'q{i}': float(i % 2 == 0) for i in range(30)}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONHASHSEED": "7"})
    assert run.stdout.strip() == str(paired_difference(ours, theirs))


def costs(before, *per_use):
    return Costs(tuple(before), tuple(tuple(row) for row in per_use))


def test_break_even_without_variation_is_exact():
    found = break_even(costs([1000], [2, 2]), costs([100], [5, 5]))
    assert found == BreakEven("from", 300.0, 300.0, 300.0, 1.0, 900.0, 3.0)


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ((10, 2), (20, 5), "always"),
        ((10, 5), (20, 5), "always"),
        ((10, 4), (10, 5), "always"),
        ((20, 5), (10, 5), "never"),
        ((20, 6), (10, 5), "never"),
        ((10, 6), (10, 5), "never"),
        ((10, 5), (10, 5), "equal"),
    ],
)
def test_no_number_is_made_up_where_nothing_crosses(ours, theirs, verdict):
    found = break_even(costs([ours[0]], [ours[1]]), costs([theirs[0]], [theirs[1]]))
    assert (found.verdict, found.uses, found.low, found.high, found.agreement) == (verdict, None, None, None, 1.0)


def test_cheap_to_make_and_dear_to_use_is_ahead_only_at_first():
    found = break_even(costs([100], [5, 5]), costs([1000], [2, 2]))
    assert (found.verdict, found.uses, found.low, found.high) == ("until", 300.0, 300.0, 300.0)


def test_a_saving_that_may_be_none_leaves_the_interval_open():
    """Savings of the two questions are 4 and -1: a resample means 4, 1.5 or -1 with probability 1/4, 1/2, 1/4."""
    found = break_even(costs([30], [1, 6]), costs([0], [5, 5]))
    assert (found.verdict, found.uses, found.low, found.high) == ("from", 20.0, 7.5, None)
    assert found.agreement == pytest.approx(3 / 4, abs=0.05)


def test_seeds_widen_the_break_even():
    """Before use 40 or 80 by seed: resamples of two seeds mean 40, 60, 80, and each use saves 2."""
    found = break_even(costs([40, 80], [1, 1], [1, 1]), costs([0], [3, 3]))
    assert (found.uses, found.low, found.high) == (30.0, 20.0, 40.0)


def test_equal_seeds_are_drawn_together():
    """Seed 1 costs 10 more for both: paired, the gap is always 50."""
    found = break_even(costs([60, 70], [1], [1]), costs([10, 20], [2], [2]))
    assert (found.uses, found.low, found.high) == (50.0, 50.0, 50.0)


def test_break_even_needs_the_same_questions():
    with pytest.raises(InputError, match="did not pay for the same questions"):
        break_even(costs([1], [1, 1]), costs([1], [1]))


def test_the_front_keeps_ties_and_drops_what_is_beaten():
    points = [(0.9, 10.0), (0.8, 10.0), (0.9, 10.0), (0.5, 1.0), (0.5, 2.0), (0.95, 30.0)]
    assert pareto_front(points) == [True, False, True, True, False, True]


def test_question_means_and_their_spread():
    seeds = [{"a": 1.0, "b": 0.0}, {"b": 1.0, "a": 1.0}, {"a": 0.0, "b": 0.0}]
    assert question_means(seeds) == pytest.approx({"a": 2 / 3, "b": 1 / 3})
    found = spread(seeds)
    assert (found.means, found.low, found.high, found.deviation) == ((0.5, 1.0, 0.0), 0.0, 1.0, 0.5)
    assert spread(seeds[:1]).deviation is None
    with pytest.raises(InputError, match="1 questions stand on one side only"):
        question_means([{"a": 1.0}, {"a": 1.0, "b": 0.0}])


def test_group_means_weigh_groups_and_not_questions():
    scores = {"a": 1.0, "b": 0.0, "c": 0.0, "d": 1.0}
    groups = {"a": "x", "b": "x", "c": "x", "d": "y"}
    assert group_means(scores, groups) == pytest.approx({"x": 1 / 3, "y": 1.0})


def test_curves_start_where_every_seed_has_a_score():
    bands = mean_curve([[(1.0, 0.0), (3.0, 1.0)], [(2.0, 0.5)]])
    assert bands == (Band(2.0, 0.25, 0.0, 0.5), Band(3.0, 0.75, 0.5, 1.0))
    assert mean_curve([[(1.0, 0.0)], []]) == ()


def test_seeds_widen_the_interval() -> None:
    even = [{"a": 1.0, "b": 0.0, "c": 1.0, "d": 0.0}] * 3
    same = seeded_difference(even, even, resamples=500)
    assert (same.mean, same.low, same.high, same.n) == (0.0, 0.0, 0.0, 4)
    uneven = [dict.fromkeys("abcd", score) for score in (1.0, 0.5, 0.0)]
    wide = seeded_difference(uneven, even, resamples=500)
    assert wide.mean == 0.0  # the means are 0.5 and 0.5
    assert wide.low < -0.2 < 0.2 < wide.high


def test_one_seed_of_each_leaves_the_questions() -> None:
    found = seeded_difference([{"a": 1.0, "b": 0.0}], [{"a": 0.0, "b": 0.0}], resamples=500)
    assert (found.mean, found.low, found.high) == (0.5, 0.0, 1.0)


def test_seeds_with_other_questions_are_refused() -> None:
    with pytest.raises(InputError):
        seeded_difference([{"a": 1.0}], [{"b": 1.0}])
