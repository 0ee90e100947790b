import random

import pytest

from luthier.search.candidate import Candidate
from luthier.search.merging import Member, Merging, lineage, merged, shared_ancestors, subsample

# A family of four over components a, b, c and six questions, worked by hand:
#   0  a0 b0 c0  scores 1 0 0 0 0 0                 the start
#   1  a1 b0 c0  scores 1 1 1 0 0 0   child of 0    changed a
#   2  a0 b2 c0  scores 1 0 0 1 1 0   child of 0    changed b
#   3  a1 b0 c3  scores 0 0 1 0 0 1   child of 1    changed c, and is worse than 1
START = {"a": "a0", "b": "b0", "c": "c0"}


def member(scores, parents=(), **texts):
    return Member(Candidate.make({**START, **texts}), tuple(map(float, scores)), parents)


POOL = [
    member((1, 0, 0, 0, 0, 0)),
    member((1, 1, 1, 0, 0, 0), (0,), a="a1"),
    member((1, 0, 0, 1, 1, 0), (0,), b="b2"),
    member((0, 0, 1, 0, 0, 1), (1,), a="a1", c="c3"),
]
ANY = random.Random(0)


def test_a_lineage_holds_all_ancestors():
    assert [lineage(POOL, place) for place in range(4)] == [set(), {0}, {0}, {0, 1}]
    both = [*POOL, member((1, 1, 1, 1, 1, 0), (2, 3), a="a1", b="b2")]
    assert lineage(both, 4) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("pair", "ancestors"),
    [((1, 2), [0]), ((2, 3), [0]), ((0, 1), []), ((1, 3), [])],
    ids=["siblings", "uncle and nephew", "start and child", "parent and child"],
)
def test_only_candidates_beside_each_other_share_an_ancestor(pair, ancestors):
    assert shared_ancestors(POOL, *pair) == ancestors


def test_an_ancestor_that_is_better_than_a_parent_is_none():
    better = [member((1, 1, 1, 0, 0, 0)), *POOL[1:3], member((1, 0, 0, 0, 0, 0), (0,), c="c3")]
    assert shared_ancestors(better, 1, 3) == []
    assert shared_ancestors(better, 1, 2) == [0]


def test_parents_that_changed_the_same_components_have_nothing_to_share():
    rivals = [POOL[0], POOL[1], member((1, 0, 0, 1, 1, 0), (0,), a="a2")]
    assert shared_ancestors(rivals, 1, 2) == []


def test_each_component_comes_from_the_parent_that_changed_it():
    child = merged(POOL, 1, 2, 0, ANY)
    assert dict(child.texts) == {"a": "a1", "b": "b2", "c": "c0"}
    assert child.parents == (POOL[1].candidate.digest, POOL[2].candidate.digest)


def test_of_two_changes_the_better_parent_s_is_taken_and_a_tie_is_drawn():
    pool = [POOL[0], POOL[1], member((1, 0, 0, 1, 0, 0), (0,), a="a2", b="b2")]
    assert {merged(pool, 1, 2, 0, random.Random(seed)).text("a") for seed in range(20)} == {"a1"}
    tied = [POOL[0], POOL[1], member((1, 0, 0, 1, 1, 0), (0,), a="a2", b="b2")]
    assert {merged(tied, 1, 2, 0, random.Random(seed)).text("a") for seed in range(20)} == {"a1", "a2"}


def test_a_text_that_both_changed_alike_stays():
    pool = [POOL[0], POOL[1], member((1, 0, 0, 1, 1, 0), (0,), a="a1", b="b2")]
    assert merged(pool, 1, 2, 0, ANY).text("a") == "a1"


def test_the_test_questions_show_where_either_parent_is_better():
    # first better at 1, 2; second at 3, 4; ties at 0, 5: two, two and one of the ties.
    drawn = {subsample(POOL[1].scores, POOL[2].scores, random.Random(seed)) for seed in range(40)}
    assert all(set(row[:2]) == {1, 2} and set(row[2:4]) == {3, 4} for row in drawn)
    assert {row[4] for row in drawn} == {0, 5}
    # Nowhere better: ties first, then any others; always five distinct ones.
    assert sorted(subsample((1.0,) * 5, (1.0,) * 5, ANY)) == [0, 1, 2, 3, 4]


def test_a_merge_is_due_once_after_an_accepted_child_and_never_made_twice():
    merging = Merging(2)
    assert merging.draft(POOL, ANY) is None
    merging.found()
    merge = merging.draft(POOL[:3], ANY)
    assert merge.parents == (1, 2)
    assert len(set(merge.questions)) == 5
    # Both have 1 at the tie in 0 and 0 at the tie in 5, and two of their own.
    assert merge.bar == 2.0 + (0 in merge.questions)
    assert merging.draft(POOL[:3], ANY) is None
    merging.found()
    assert merging.draft(POOL[:3], ANY) is None


def test_no_merge_beyond_the_limit_or_below_five_questions():
    never = Merging(0)
    never.found()
    assert never.draft(POOL[:3], ANY) is None
    few = Merging(2)
    few.found()
    pool = [Member(item.candidate, item.scores[:4], item.parents) for item in POOL[:3]]
    assert few.draft(pool, ANY) is None
    once = Merging(1)
    once.found()
    assert once.draft(POOL[:3], ANY) is not None
    once.accepted()
    once.found()
    other = [*POOL[:3], member((0, 0, 0, 0, 0, 1), (0,), c="c3")]
    assert once.draft(other, ANY) is None


def test_an_ancestor_that_scores_nothing_can_be_drawn():
    pool = [
        member((0, 0, 0, 0, 0)),
        member((1, 1, 0, 0, 0), (0,), a="a1"),
        member((0, 0, 1, 1, 0), (0,), b="b2"),
    ]
    merging = Merging(1)
    merging.found()
    assert merging.draft(pool, ANY).parents == (1, 2)
