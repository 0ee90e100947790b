"""A search edits the role prompts of a graph, through the same binding as a program's modules."""

from __future__ import annotations

import pytest

from luthier.errors import HarnessError, InputError
from luthier.execution import Execution, Step
from luthier.harnesses import parse
from luthier.harnesses.graph.harness import GraphHarness
from luthier.ledger.budget import Budget
from luthier.methods import METHODS
from luthier.methods.gepa import GepaParams, build
from luthier.search.binding import program_of
from luthier.search.candidate import Demonstration
from luthier.search.contracts import Evidence
from luthier.search.graphs import GraphBinding
from luthier.search.parts import Parts
from tests.luthier.methods.gepa_world import BINDING, Bench, OneHalf

GRAPH = GraphHarness.parse(
    """
first = left(question)
answer = right(question, first)

impl left:
  role: Left.
  ask: Do {question}
  max_tokens: 16
impl right:
  role: Right.
  ask: Do {question} {first}
  max_tokens: 16
"""
)
ROLES = GraphBinding(GRAPH)


def test_the_roles_of_impl_blocks_are_the_components():
    assert dict(ROLES.candidate().texts) == {"left": "Left.", "right": "Right."}
    assert ROLES.build(ROLES.candidate()) == GRAPH
    edited = ROLES.build(ROLES.candidate().with_texts({"left": "Look twice."}))
    assert {name: block.role for name, block in edited.document.impls.items()} == {
        "left": "Look twice.",
        "right": "Right.",
    }
    assert parse("graph", edited.text) == edited


@pytest.mark.parametrize("engine", ["own", "gepa"])
def test_a_search_finds_the_roles_of_a_two_node_graph(tmp_path, engine):
    """The world of GEPA's own tests: each role solves its half, and only a merge has both."""
    bench = Bench(tmp_path)
    bench.start, bench.build = ROLES.candidate(), ROLES.build
    search = build(GepaParams(engine=engine, merge=True), Parts(ROLES, OneHalf()))
    result = bench.search(search, Budget(rollouts=150))
    assert result.score == 1.0
    found = ROLES.build(result.best)
    assert found.kind == "graph"
    assert "alpha" in found.document.impls["left"].role
    assert "beta" in found.document.impls["right"].role


def test_the_calls_of_a_role_are_read_out_of_the_trace():
    trace = (
        Step("n1", "llm", {"question": "Q"}, "seen"),
        Step("n2", "llm", {"question": "Q", "first": "seen"}, "right 1"),
    )
    nodes = [node.id for node in GRAPH.nodes]
    trace = tuple(Step(node, step.kind, step.inputs, step.output) for node, step in zip(nodes, trace, strict=True))
    ran = Execution("q", GRAPH.digest, "graph", "t", 0, "ok", "right 1", 1.0, trace=trace)
    assert ROLES.steps("right", ran) == [Step("right", "llm", {"question": "Q", "first": "seen"}, "right 1")]
    assert [step.output for step in ROLES.steps("left", ran)] == ["seen"]


def test_a_call_is_told_as_a_case():
    inputs = (("question", "Q"), ("first", "seen"))
    told = ROLES.worked_case("right", Evidence("q", inputs, "right 1", 1.0))
    assert told == "question: Q\nfirst: seen\nWritten: right 1"
    assert ROLES.worked_case("left", Evidence("q", inputs, "x", 1.0)) == "", "of another role"


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="no impl block"):
        GraphBinding(GraphHarness.parse("answer = direct(question)")).candidate()
    shot = Demonstration("q", (("question", "Q"),), "seen", "labelled")
    with pytest.raises(HarnessError, match="take no demonstrations"):
        ROLES.build(ROLES.candidate().with_shots({"left": [shot]}))
    with pytest.raises(HarnessError):
        ROLES.build(ROLES.candidate().with_texts({"left": "x" * 100_000}))


@pytest.mark.parametrize("name", ["textgrad", "optoprime"])
def test_a_search_that_needs_modules_says_so(name):
    assert program_of(BINDING, "GEPA") is BINDING.program
    method = METHODS[name]
    with pytest.raises(InputError, match="edits programs, and this harness is a graph"):
        method.search(method.section(), Parts(ROLES))
