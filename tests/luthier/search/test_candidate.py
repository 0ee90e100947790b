import json

import pytest

from luthier.errors import InputError
from luthier.search.candidate import Candidate, Demonstration

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
