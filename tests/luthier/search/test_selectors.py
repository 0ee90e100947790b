import random

import pytest

from luthier.errors import InputError
from luthier.search.selectors import (
    Beam,
    Latest,
    NotWorse,
    ParetoFront,
    SelectBest,
    StrictImprovement,
    fronts,
    pareto_weights,
    ranking,
    selector_of,
    survivors,
)

# Candidates A, B, C, D (rows) on questions 0 to 4, worked by hand:
#   best per question   1.0   0.5   1.0   0.5   1.0
#   fronts              {A,C} {B,C} {A}   {B,D} {C,D}
#   means               A .50 = 2.5/5, B .30 = 1.5/5, C .40 = 2.0/5, D .36 = 1.8/5
# Pruning looks at B, D, C, A in this order. B: front 1 also holds C, front 3 also holds D, so B goes. D: front 3 is
# now {D} alone, so D stays. C: front 1 is now {C} alone, so C stays. A: front 2 is {A} alone, so A stays.
# Weights: A is in fronts 0 and 2, C in 0, 1 and 4, D in 3 and 4: {A: 2, C: 3, D: 2}.
MATRIX = (
    (1.0, 0.0, 1.0, 0.0, 0.5),
    (0.5, 0.5, 0.0, 0.5, 0.0),
    (1.0, 0.5, -0.5, 0.0, 1.0),
    (0.3, 0.0, 0.0, 0.5, 1.0),
)


def test_the_front_of_each_question():
    assert fronts(MATRIX) == [{0, 2}, {1, 2}, {0}, {1, 3}, {2, 3}]


def test_dominated_candidates_are_removed_and_the_rest_weighted_by_fronts():
    assert survivors(MATRIX) == [0, 2, 3]
    assert pareto_weights(MATRIX) == {0: 2, 2: 3, 3: 2}


def test_a_parent_is_drawn_as_often_as_its_weight_says():
    rng, drawn = random.Random(0), [0, 0, 0, 0]
    for _ in range(7000):
        drawn[ParetoFront().choose(MATRIX, rng)] += 1
    assert drawn[1] == 0
    # 7 tickets: expectations 2000, 3000, 2000; four standard deviations are below 170.
    assert all(abs(count - expected) < 170 for count, expected in zip(drawn, (2000, 0, 3000, 2000), strict=True))


def test_of_equal_candidates_one_stays():
    assert survivors([(1.0, 0.0), (1.0, 0.0)]) == [1]
    assert pareto_weights([(1.0, 1.0), (1.0, 1.0), (1.0, 1.0)]) == {2: 2}


def test_pruning_is_no_dominance_of_vectors():
    """B is nowhere better than A and C together, yet neither dominates it alone."""
    assert survivors([(1.0, 0.9, 0.0), (1.0, 0.0, 1.0), (0.0, 0.9, 1.0)]) == [1, 2]


def test_a_candidate_that_is_never_best_is_never_drawn():
    scores = [(1.0, 0.0), (0.9, 0.9), (0.0, 1.0)]
    assert pareto_weights(scores) == {0: 1, 2: 1}
    assert ranking(scores) == [1, 0, 2]
    assert SelectBest().choose(scores, random.Random(0)) == 1


def test_select_best_and_beam():
    assert ranking(MATRIX) == [0, 2, 3, 1]
    assert {Beam(2).choose(MATRIX, random.Random(seed)) for seed in range(50)} == {0, 2}
    assert {Beam(9).choose(MATRIX, random.Random(seed)) for seed in range(50)} == {0, 1, 2, 3}
    assert SelectBest().choose([(0.5,), (0.5,)], random.Random(0)) == 0


@pytest.mark.parametrize(
    ("parent", "child", "strict", "not_worse"),
    [
        ((0.0, 1.0), (1.0, 1.0), True, True),
        ((0.0, 1.0), (1.0, 0.0), False, True),
        ((1.0, 1.0), (1.0, 0.5), False, False),
        ((0.1, 0.2, 0.3), (0.3, 0.2, 0.1), False, True),
    ],
)
def test_acceptance(parent, child, strict, not_worse):
    assert StrictImprovement().accepts(parent, child) is strict
    assert NotWorse().accepts(parent, child) is not_worse


@pytest.mark.parametrize("scores", [[], [()], [(1.0,), (1.0, 0.0)]])
def test_scores_of_no_shape_are_refused(scores):
    with pytest.raises(InputError, match="rows of several lengths"):
        SelectBest().choose(scores, random.Random(0))


def test_a_beam_of_nothing_is_refused():
    with pytest.raises(InputError, match="width"):
        Beam(0)


def test_the_latest_is_chosen_whatever_it_scores():
    assert Latest().choose(MATRIX, random.Random(0)) == 3
    with pytest.raises(InputError, match="no candidate"):
        Latest().choose([], random.Random(0))


@pytest.mark.parametrize(
    ("name", "width", "rule"),
    [("pareto", 2, ParetoFront()), ("best", 2, SelectBest()), ("beam", 2, Beam(2)), ("latest", 2, Latest())],
)
def test_a_setting_names_a_selector(name, width, rule):
    assert selector_of(name, width) == rule


@pytest.mark.parametrize(("name", "width", "field"), [("tpe", 4, "selector"), ("beam", 0, "width")])
def test_a_setting_that_names_no_selector_is_refused(name, width, field):
    with pytest.raises(InputError, match=f"field {field}"):
        selector_of(name, width)
