"""What depended on what in a run: data, choices, loops, and runs that ended early."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from luthier.execution import Limits
from luthier.harnesses.graph.guards import Guard, operands
from luthier.harnesses.pool.task_programs import read_program_file
from luthier.question import Question
from luthier.search.call_graph import CallGraph, call_graph
from luthier.search.fault_rules import blame
from luthier.target import Request
from luthier.targets.scripted import prompt_text
from luthier.tasks.generated.twohop_world import world
from tests.luthier.executors.test_program import ANSWERS, draw_program
from tests.luthier.search.program_runs import Reply, graph_of, ran

DIAMOND = """
wiring: |
  a = find(question)
    -> left, right
  left: b = one(a)
    -> join
  right: c = two(a, question)
    -> join
  aside: d = three(a)
    -> join
  join: both = merge(b, c)
  answer = last(both)
modules:
  find: {inputs: [question], outputs: [fact]}
  one: {inputs: [fact], outputs: [guess]}
  two: {inputs: [fact, question], outputs: [guess]}
  three: {inputs: [fact], outputs: [guess]}
"""
LOOP = """
wiring: |
  draft = solve(question)
  check: verdict, why = judge(question, draft)
    if verdict == "wrong" and visits.check < 3 -> fix else done
  fix: draft = mend(draft, why)
    -> check
  done: answer = upper(draft)
modules:
  solve: {inputs: [question], outputs: [reply]}
  judge: {inputs: [question, draft], outputs: [verdict, why]}
  mend: {inputs: [draft, why], outputs: [better]}
"""
ROUTE = """
wiring: |
  kind = route(question)
    if kind == "sort" or kind in ["order", "rank"] -> sorted else plain
  sorted: words = pick(question)
  answer = put(question)
    -> END
  plain: answer = say(question)
modules:
  route: {inputs: [question], outputs: [kind]}
  pick: {inputs: [question], outputs: [words]}
  put: {inputs: [question], outputs: [reply]}
  say: {inputs: [question], outputs: [reply], max_tokens: 3}
"""


def edges(graph: CallGraph, node: str, visit: int = 0) -> list[tuple[str, str, str]]:
    call = next(call for call in graph.calls if (call.node, call.visit) == (node, visit))
    return [(graph.calls[edge.source].node, edge.role, edge.name) for edge in call.edges]


def test_values_have_their_writers_and_both_ways_of_a_diamond_meet(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, DIAMOND.replace("-> left, right", "-> left, right, aside"), lambda request: "it")
    assert [call.node for call in graph.calls] == ["n1", "left", "right", "aside", "join", "n6"]
    assert edges(graph, "right") == [("n1", "value", "fact")]
    assert edges(graph, "join") == [("left", "value", "b"), ("right", "value", "c")]
    assert [(graph.calls[edge.source].node, edge.role) for edge in graph.ends] == [("n6", "value")]
    assert [call.runs for call in graph.upstream(4)] == ["find", "one", "two"]


def test_what_does_not_lead_to_the_answer_is_left_out(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, DIAMOND.replace("-> left, right", "-> left, right, aside"), lambda request: "it")
    assert [call.node for call in graph.leading()] == ["n1", "left", "right", "join", "n6"]
    assert [call.is_module for call in graph.leading()] == [True, True, True, False, False]


def test_a_loop_gives_each_visit_its_own_call_and_its_own_writers(tmp_path: Path) -> None:
    def answer(request: Request) -> str:
        text = prompt_text(request)
        if "Better:" in text:
            return "pear"
        if "Verdict" in text:
            return "Verdict: right\nWhy: fine" if "pear" in text else "Verdict: wrong\nWhy: no"
        return "fig"

    graph = graph_of(tmp_path, LOOP, answer)
    assert [call.label for call in graph.calls] == [
        "n1 (solve)",
        "check (judge)",
        "fix (mend)",
        "check (judge, visit 2)",
        "done (upper)",
    ]
    assert edges(graph, "fix") == [("n1", "value", "draft"), ("check", "value", "why"), ("check", "choice", "verdict")]
    again = next(call for call in graph.calls if call.visit == 1)
    assert [(edge.source, edge.role) for edge in again.edges] == [(1, "choice"), (2, "value")]
    done = graph.calls[-1]
    assert [(edge.source, edge.role, edge.value) for edge in done.edges] == [
        (2, "value", "pear"),
        (3, "choice", "right"),
    ]
    assert done.edges[1].known == ("wrong",)


def test_a_choice_holds_for_the_branch_and_for_what_follows_in_it(tmp_path: Path) -> None:
    def answer(request: Request) -> str:
        return "sort" if "Kind:" in prompt_text(request) else "it"

    graph = graph_of(tmp_path, ROUTE, answer)
    assert [call.runs for call in graph.calls] == ["route", "pick", "put"]
    assert edges(graph, "sorted") == [("n1", "choice", "kind")]
    assert edges(graph, "n3") == [("n1", "choice", "kind")]
    assert graph.calls[2].edges[0].known == ("sort", "order", "rank")
    assert graph.calls[2].edges[0].exact
    assert [call.runs for call in graph.leading()] == ["route", "put"]


def test_a_choice_by_a_text_within_is_not_exact(tmp_path: Path) -> None:
    text = ROUTE.replace('kind == "sort" or kind in ["order", "rank"]', '"sort" in kind or len(kind) > 9')
    graph = graph_of(tmp_path, text, lambda request: "sort, then stop" if "Kind:" in prompt_text(request) else "it")
    (edge,) = graph.calls[1].edges
    assert (edge.role, edge.known, edge.exact) == ("choice", ("sort",), False)
    assert blame(graph, "wrong") == {0: "wrong", 2: "wrong"}


def test_a_choice_does_not_hold_for_what_would_have_run_anyway(tmp_path: Path) -> None:
    text = LOOP.replace("-> fix else done", "-> fix else skip").replace("    -> check\n", "    -> done\n")
    text = text.replace("  done:", "  skip: draft = lower(draft)\n  done:").replace(" and visits.check < 3", "")
    graph = graph_of(tmp_path, text, lambda request: "Verdict: right\nWhy: fine")
    assert [call.node for call in graph.calls] == ["n1", "check", "skip", "done"]
    assert edges(graph, "skip") == [("n1", "value", "draft"), ("check", "choice", "verdict")]
    assert edges(graph, "done") == [("skip", "value", "draft")]


def test_a_choice_to_end_matters_to_the_answer(tmp_path: Path) -> None:
    text = LOOP.replace("draft = solve", "answer = solve").replace("judge(question, draft)", "judge(question, answer)")
    text = text.replace("else done", "else END").replace(
        "fix: draft = mend(draft, why)", "fix: answer = mend(answer, why)"
    )
    text = text.replace("  done: answer = upper(draft)\n", "")
    graph = graph_of(tmp_path, text, lambda request: "Verdict: right\nWhy: fine")
    assert [(edge.source, edge.role) for edge in graph.ends] == [(0, "value"), (1, "choice")]


def test_unread_outputs_and_answers_at_their_limit_are_seen(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, LOOP, lambda request: "Verdict: right" if "Verdict" in prompt_text(request) else "a")
    assert graph.calls[1].unread == ("why",)
    graph = graph_of(tmp_path / "b", ROUTE, lambda request: "none" if "Kind:" in prompt_text(request) else "a b c d")
    assert [(call.runs, call.cut, call.output) for call in graph.calls] == [
        ("route", False, "none"),
        ("say", True, "a b c"),
    ]


def test_appended_values_have_all_their_writers(tmp_path: Path) -> None:
    text = """
