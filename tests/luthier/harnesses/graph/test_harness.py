from __future__ import annotations

import random

import pytest

from luthier.errors import HarnessError
from luthier.harness import Harness
from luthier.harnesses import parse
from luthier.harnesses.graph.harness import GraphHarness

CHAIN = "a = direct(question)\nb = sort(a)\nanswer = last(b)"

EVERYTHING = """\
# a comment
state rounds: int sum = 0
state votes: list[str] append

limits tokens=4000 steps=20   visits=4 calls=12

draft = direct( question )   temperature=0.70 n=1
check: verdict=judge_it(question,draft)
  if verdict == "wrong" and (visits.check < 3) -> fix else done
fix: draft = mend(question, draft) # again
  -> check
done: answer = copy(draft)
impl mend:
  max_tokens: 48
  style: chat
  role: You repair wrong solutions.
  ask: |
    Question: {question}

    Draft: {draft}
    Write a corrected answer.
  parse: line
impl judge_it:
  ask: "{question} {draft} correct or wrong?"
  parse: choice
  choices: [correct, wrong]
  shots:
    - question: "2 + 2"
      draft: "5"
      out: wrong
"""

CANONICAL = """\
state rounds: int sum
state votes: list[str] append
limits steps=20 visits=4 calls=12 tokens=4000
draft = direct(question) temperature=0.7
check: verdict = judge_it(question, draft)
  if verdict == "wrong" and visits.check < 3 -> fix else done
fix: draft = mend(question, draft)
  -> check
done: answer = copy(draft)
impl judge_it:
  ask: "{question} {draft} correct or wrong?"
  shots:
    - question: "2 + 2"
      draft: 5
      out: wrong
  parse: choice
  choices: ["correct", "wrong"]
impl mend:
  role: You repair wrong solutions.
  ask: |
    Question: {question}

    Draft: {draft}
    Write a corrected answer.
  max_tokens: 48"""


def test_canonical_text_is_one_spelling_and_a_fixed_point() -> None:
    graph = GraphHarness.parse(EVERYTHING)
    assert graph.text == CANONICAL
    assert GraphHarness.parse(graph.text).text == graph.text


def test_equal_graphs_have_equal_digests_and_are_equal() -> None:
    one, two = GraphHarness.parse(EVERYTHING), parse("graph", CANONICAL)
    assert isinstance(one, Harness)
    assert one == two
    assert (one.digest, one.kind) == (two.digest, "graph")
    assert one.digest != GraphHarness.parse(CHAIN).digest


def test_a_short_chain_is_its_own_canonical_text() -> None:
    graph = GraphHarness.parse(CHAIN + "\n")
    assert graph.text == CHAIN
    assert [graph.kind_of(node) for node in graph.nodes] == ["llm", "tool", "tool"]
    assert {state.type for state in graph.states.values()} == {"str"}


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("n1: answer = copy(question)\n  -> END", "answer = copy(question)"),
        ("one: answer = copy(question)", "one: answer = copy(question)"),
        ("state answer: str\nanswer = copy(question)", "answer = copy(question)"),
        ("answer = copy(1.0)", "answer = copy(1)"),
        ('answer = copy("\\u2028\\u00e4")', 'answer = copy("\\u2028ä")'),
        (
            'a = copy(question)\n  if a == "" -> n3\n  -> END\nb = copy(a)\nanswer = copy(a)\n  -> n2',
            "",
        ),
        (
            "answer = copy(question)\n  if answer in [1] -> n2, END, n1 else END\nanswer = copy(question)",
            "n1: answer = copy(question)\n  if answer in [1] -> n1, n2 else END\nn2: answer = copy(question)",
        ),
        (
            "answer = direct(question) n=1 max_tokens=32 temperature=0.0",
            "answer = direct(question)",
        ),
    ],
)
def test_defaults_are_dropped(text: str, canonical: str) -> None:
    if not canonical:
        with pytest.raises(HarnessError):
            GraphHarness.parse(text)
        return
    assert GraphHarness.parse(text).text == canonical
    assert GraphHarness.parse(canonical).text == canonical


def test_nodes_that_write_samples_declare_lists() -> None:
    graph = GraphHarness.parse("drafts = direct(question) n=3 temperature=0.5\nanswer = vote(drafts)")
    assert graph.states["drafts"].type == "list[str]"
    assert graph.states["answer"].type == "str"


def test_texts_in_impl_blocks_stay_texts() -> None:
    text = 'answer = ask_it(question)\nimpl ask_it:\n  ask: "{question} # no"\n  stop: ["\\n", "no"]\n  role: no'
    graph = GraphHarness.parse(text)
    assert graph.implementations["ask_it"].role == "no"
    assert graph.implementations["ask_it"].stop == ("\n", "no")
    assert GraphHarness.parse(graph.text) == graph


def test_reads_of_an_impl_block_are_the_names_that_its_first_user_passes() -> None:
    block = 'impl two:\n  ask: "{question} {arg2}"'
    graph = GraphHarness.parse(f'a = two(question, "x")\nanswer = two(a, "y")\n{block}')
    assert graph.implementations["two"].reads == ("question", "arg2")
    named = GraphHarness.parse(
        'a = two(question, "x")\nanswer = two(a, "y")\nimpl two:\n  reads: [q, w]\n  ask: "{q} {w}"'
    )
    assert "reads: [q, w]" in named.text
    assert GraphHarness.parse(named.text) == named


def test_the_walk_follows_the_question_of_what_runs_and_what_waits() -> None:
    graph = GraphHarness.parse(
        "a = direct(question)\n  -> b, c\nb: x = copy(a)\n  -> m\nc: y = copy(a)\nd: y = copy(y)\n  -> m\n"
        "m: z = merge(x, y)\nanswer = copy(z)"
    )
    frontiers = [tuple(graph.nodes[i].id for i in position.frontier) for position in graph.walk]
    assert frontiers == [("n1",), ("b", "c"), ("d",), ("m",), ("n6",), ()]


def test_broken_texts_are_harness_errors_and_valid_ones_fixed_points() -> None:
    rng = random.Random(7)
    signs = 'abn1 \n\t"{}[]()=:,.->#|&*!%\\éx\u2028' + "impl state if else END question answer copy".replace(" ", "\n")
    valid, complete = 0, True
    for _ in range(3000):
        text = list(rng.choice((EVERYTHING, CANONICAL, CHAIN)))
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(text))
            text[place : place + rng.randint(0, 3)] = rng.choices(signs, k=rng.randint(0, 2))
        try:
            graph = GraphHarness.parse("".join(text))
        except HarnessError as error:
            complete &= bool(error.rule and error.field and error.fix)
            continue
        valid += 1
        assert GraphHarness.parse(graph.text).text == graph.text
    assert valid > 100
    assert complete, "a message without rule, field or fix"
