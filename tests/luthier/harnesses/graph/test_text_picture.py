"""Harnesses drawn for a terminal."""

from __future__ import annotations

from luthier.harnesses import parse
from luthier.harnesses.graph.text_picture import to_text
from luthier.harnesses.pool.configurations import pool


def test_a_chain_is_one_line_of_arrows_with_model_calls_in_brackets():
    graph = parse("graph", "a = words(question)\nb = sort(a)\nanswer = last(b)")
    assert to_text(graph) == "question → [words] → sort → last → answer"


def test_branches_and_loops_are_drawn_node_by_node():
    text = (
        "draft = solve(question) n=3 temperature=0.7\n"
        "best = vote(draft)\n"
        "check: verdict = verify(question, best)\n"
        '  if verdict == "wrong" and visits.check < 2 -> n1 else done\n'
        "done: answer = copy(best)"
    )
    assert to_text(parse("graph", text)).splitlines() == [
        "question → n1",
        "n1     [solve ×3]: question → draft",
        "         └ → n2",
        "n2     vote: draft → best",
        "         └ → check",
        "check  [verify]: question, best → verdict",
        '         └ if verdict == "wrong" and visits.check < 2: → n1',
        "         └ else: → done",
        "done   copy: best → answer",
        "         └ → END",
    ]


def test_every_configuration_of_the_pool_can_be_drawn():
    harnesses = [item.harness for item in pool() if item.harness is not None]
    assert len(harnesses) > 30
    for harness in harnesses:
        drawn = to_text(harness)
        assert all(node.name in drawn for node in harness.nodes)


def test_a_prompt_is_its_own_text():
    prompt = parse("prompt", "Answer briefly: {question}")
    assert to_text(prompt) == prompt.text
