"""Which call is to blame, told from values alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from luthier.search.fault_rules import blame, evident_faults, quotes, stands_in, suspects
from luthier.target import Request
from luthier.targets.scripted import prompt_text
from tests.luthier.search.program_runs import graph_of

CHAIN = """
wiring: |
  fact = find(question)
  draft = work(question, fact)
  answer = say(draft)
modules:
  find: {inputs: [question], outputs: [fact]}
  work: {inputs: [question, fact], outputs: [draft], max_tokens: 12}
  say: {inputs: [draft], outputs: [answer]}
"""
ROUTE = """
wiring: |
  kind = route(question)
    if kind == "sort" -> sorted else plain
  sorted: answer = order(question)
    -> END
  plain: answer = tell(question)
modules:
  route: {inputs: [question], outputs: [kind]}
  order: {inputs: [question], outputs: [reply]}
  tell: {inputs: [question], outputs: [reply]}
"""


def replies(**texts: str):
    """A reply by the label that a prompt ends with."""

    def reply(request: Request) -> str:
        return texts[prompt_text(request).rsplit("\n", 1)[-1].rstrip(":").removeprefix("user: ").lower()]

    return reply


def blamed(graph, sentence: str) -> dict[str, str]:
    return {graph.calls[place].runs: text for place, text in evident_faults(graph, sentence).items()}


@pytest.mark.parametrize(
    ("sentence", "answer", "wanted", "named"),
    [
        ("Expected '14', but the answer was 'about 15'.", "about 15", ("14",), ()),
        ("it should be \"it's\", not 'so'", "so", ("it's",), ()),
        ("'left' is no step; the right one is 'up'", "9", ("up",), ("left",)),
        ("the answer 'It is\n 5' was 'It is 5'", "It is\n 5", (), ()),
        ("don't do it, can't you?", "x", (), ()),
    ],
)
def test_quotes_are_wanted_or_named(sentence, answer, wanted, named) -> None:
    found = quotes(sentence, answer)
    assert (found.wanted, found.named) == (wanted, named)


def test_whole_words_stand_in_a_text() -> None:
    assert stands_in("14", "it is 14.")
    assert not stands_in("14", "it is 140")
    assert stands_in("New York", "in new york, yes")


@pytest.mark.parametrize(
    ("texts", "who", "why"),
    [
        ({"fact": "", "draft": "", "answer": ""}, "find", "Nothing could be read as fact"),
        ({"fact": "a", "draft": "", "answer": "none"}, "work", "Nothing could be read as draft"),
        ({"fact": "a", "draft": "word " * 20, "answer": "none"}, "work", "broke off"),
        ({"fact": "a", "draft": "it is 14", "answer": "maybe"}, "say", "'14' stood in draft and was lost"),
        ({"fact": "a", "draft": "14", "answer": "well, 14 or so"}, "say", "'14' stands inside a longer one"),
        ({"fact": "a", "draft": "b", "answer": "word " * 41}, "say", "41 words"),
    ],
)
def test_the_first_evident_fault_takes_all_the_blame(tmp_path: Path, texts, who, why) -> None:
    graph = graph_of(tmp_path, CHAIN, replies(**texts))
    (found,) = blamed(graph, "Expected '14', no less.").items()
    assert found[0] == who
    assert why in found[1]


def test_what_the_remark_names_is_blamed_where_it_came_up(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, CHAIN, replies(fact="in the tower", draft="the tower it is", answer="so be it"))
    assert blamed(graph, "'the tower' misleads") == {"find": "The remark names 'the tower', which it wrote."}


def test_a_word_for_a_guard_with_something_around_it_is_the_routers_fault(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, ROUTE, replies(kind="It is sort.", reply="b a"))
    assert [call.runs for call in graph.calls] == ["route", "tell"]
    (found,) = blamed(graph, "wrong").items()
    assert found == ("route", "It wrote 'It is sort.' where the program looks for 'sort' and nothing else.")


def test_a_word_that_no_guard_knows_is_no_evident_fault(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, ROUTE, replies(kind="other", reply="b a"))
    assert blamed(graph, "wrong") == {}
    assert [call.runs for call in suspects(graph)] == ["route", "tell"]


def test_who_passed_a_wrong_answer_on_is_no_suspect(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, CHAIN, replies(fact="a", draft="15", answer="15"))
    assert blamed(graph, "Expected '14', but the answer was '15'.") == {}
    assert [call.runs for call in suspects(graph)] == ["find", "work"]


def test_nothing_evident_tells_all_suspects_the_sentence(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, CHAIN, replies(fact="a", draft="b", answer="c"))
    assert blame(graph, "no good") == {0: "no good", 1: "no good", 2: "no good"}
    graph = graph_of(tmp_path / "b", CHAIN, replies(fact="a", draft="", answer="c"))
    assert blame(graph, "no good") == {1: "Nothing could be read as draft. no good"}
