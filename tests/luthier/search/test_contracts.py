import json

import pytest

from luthier.errors import InputError
from luthier.ledger.budget import Amount
from luthier.search.candidate import Candidate, Demonstration
from luthier.search.contracts import LogRow, Scope, SearchResult

SHOT = Demonstration("q1", (("question", "1+1"), ("hint", "add")), "2", "bootstrapped")
OTHER = Demonstration("q2", (("question", "2+2"),), "4", "labelled")
START = Candidate.make({"b": "solve", "a": "plan"}, {"b": [SHOT, OTHER], "a": []})


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
    result = SearchResult(START, 0.5, "finished", {}, rows)
    assert result.curve("rollouts") == [(8, 0.2), (22, 0.5)]
    assert result.curve("price") == [(None, 0.2), (None, 0.5)]
    assert LogRow.from_row(json.loads(json.dumps(rows[1].to_row()))) == rows[1]
