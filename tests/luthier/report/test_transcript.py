"""What a person and a machine are shown of one question."""

from __future__ import annotations

from luthier.evaluation.evaluate import Result
from luthier.execution import Execution, Step
from luthier.ledger.budget import Price
from luthier.ledger.prices import PriceTag
from luthier.report.transcript import transcript, transcript_row
from luthier.target import Usage

GRAPH = "a = words(question)\nb = sort(a)\nanswer = last(b)"
PRICES = {"target": PriceTag(Price(1.0, 2.0), ""), "generator": PriceTag(Price(10.0, 10.0), "")}


def result(outcome="ok", text=GRAPH, score=0.0, error=""):
    trace = (
        Step("n1", "llm", {"question": "b a"}, ["b", "a"], Usage(1, 20, 5)),
        Step("n2", "tool", {"a": ["b", "a"]}, ["a", "b"]),
        Step("n3", "tool", {"b": ["a", "b"]}, "b"),
    )
    answer = "b" if outcome == "ok" else ""
    execution = Execution(
        "q", "h", "graph", "t", 0, outcome, answer, score, error=error, trace=trace, usage=Usage(1, 20, 5)
    )
    return Result("reinforce", "q", "f", text, Usage(1, 40, 10), execution)


def test_harness_trace_answer_and_cost_are_shown():
    """20 x 1 + 5 x 2 + 50 x 10 = 530 USD for a million such, so 0.53 for a thousand."""
    said = transcript("The last of b a?", result(), PRICES, scored=False).splitlines()
    assert said[0] == "question  The last of b a?"
    assert "  question → [words] → sort → last → answer" in said
    assert '   1  n1: question=b a → ["b", "a"]  (25 tokens)' in said
    assert '   3  n3: b=["a", "b"] → b' in said
    assert "answer    b" in said
    assert not any(line.startswith("score") for line in said)
    assert said[-1] == (
        "cost      one call and 25 tokens of the target, 50 tokens of the generator; 0.53 USD for a thousand such"
    )


def test_a_reference_gives_a_score():
    assert "score     right" in transcript("?", result(score=1.0), PRICES, scored=True, reference="b").splitlines()
    wrong = transcript("?", result(), PRICES, scored=True, reference="c").splitlines()
    assert "score     0, the reference is c" in wrong


def test_what_does_not_parse_is_shown_as_it_was_written():
    said = transcript("?", result("invalid", "a = wrds(", error="line 1: no tool"), PRICES, scored=False).splitlines()
    assert "  a = wrds(" in said
    assert "no answer (invalid)" in said
    assert "          line 1: no tool" in said


def test_an_unknown_price_is_said_and_not_counted_as_nothing():
    prices = PRICES | {"generator": PriceTag(None, "")}
    assert transcript("?", result(), prices, scored=False).endswith("; price unknown")
    assert transcript_row("?", result(), prices, scored=False)["usd"] is None
    assert transcript_row("?", result(), PRICES, scored=False)["usd"] == 530e-6


def test_the_row_holds_everything():
    row = transcript_row("?", result(score=1.0), PRICES, scored=True)
    assert (row["answer"], row["score"], row["calls"]) == ("b", 1.0, 1)
    assert (row["target_tokens"], row["generator_tokens"]) == (25, 50)
    assert [step["node"] for step in row["trace"]] == ["n1", "n2", "n3"]
