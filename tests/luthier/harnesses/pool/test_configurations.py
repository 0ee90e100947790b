"""The pool: complete, distinct, inside its declared call bounds, and doing what each shape promises."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from luthier.errors import InputError
from luthier.execution import Limits
from luthier.executor import RunResult
from luthier.executors.graph import GraphExecutor, calls_bound, llm_calls_min
from luthier.harnesses import parse
from luthier.harnesses.graph.harness import GraphHarness
from luthier.harnesses.pool.configurations import Configuration, document, parse_pool, pool, select
from luthier.question import Question
from luthier.target import Completion, Message, Request, Usage

# The configurations of MAS-GPT's pool, in the order of its paper's appendix.
LISTED = {
    "single": "direct chain-of-thought",
    "decomposition": "step-back plan-and-solve least-to-most program-of-thought analyse-program-answer",
    "sampling": "self-consistency-3 self-consistency-5 self-consistency-5-vote",
    "aggregation": "universal-self-consistency quality-diversity rank-and-fuse multi-verifier-best-of-n",
    "refinement": "self-refine-1 self-refine-3 reflexion two-critics verify-then-answer refined-paths",
    "debate": "debate-2x2 debate-3x2 mad debate-judge role-diverse-debate",
    "roles": "dynamic-roles fixed-panel agentverse camel autogen metagpt chatdev dylan",
    "topology": "macnet-chain macnet-star macnet-tree macnet-net macnet-layered macnet-random",
    "code": "test-driven candidates-by-tests mapcoder evomac coder-reviewer-tester",
}
NEED_CODE = {"program-of-thought", "analyse-program-answer", "reflexion", *LISTED["code"].split()}
ROOT = Path(__file__).parents[4]
QUESTION = Question.make(task="mixed", text="How many legs have 3 dogs?", reference="12", split="train")
RUNNABLE = [c for c in pool() if c.harness is not None]
LISTED_RUNNABLE = RUNNABLE[: 44 - len(NEED_CODE)]

Reply = Callable[[Request, int], str]


def agreeing(request: Request, number: int) -> str:
    """Accepts everything at once: first choice, and the word that reviewers use for consent."""
    return request.choices[0] if request.choices else "OK"


def objecting(request: Request, number: int) -> str:
    """Never content, never twice the same: last choice, and three new parts in every text."""
    return request.choices[-1] if request.choices else f"wrong {number}, bad {number}, worse {number}"


def run(harness: GraphHarness, reply: Reply, seed: int = 0) -> tuple[RunResult, list[Request]]:
    """Drive one execution to its end; `reply` gets each request and its number, from 1."""
    seen: list[Request] = []
    execution = GraphExecutor().start(harness, QUESTION, Limits(), seed)
    completions: list[Completion] | None = None
    while True:
        try:
            requests = next(execution) if completions is None else execution.send(completions)
        except StopIteration as stop:
            return stop.value, seen
        completions = []
        for request in requests:
            seen.append(request)
            completions.append(Completion(reply(request, len(seen)), "stop", Usage(1, 10, 5)))


def graph(name: str) -> GraphHarness:
    (configuration,) = select([name])
    assert configuration.harness is not None
    return configuration.harness


def prompt(request: Request) -> str:
    """The last message, which is all that tells the presets apart."""
    assert isinstance(request.prompt, tuple)
    last = request.prompt[-1]
    assert isinstance(last, Message)
    return last.content


def test_each_listed_configuration_is_there_once_and_in_order() -> None:
    listed = [(name, family) for family, names in LISTED.items() for name in names.split()]
    assert [(c.name, c.family) for c in pool()[:44]] == listed
    assert len({c.name for c in pool()}) == len(pool())


def test_only_code_is_missing_and_says_so() -> None:
    assert {c.name for c in pool() if c.harness is None} == NEED_CODE
    assert {c.needs for c in pool() if c.harness is None} == {"code"}
    assert all(c.needs == "" and c.calls_min >= 1 for c in RUNNABLE)


def test_pool_file_numbers_agree_with_positions() -> None:
    lines = (ROOT / "luthier/harnesses/pool/pool.txt").read_text(encoding="utf-8").splitlines()
    numbered = [
        (int(match[1]), lines[at + 1].removeprefix("## ").split(" |")[0])
        for at, line in enumerate(lines)
        if (match := re.match(r"# (\d+)\b", line))
    ]
    assert numbered == [(number, c.name) for number, c in enumerate(pool()[:44], start=1)]


@pytest.mark.parametrize("configuration", LISTED_RUNNABLE, ids=lambda c: c.name)
def test_declared_calls_are_reached_at_both_ends(configuration: Configuration) -> None:
    assert configuration.harness is not None
    counts = []
    for reply in (agreeing, objecting):
        result, requests = run(configuration.harness, reply)
        assert (result.outcome, result.error) == ("ok", "")
        assert result.answer
        counts.append(len(requests))
    assert counts == [configuration.calls_min, configuration.calls_max]


@pytest.mark.parametrize("configuration", RUNNABLE, ids=lambda c: c.name)
def test_random_replies_stay_inside_the_declared_calls(configuration: Configuration) -> None:
    assert configuration.harness is not None
    rng = random.Random(configuration.name)
    for seed in range(20):
        result, requests = run(
            configuration.harness,
            lambda request, number: rng.choice(request.choices or ("OK", "7", f"{number}, b", "2024-05-17", "3 + 4")),
            seed,
        )
        # A tool that cannot read its input ends the run early, as noop; nothing may exceed a limit.
        assert result.outcome in ("ok", "noop")
        assert len(requests) <= configuration.calls_max
        assert result.outcome == "noop" or len(requests) >= configuration.calls_min


@pytest.mark.parametrize("configuration", RUNNABLE, ids=lambda c: c.name)
def test_text_is_canonical_after_one_parse(configuration: Configuration) -> None:
    assert configuration.harness is not None
    again = parse("graph", configuration.harness.text)
    assert (again.text, again.digest) == (configuration.harness.text, configuration.harness.digest)


@pytest.mark.parametrize("configuration", RUNNABLE, ids=lambda c: c.name)
def test_forecast_knows_the_declared_calls(configuration: Configuration) -> None:
    assert configuration.harness is not None
    assert calls_bound(configuration.harness) == configuration.calls_max
    assert llm_calls_min(configuration.harness) <= configuration.calls_min


def test_no_two_graphs_are_equal() -> None:
    digests = [c.harness.digest for c in RUNNABLE if c.harness is not None]
    assert len(set(digests)) == len(digests)


def test_equal_calls_are_shared_between_configurations() -> None:
    def keys(name: str, count: int) -> list[str]:
        return [request.key("model") for request in run(graph(name), objecting)[1][:count]]

    three, five = keys("self-consistency-3", 3), keys("self-consistency-5", 5)
    assert len(set(five)) == 5
    assert five[:3] == three
    assert keys("universal-self-consistency", 5) == five
    assert keys("rank-and-fuse", 4) == five[:4]
    assert keys("debate-2x2", 2) == keys("debate-judge", 2) == five[:2]
    assert keys("macnet-chain", 3) == keys("two-critics", 2) + keys("macnet-tree", 4)[3:4]


def test_vote_takes_the_majority_of_normalised_answers() -> None:
    answers = iter(["Answer: 7", "Answer: 12", "Answer: 12.0", "Answer: 9", "Answer: 12"])
    result, _ = run(graph("self-consistency-5-vote"), lambda request, number: next(answers))
    assert result.answer == "12"


def test_best_of_n_keeps_the_sample_with_most_approvals() -> None:
    approvals = iter("110111001")

    def reply(request: Request, number: int) -> str:
        if request.choices:
            return next(approvals)
        if match := re.search(r"sample \d+", prompt(request)):
            return f"taken from {match[0]}"
        return f"sample {number}"

    result, requests = run(graph("multi-verifier-best-of-n"), reply)
    # Calls 1, 5 and 9 draw the samples, each followed by three verifiers.
    assert result.answer == "taken from sample 5"
    assert len({request.key("model") for request in requests[0::4][:3]}) == 3


@pytest.mark.parametrize(
    ("replies", "calls"),
    [(["7", "7", "8", "7"], 4), (["7", "7", "8", "8", "5", "5", "4", "5"], 8), (["7", "7", "8", "8"] * 2, 11)],
)
def test_dylan_stops_when_three_of_four_agree(replies: list[str], calls: int) -> None:
    given = iter(replies)
    result, requests = run(graph("dylan"), lambda request, n: "BD" if request.choices else next(given, f"late {n}"))
    assert len(requests) == calls
    assert result.answer == {4: "7", 8: "5", 11: "late 10"}[calls]


def test_dylan_gives_the_last_round_to_the_chosen_pair() -> None:
    given = iter(["a", "b", "c", "d", "second A", "second B", "second C", "second D"])
    _, requests = run(graph("dylan"), lambda request, n: "BD" if request.choices else next(given, "end"))
    own = [re.search(r"Your solution: (.*)", prompt(request)) for request in requests[-2:]]
    assert [match and match[1] for match in own] == ["second B", "second D"]


@pytest.mark.parametrize(("verdict", "answer"), [("first", "from yes"), ("second", "from no")])
def test_moderator_stops_the_debate_for_the_side_that_it_names(verdict: str, answer: str) -> None:
    def reply(request: Request, number: int) -> str:
        if request.choices:
            return verdict
        if number <= 2:
            return "yes" if number == 1 else "no"
        match = re.search(r"Solution: (.*)", prompt(request))
        assert match is not None
        return f"from {match[1]}"

    result, requests = run(graph("mad"), reply)
    assert (result.answer, len(requests)) == (answer, 4)


def test_least_to_most_shows_each_part_what_is_solved() -> None:
    given = iter(["legs of a dog, legs of 3 dogs", "four legs", "twelve legs", "12"])
    result, requests = run(graph("least-to-most"), lambda request, number: next(given))
    assert result.answer == "12"
    assert ["four legs" in prompt(request) for request in requests] == [False, False, True, True]


def test_random_topology_is_the_seeded_draw() -> None:
    rng = random.Random(2024)
    drawn = [f"e{i}{j}" for i in range(1, 5) for j in range(i + 1, 6) if rng.random() < 0.5]
    assert re.findall(r"^(e\d\d): ", graph("macnet-random").text, re.MULTILINE) == drawn


def test_select_keeps_the_order_given() -> None:
    assert [c.name for c in select(["mad", "direct"])] == ["mad", "direct"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], ["no configuration is named"]),
        (["self-consistancy-5"], ["'self-consistancy-5' is unknown", "self-consistency-5"]),
        (["zzz"], ["'zzz' is unknown", "use one of: direct"]),
        (["direct", "mapcoder"], ["'mapcoder' has no graph", "needs code"]),
        (["direct", "direct"], ["'direct' is named twice"]),
    ],
)
def test_select_explains_what_it_cannot_take(names: list[str], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        select(names)
    assert all(word in str(caught.value) for word in words)


GOOD = "## one | single | ours | calls 1-1 | a call\nanswer = direct(question)\n"


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("# only a note\n", "pool.txt:", "no entry"),
        ("answer = direct(question)\n" + GOOD, "pool.txt:1:", "before the first header"),
        ("# note\n## one | single | ours | a call\nanswer = direct(question)\n", "pool.txt:2:", "five filled fields"),
        (GOOD.replace("one |", "One Two |"), "pool.txt:1:", "field name: 'One Two'"),
        (GOOD.replace("1-1", "2-1"), "pool.txt:1:", "field calls: 'calls 2-1'"),
        (GOOD.replace("1-1", "few"), "pool.txt:1:", "field calls: 'calls few'"),
        (GOOD + GOOD.replace("direct", "cot"), "pool.txt:3:", "name 'one' already stands on line 1"),
        (GOOD + GOOD.replace("one", "two"), "pool.txt:3:", "'two' is the same graph as 'one'"),
        (
            GOOD + "## two | single | ours | calls 1-1 | a call\n# note\nanswer = drect(question)\n",
            "pool.txt:5",
            "drect",
        ),
        ("## two | single | ours | calls 1-1 | a call\n", "pool.txt:2", "syntax"),
    ],
)
def test_broken_pool_entry_is_named_with_its_line(text: str, place: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_pool(text)
    assert place in str(caught.value)
    assert words in str(caught.value)
    assert "Fix: " in str(caught.value)


def test_documentation_is_the_generated_text() -> None:
    assert (ROOT / "docs/configurations.md").read_text(encoding="utf-8") == document()