wiring: |
  state notes: list[str] append
  notes = one(question)
  notes = two(question) n=2
  answer = last(notes)
modules:
  one: {inputs: [question], outputs: [note]}
  two: {inputs: [question], outputs: [note], temperature: 1}
"""
    graph = graph_of(tmp_path, text, lambda request: f"note {request.seed % 7}")
    assert edges(graph, "n3") == [("n1", "value", "notes"), ("n2", "value", "notes")]
    assert graph.calls[1].output.count("note") == 2


def test_a_run_that_was_stopped_ends_with_its_last_calls(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, LOOP, lambda request: "Verdict: wrong\nWhy: no", Limits(visits=1))
    assert graph.answer == ""
    assert [graph.calls[edge.source].node for edge in graph.ends] == ["fix"]


def test_a_tool_that_could_not_read_its_input_is_where_the_run_ended(tmp_path: Path) -> None:
    text = """
wiring: |
  a = one(question)
    -> left, right
  left: b = copy(a)
    -> join
  right: c = square(a)
    -> join
  join: both = merge(b, c)
  answer = last(both)
modules:
  one: {inputs: [question], outputs: [reply]}
"""
    graph = graph_of(tmp_path, text, lambda request: "no number")
    assert [graph.calls[edge.source].node for edge in graph.ends] == ["right"]
    assert [call.runs for call in graph.leading()] == ["one", "square"]


@pytest.mark.parametrize("source", ["drawn", "mixed", "twohop", "explained"])
def test_whatever_ran_every_value_comes_from_where_the_edges_say(tmp_path: Path, source: str) -> None:
    outcomes: Counter[str] = Counter()
    edges = 0
    for seed in range(20 if source == "drawn" else 8):
        rng = random.Random(seed)
        program = draw_program(rng) if source == "drawn" else read_program_file(source)
        known = [item for node in program.graph.nodes for branch in node.branches for item in _words(branch.guard)]
        asked = Question.make(
            task="toy",
            text=f"from 3 to {seed}",
            reference="x",
            split="train",
            metadata={"corpus": world().corpus.reference},
        )
        (row,) = ran(tmp_path / str(seed), program, [asked], _any((*ANSWERS, *known), rng)).executions
        graph = call_graph(row, program, asked.text)
        outcomes[row.outcome] += 1
        assert [call.node for call in graph.calls] == [step.node for step in row.trace]
        for call in graph.calls:
            edges += len(call.edges)
            assert all(edge.source < call.place for edge in call.edges)
            given = dict(call.inputs)
            assert all(given[edge.name] == edge.value for edge in call.edges if edge.role == "value")
        assert (row.outcome == "invalid") or graph.ends
        leading = {call.place for call in graph.leading()}
        assert all(edge.source in leading for place in leading for edge in graph.calls[place].edges)
        blame(graph, "Expected '7', but it was 'x'.")
    assert sum(outcomes.values()) - outcomes["invalid"] >= 8
    assert edges > 0


def _any(words: Sequence[str], rng: random.Random) -> Reply:
    return lambda request: rng.choice(words)


def _words(guard: Guard | None) -> list[str]:
    values = [] if guard is None else [side.value for side in operands(guard) if side.kind == "const"]
    return [
        item for value in values for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, str)
    ]
