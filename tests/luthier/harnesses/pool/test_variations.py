"""One-edit variations: what counts as a chain, and that every variation is valid, one edit away and new."""

from __future__ import annotations

import pytest

from luthier.harnesses.graph.harness import GraphHarness
from luthier.harnesses.pool.configurations import pool
from luthier.harnesses.pool.variations import Chain, as_chain, one_edit_variations

POOL = [item.harness for item in pool() if item.harness is not None]
CHAINS = [chain for graph in POOL if (chain := as_chain(graph)) is not None and chain.tools]


@pytest.mark.parametrize(
    ("text", "chain"),
    [
        ("answer = direct(question)", Chain("direct", ())),
        ("x = words(question)\nanswer = sort(x)", Chain("words", ("sort",))),
        ("q: x = words(question)\ny = sort(x)\nlast: answer = first(y)", Chain("words", ("sort", "first"))),
    ],
)
def test_chains_are_recognised_whatever_their_names(text, chain):
    assert as_chain(GraphHarness.parse(text)) == chain


@pytest.mark.parametrize(
    "text",
    [
        "a = words(question)\nb = words(question)\nanswer = sort(b)",
        "a = words(question)\nanswer = search(question, a)",
        "a = words(question)\nb = sort(a)\nanswer = first(a)",
        "a = words(question) temperature=0.5\nanswer = sort(a)",
        "a = direct(question)\nb = direct(a)\nanswer = sort(b)",
        "answer = reverse(question)",
        "limits calls=3\na = words(question)\nanswer = sort(a)",
        "state a: list[str]\na = words(question)\nanswer = sort(a)",
        'a = words(question)\n  if a == "x" -> n2 else n2\nanswer = sort(a)',
        "a = words(question)\nanswer = copy(a)\nb = sort(a)",
        "a = mine(question)\nanswer = sort(a)\n\nimpl mine:\n  style: raw\n  ask: |\n    {question}\n  parse: line\n"
        "  max_tokens: 8",
    ],
)
def test_everything_else_is_no_chain(text):
    assert as_chain(GraphHarness.parse(text)) is None


def test_a_chain_and_its_text_say_the_same():
    for chain in [*CHAINS, Chain("words", ("sort", "first", "reverse", "upper"))]:
        graph = GraphHarness.parse(chain.text())
        assert as_chain(graph) == chain
        assert graph.text == chain.text(), "the text is canonical"


def distance(left: Chain, right: Chain) -> int:
    """Edits between two chains: Levenshtein over the tools, plus a changed first step."""
    row = list(range(len(right.tools) + 1))
    for i, a in enumerate(left.tools, start=1):
        last, row = row, [i]
        for j, b in enumerate(right.tools, start=1):
            row.append(min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b)))
    return row[-1] + (left.first != right.first)


def test_every_variation_is_valid_new_and_one_edit_from_the_pool():
    found = one_edit_variations(POOL)
    digests = [graph.digest for graph in found]
    assert len(found) > 100
    assert len(set(digests)) == len(digests)
    assert not set(digests) & {graph.digest for graph in POOL}
    for graph in found:
        assert GraphHarness.parse(graph.text).digest == graph.digest
        chain = as_chain(graph)
        assert chain is not None
        assert min(distance(chain, known) for known in CHAINS) == 1, graph.text


def test_the_edits_of_one_chain_are_those_listed_by_hand():
    base = GraphHarness.parse("a = date(question)\nanswer = weekday(a)")
    texts = {graph.text for graph in one_edit_variations([base])}
    assert "answer = date(question)" in texts
    assert "a = date(question)\nb = weekday(a)\nanswer = reverse(b)" in texts
    assert "a = date(question)\nanswer = upper(a)" in texts
    assert base.text not in texts
    assert not any("add_days" in text for text in texts), "a tool of two inputs does not fit a chain"


def test_what_cannot_be_read_is_left_out():
    """`weekday` reads a date and never the number that `length` gives."""
    base = GraphHarness.parse("a = word(question)\nanswer = length(a)")
    assert not any("weekday(b)" in graph.text for graph in one_edit_variations([base]))


def test_the_order_is_fixed_and_two_edits_are_out_of_reach():
    first, second = one_edit_variations(POOL), one_edit_variations(POOL)
    assert [graph.text for graph in first] == [graph.text for graph in second]
    assert "a = words(question)\nb = sort(a)\nc = first(b)\nanswer = reverse(c)" in {graph.text for graph in first}
    beyond = "a = words(question)\nb = sort(a)\nc = last(b)\nd = reverse(c)\nanswer = length(d)"
    assert GraphHarness.parse(beyond).text == beyond
    assert beyond not in {graph.text for graph in first}
