"""Lookups, against neighbours and votes worked by hand."""

from __future__ import annotations

import pytest

from luthier.errors import InputError
from luthier.evaluation.lookups import (
    LinearRouter,
    LookupGenerator,
    NearestRow,
    Neighbours,
    Router,
    Tried,
    best_configuration,
    best_setting,
    nearest_rows,
    routers,
    tried_questions,
)
from luthier.generator import HarnessRequest
from luthier.question import Question
from luthier.teaching.rows import TeacherRow

TEXTS = ("sort the words a b", "sort the words c d", "count the letter e", "count the letter f", "add 1 and 2")
KNOWN = Neighbours(TEXTS)


def row(question: str, completion: str) -> TeacherRow:
    return TeacherRow(question, "f", "p", completion, "d", "pool:x")


def test_the_nearest_share_most_words_and_the_earlier_wins_a_tie():
    found = Neighbours(TEXTS).nearest(["sort the words x y", "count the letter z", "nothing alike"], 2)
    assert found == [[0, 1], [2, 3], [0, 1]]


def test_rows_vote_and_the_nearest_breaks_a_tie():
    rows = [row(str(i), text) for i, text in enumerate(["S", "S", "C", "D", "A"])]
    assert NearestRow(KNOWN, rows, 3).choose(["sort the words x"]) == ["S"]
    assert NearestRow(KNOWN, rows, 2).choose(["count the letter e please"]) == ["C"], "C and D have one vote each"
    assert NearestRow(KNOWN, rows, 1).choose(["add 3 and 2"]) == ["A"]


TRIED = [
    Tried(TEXTS[0], {"sort": 1.0, "direct": 0.0}, {"sort": 30, "direct": 10}),
    Tried(TEXTS[1], {"sort": 1.0, "direct": 0.0}, {"sort": 30, "direct": 10}),
    Tried(TEXTS[2], {"count": 1.0, "direct": 1.0}, {"count": 40, "direct": 10}),
    Tried(TEXTS[3], {"count": 1.0, "direct": 0.0}, {"count": 40, "direct": 10}),
    Tried(TEXTS[4], {"sort": 0.0, "direct": 0.0}, {"sort": 30, "direct": 10}),
]
HARNESSES = {"count": "C", "direct": "D", "sort": "S"}


def test_the_best_configuration_is_the_better_the_cheaper_the_first():
    assert best_configuration(TRIED[:2], HARNESSES) == "sort"
    assert best_configuration(TRIED[2:3], HARNESSES) == "direct", "as good, with fewer tokens"
    assert best_configuration(TRIED[2:4], HARNESSES) == "count", "1 against a mean of 0.5"
    assert best_configuration([], HARNESSES) == "count", "nothing known: by name"


def test_the_router_takes_what_did_best_nearby():
    assert Router(KNOWN, TRIED, HARNESSES, 2).choose(["sort the words x", "count the letter z"]) == [
        "S",
        "C",
    ]
    assert Router(KNOWN, TRIED, HARNESSES, 1).choose(["count the letter e"]) == ["D"]


def test_the_linear_router_learns_from_solved_questions():
    router = LinearRouter(TRIED, HARNESSES)
    assert router.choose(["sort the words q r", "count the letter f"]) == ["S", "C"]
    assert LinearRouter(TRIED[:2], HARNESSES).choose(["anything"]) == ["S"], "one label needs no classifier"
    assert LinearRouter(TRIED[4:], HARNESSES).choose(["anything"]) == ["C"], "nothing solved: by name"


def test_questions_of_the_grid_keep_what_the_machine_answered():
    asked = Question.make(task="t", family="f", text="T", reference="r", split="train")
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    rows = [
        {"split": "train", "question": asked.id, "configuration": "a", "score": 1.0, "usage": usage},
        {"split": "train", "question": asked.id, "configuration": "b", "score": None, "usage": usage},
        {"split": "validation", "question": asked.id, "configuration": "c", "score": 1.0, "usage": usage},
    ]
    assert tried_questions({asked.id: asked}, rows) == [Tried("T", {"a": 1.0}, {"a": 7})]


def test_a_lookup_writes_at_no_cost_and_sees_texts_alone():
    asked = Question.make(task="t", family="f", text=TEXTS[0], reference="r", split="test")
    rows = [row(str(i), text) for i, text in enumerate("SSCDA")]
    (proposal,) = LookupGenerator("nearest_row", NearestRow(KNOWN, rows, 1)).propose([HarnessRequest.of(asked)])
    assert (proposal.text, proposal.usage.calls) == ("S", 0)


def test_each_lookup_comes_with_every_setting():
    asked = {
        str(i): Question.make(task="t", family="f", text=t, reference="r", split="train") for i, t in enumerate(TEXTS)
    }
    assert list(nearest_rows(asked, [row("0", "S")])) == ["k=1", "k=3", "k=5"]
    assert list(routers(TRIED, HARNESSES)) == ["k=1", "k=3", "k=5", "linear"]


def test_a_lookup_over_no_rows_is_one_error():
    with pytest.raises(InputError, match="a lookup over no rows"):
        nearest_rows({}, [])
    with pytest.raises(InputError, match="a lookup over no rows"):
        routers([], HARNESSES)


def test_the_setting_is_the_best_on_validation_and_the_first_of_equals():
    lookups = {f"k={k}": NearestRow(KNOWN, [row(str(i), text) for i, text in enumerate("SSCDA")], k) for k in (1, 3, 5)}
    means = iter([0.5, 0.75, 0.75])
    generator, told = best_setting("nearest_row", lookups, lambda generator: next(means))
    assert generator.lookup is lookups["k=3"]
    assert told == {"setting": "k=3", "validation": 0.75, "tried": {"k=1": 0.5, "k=3": 0.75, "k=5": 0.75}}
