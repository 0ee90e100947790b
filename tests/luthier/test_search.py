import json

import pytest

from luthier.budget import Amount
from luthier.errors import InputError
from luthier.search import Candidate, Demonstration, LogRow, Result, Scope

SHOT = Demonstration("q1", (("question", "1+1"), ("hint", "add")), "2", "bootstrapped")
OTHER = Demonstration("q2", (("question", "2+2"),), "4", "labelled")
START = Candidate.make({"b": "solve", "a": "plan"}, {"b": [SHOT, OTHER], "a": []})


def test_content_alone_makes_the_digest():
    same = Candidate.make({"a": "plan", "b": "solve"}, {"b": (SHOT, OTHER)}, parents=["x"])
    assert same == START
    assert same.digest == START.digest
    for other in (
        START.with_texts({"a": "Plan"}),
        START.with_shots({"b": [OTHER, SHOT]}),
        START.with_shots({}),
        Candidate.make({"a": "solve", "b": "plan"}, {"b": (SHOT, OTHER)}),
    ):
        assert other.digest != START.digest
        assert other.parents in ((START.digest,), ())


def test_a_row_comes_back_without_loss():
    child = START.with_texts({"a": "plan well\u2028"})
    back = Candidate.from_row(json.loads(json.dumps(child.to_row())))
    assert (back, back.parents, back.digest) == (child, child.parents, child.digest)


def test_leaving_out_a_question():
    assert START.without("q1").shots("b") == (OTHER,)
    assert START.without("q9") is START


def test_unknown_components_are_named():
    for wrong in (
        lambda: START.text("c"),
        lambda: START.with_texts({"c": "x"}),
        lambda: Candidate.make({"a": "x"}, {"c": [SHOT]}),
        lambda: Candidate.make({}),
    ):
        with pytest.raises(InputError, match="component"):
            wrong()


@pytest.mark.parametrize(
    ("scope", "child", "allowed"),
    [
        (Scope(("a",)), START.with_texts({"a": "x"}), True),
        (Scope(("a",)), START.with_texts({"b": "x"}), False),
        (Scope(("a", "b")), START.with_shots({}), False),
        (Scope((), demonstrations=True), START.with_shots({"a": [SHOT]}), True),
        (Scope(("a", "b"), demonstrations=True), Candidate.make({"a": "plan"}), False),
    ],
)
def test_the_scope_holds(scope, child, allowed):
    if allowed:
        scope.check(START, child)
    else:
        with pytest.raises(InputError, match="scope"):
            scope.check(START, child)


def test_the_scope_is_printed():
    assert Scope(("a",), demonstrations=True, feedback="score").render() == (
        "instructions + demonstrations of a (at most 2000 characters each); proposers read: score"
    )


def test_the_curve_holds_each_improvement():
    def row(step, best, rollouts):
        return LogRow(step, "evaluate", "c", "p", "", {}, best, "c", Amount(rollouts=rollouts, picodollars=None))

    rows = (row(0, None, 0), row(1, 0.2, 8), row(2, 0.2, 11), row(3, 0.5, 22))
    result = Result(START, 0.5, "finished", {}, rows)
    assert result.curve("rollouts") == [(8, 0.2), (22, 0.5)]
    assert result.curve("price") == [(None, 0.2), (None, 0.5)]
    assert LogRow.from_row(json.loads(json.dumps(rows[1].to_row()))) == rows[1]
