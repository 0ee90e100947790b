"""MAS-Architect's own decisions: what is tried, what becomes a teacher row, what a server's reply holds, the reward."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from luthier.errors import InputError
from luthier.execution import Execution, Limits, Step
from luthier.executors.execute import InvalidHarness, Job, execute
from luthier.harnesses import parse
from luthier.harnesses.graph.harness import GraphHarness
from luthier.harnesses.graph.presets import presets
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.store import Store
from luthier.methods import METHODS, card, learned, mas_architect, searches
from luthier.methods.mas_architect import (
    as_harness,
    clean_server_reply,
    generator_prompt,
    generator_request,
    server_request,
)
from luthier.question import Question
from luthier.reward import Reward, RewardValue
from luthier.rewards.tiered import TieredReward
from luthier.target import Message, Usage
from luthier.targets.scripted import Fault, ScriptedTarget
from luthier.tasks.generated.mixed import MixedSuite
from luthier.teaching.filters import filter_candidates
from luthier.teaching.rows import TeacherCandidate
from luthier.teaching.tries import confirm, vary
from luthier.tools.registry import TOOLS
from luthier.training.policy_gradient import share_of_zero_variance_groups

SCORE = MixedSuite().score
LIMITS = Limits()
FIRST = parse("graph", "a = words(question)\nanswer = first(a)")
LAST = parse("graph", "a = words(question)\nanswer = last(a)")
LONG = parse("graph", "a = words(question)\nb = copy(a)\nanswer = first(b)")
CHEAT = parse("graph", 'a = direct(question)\nanswer = reverse("raep")')


def question(number: int, family: str = "f") -> Question:
    return Question.make(task="mixed", family=family, text=f"Item {number}?", reference="pear", split="train")


def tried(asked: Question, harness, outcome: str = "ok", answer: str = "pear", *, tokens: int = 10, source="pool:x"):
    right = outcome == "ok" and answer == asked.reference
    score = None if outcome == "infra_error" else float(right)
    trace = (Step("n1", "llm", {}, "x"), Step("n2", "tool", {}, "y"), Step("n3", "tool", {}, "z"))
    steps = 0 if isinstance(harness, InvalidHarness) else len(harness.nodes)
    row = Execution(
        asked.id, harness.digest, "graph", "t", 0, outcome, answer if outcome == "ok" else "", score,
        trace=trace[:steps], usage=Usage(1, tokens, 0),
    )  # fmt: skip
    return TeacherCandidate(asked, harness, source, row)


def kept(candidates: Sequence[TeacherCandidate], rows_per_question: int = 1):
    return filter_candidates(candidates, SCORE, LIMITS, rows_per_question, prompt=generator_prompt)


def test_every_filter_is_counted():
    one = question(1)
    broken = InvalidHarness("graph", "nonsense", "line 1")
    rows, log = kept(
        [
            tried(one, FIRST),
            tried(one, FIRST, source="server"),
            tried(one, LAST, answer="fig"),
            tried(one, CHEAT),
            tried(one, broken, "invalid"),
            tried(one, LONG, "noop"),
            tried(one, LONG, "incomplete"),
            tried(one, LAST, "infra_error"),
        ]
    )
    assert log.counts == {
        "executed": 8, "correct": 1, "duplicate": 1, "wrong": 1, "cheating": 1, "invalid": 1, "noop": 1,
        "incomplete": 1, "infra_error": 1, "questions_taught": 1, "rows": 1,
        "unreliable": 0,
    }  # fmt: skip
    assert log.acceptance == 2 / 7, "what the machine failed at is no attempt"
    assert log.by_family["f"]["wrong"] == 1
    (row,) = rows
    assert (row.question, row.family, row.source) == (one.id, "f", "pool:x")
    assert (row.prompt, row.completion) == ("Question: Item 1?\nHarness:\n", FIRST.text)
    assert row.harness == FIRST.digest


def test_nothing_tried_is_nothing_accepted():
    rows, log = kept([])
    assert (rows, log.acceptance) == ([], 0.0)


def test_the_system_that_solves_more_of_the_family_is_the_lesson():
    """LAST is cheaper on question 1, but right on 1 of 3 questions only; FIRST on 3 of 3."""
    asked = [question(number) for number in range(3)]
    candidates = [tried(q, FIRST, tokens=50) for q in asked]
    candidates += [tried(q, LAST, answer="pear" if q is asked[0] else "fig", tokens=5) for q in asked]
    rows, _ = kept(candidates)
    assert [row.completion for row in rows] == [FIRST.text] * 3


def test_one_lucky_hit_does_not_outrank_nine_of_ten():
    """Laplace: (1 + 1) / (1 + 2) = 0.67 against (9 + 1) / (10 + 2) = 0.83."""
    asked = [question(number) for number in range(10)]
    candidates = [tried(q, FIRST, answer="fig" if q is asked[9] else "pear", tokens=50) for q in asked]
    candidates.append(tried(asked[0], LAST, tokens=5, source="variation"))
    rows, _ = kept(candidates)
    assert rows[0].completion == FIRST.text


def test_a_machine_failure_is_no_miss():
    """FIRST: 2 right of 2 graded and one machine failure. LAST: 2 right of 3."""
    a, b, c = (question(number) for number in range(3))
    candidates = [tried(a, FIRST, tokens=50), tried(b, FIRST, tokens=50), tried(c, FIRST, "infra_error")]
    candidates += [tried(a, LAST), tried(b, LAST), tried(c, LAST, answer="fig")]
    rows, _ = kept(candidates)
    assert {row.completion for row in rows} == {FIRST.text}


def test_families_do_not_share_their_record():
    a, b = question(1, "f"), question(2, "g")
    candidates = [tried(a, FIRST), tried(b, FIRST, answer="fig"), tried(b, LAST), tried(a, LAST, answer="fig")]
    rows, _ = kept(candidates)
    assert {row.family: row.completion for row in rows} == {"f": FIRST.text, "g": LAST.text}


def test_equal_shares_go_to_fewer_tokens_then_to_the_shorter_text():
    one = question(1)
    assert kept([tried(one, FIRST, tokens=20), tried(one, LONG, tokens=10)])[0][0].completion == LONG.text
    assert kept([tried(one, LONG), tried(one, FIRST)])[0][0].completion == FIRST.text
    smaller = min(FIRST, LAST, key=lambda graph: (len(graph.text), graph.digest))
    assert kept([tried(one, LAST), tried(one, FIRST)])[0][0].completion == smaller.text


def test_a_system_far_below_the_best_of_its_family_teaches_nothing():
    """FIRST: (3 + 1) / (3 + 2) = 0.8. LAST: (1 + 1) / (3 + 2) = 0.4, half of it; it alone solves question 3."""
    asked = [question(number) for number in range(3)]
    other = question(3)
    candidates = [tried(q, FIRST) for q in asked]
    candidates += [tried(q, LAST, answer="fig") for q in asked[:2]] + [tried(other, LAST)]
    taught = {row.question for row in filter_candidates(candidates, SCORE, LIMITS, 1, 0.5, prompt=generator_prompt)[0]}
    assert taught == {q.id for q in [*asked, other]}
    rows, log = filter_candidates(candidates, SCORE, LIMITS, 1, 0.51, prompt=generator_prompt)
    assert {row.question for row in rows} == {q.id for q in asked}
    assert (log.counts["unreliable"], log.counts["questions_taught"]) == (1, 3)


def test_promising_systems_are_tried_on_the_rest_of_their_family():
    a, b, c, other = question(1), question(2), question(3), question(4, "g")
    candidates = [
        tried(a, FIRST),
        tried(b, FIRST),
        tried(b, LAST, source="variation"),
        tried(c, LAST, answer="fig"),
        tried(c, LONG, "noop"),
        tried(other, LONG, answer="fig"),
    ]
    two = [(c, FIRST, "pool:x"), (a, LAST, "variation")]
    assert confirm(candidates, 9) == two, "LONG was never right"
    assert confirm(candidates, 1) == two[:1], "FIRST was right twice"
    assert confirm(candidates, 0) == []


def test_as_many_rows_as_asked_for():
    one = question(1)
    candidates = [tried(one, FIRST), tried(one, LAST), tried(one, LONG)]
    assert len(kept(candidates, 2)[0]) == 2
    assert len(kept(candidates, 9)[0]) == 3


# --- variations ------------------------------------------------------------------------------------------------


def test_variations_are_dealt_out_within_a_family_and_never_twice_to_a_question():
    asked = [question(number) for number in range(4)]
    variations = [
        parse("graph", f"a = words(question)\nanswer = {name}(a)") for name in ("first", "last", "sort", "upper")
    ]
    pairs = vary(asked, variations, 2, seed=1)
    assert vary(asked, variations, 2, seed=1) == pairs
    assert [q.id for q, _ in pairs] == [q.id for q in asked for _ in range(2)]
    chosen = [{graph.text for q, graph in pairs if q is one} for one in asked]
    assert all(len(texts) == 2 for texts in chosen)
    assert chosen[0] | chosen[1] == chosen[2] | chosen[3] == {graph.text for graph in variations}, "two whole decks"
    assert vary(asked, variations, 9, seed=1) == [(q, graph) for q in asked for graph in variations]
    three = vary(asked, variations, 3, seed=1)
    assert [len({graph.text for q, graph in three if q is one}) for one in asked] == [3, 3, 3, 3]
    assert [sum(graph is card for _, graph in three) for card in variations] == [3, 3, 3, 3]
    other = Question.make(task="mixed", family="other", text="Item?", reference="pear", split="train")
    assert vary([other, *asked], variations, 2, seed=1)[2:] == pairs, "families do not share a deck"
    assert vary(asked, variations, 2, seed=2) != pairs


def test_the_draw_does_not_depend_on_the_hash_seed():
    code = (
        "from luthier.question import Question; from luthier.teaching.tries import vary;"
        "q = Question.make(task='mixed', family='f', text='Item 1?', reference='pear', split='train');"
        "print([g for _, g in vary([q], list(range(50)), 5, 5)])"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout != ""


# --- texts -----------------------------------------------------------------------------------------------------

GRAPH = "a = words(question)\nanswer = first(a)"


@pytest.mark.parametrize(
    "reply",
    [
        GRAPH,
        f"  {GRAPH}\n",
        f"Here it is:\n```\n{GRAPH}\n```\nGood luck!",
        f"```graph\n{GRAPH}\n```",
        f"```text \n{GRAPH}```",
        f"First try:\n```\nanswer = direct(question)\n```\nBetter:\n```\n{GRAPH}\n```",
        f"```\n{GRAPH}\n```\nand then ```",
        f"<think>maybe\n```\nanswer = direct(question)\n```\n</think>\n{GRAPH}",
    ],
)
def test_the_graph_is_cut_out_of_a_reply(reply):
    assert clean_server_reply(reply) == GRAPH


def test_a_reply_on_one_line_keeps_its_first_word():
    assert clean_server_reply("```answer = direct(question)```") == "answer = direct(question)"


def test_a_reply_without_a_graph_stays_what_it_is():
    assert clean_server_reply("I cannot.") == "I cannot."
    assert isinstance(as_harness(clean_server_reply("I cannot.")), InvalidHarness)


def test_a_broken_text_becomes_a_row_with_its_error():
    harness = as_harness("answer = frist(question)")
    assert isinstance(harness, InvalidHarness)
    assert "frist" in harness.error
    assert isinstance(as_harness(GRAPH), GraphHarness)


def test_the_server_is_told_every_tool_and_preset_and_not_the_reference():
    asked = question(1)
    request = server_request(asked.text, max_tokens=99, seed=3)
    assert (request.max_tokens, request.seed, request.temperature) == (99, 3, 0.8)
    system, user = request.prompt
    assert isinstance(system, Message)
    assert (system.role, user.role, user.content) == ("system", "user", f"Question: {asked.text}")
    assert all(tool.signature in system.content for tool in TOOLS.values())
    assert all(f"{name}(" in system.content for name in presets())
    assert asked.reference not in user.content


def test_a_checkpoint_is_asked_greedily_with_the_prompt_that_it_was_trained_on():
    request = generator_request(48)("How many?")
    assert (request.prompt, request.max_tokens, request.temperature) == ("Question: How many?\nHarness:\n", 48, 0.0)


def test_the_settings_and_the_list_of_methods_agree():
    assert {*learned(), *searches()} == set(METHODS)
    assert card("mas_architect").phases == ("teach", "sft", "reinforce")


def test_an_unknown_method_names_the_near_one():
    with pytest.raises(InputError, match="did you mean 'mas_architect'"):
        card("mas_architct")


# --- the reward of reinforce -----------------------------------------------------------------------------------

WORDS = Question.make(task="mixed", text="Which comes first? Words: fig, pear", reference="fig", split="train")


@pytest.fixture
def bench(tmp_path):
    """A function (faults) -> (judge, ledger): the real executor on a scripted target that copies the words."""
    store = Store(tmp_path / "store.sqlite")

    def build(*faults: Fault, reward: Reward | None = None, asked: Sequence[Question] = (WORDS,)):
        target = ScriptedTarget([(r".*Words: ([a-z, ]+)\nWords:$", r"\1")], default="no idea", faults=faults)
        ledger = Ledger(store, run="reinforce")

        def run(jobs: Sequence[Job], scope: str) -> list[Execution]:
            meter = Meter(target, store, ledger, role="target", account="train", method="m", phase="r", scope=scope)
            return execute(jobs, SCORE, meter, LIMITS, infra_retries=0)

        questions = {question.id: question for question in asked}
        return mas_architect.judge(questions, run, SCORE, LIMITS, reward or TieredReward(), seed=1), ledger

    yield build
    store.close()


def test_sampled_texts_are_run_and_graded(bench):
    judge, ledger = bench()
    texts = [
        "a = words(question)\nanswer = first(a)\n",
        "a = words(question)\nanswer = last(a)",
        "nonsense",
        'a = direct(question)\nanswer = reverse("gif")',
        "limits calls=1\ndraft = direct(question)\nanswer = direct(draft)",
        "a = direct(question)\nanswer = calculate(a)",
    ]
    values = judge([WORDS.id] * len(texts), texts, "step 0")
    assert [value.value for value in values] == [1.0, 0.1, 0.0, 0.0, 0.0, 0.1]
    assert [value.parts["cheating"] for value in values] == [0, 0, 0, 1, 0, 0]
    assert ledger.spent("alone", "train").rollouts == len(texts)


def test_a_machine_failure_has_no_reward(bench):
    judge, _ = bench(Fault("error", pattern="Words:$"))
    texts = ["a = words(question)\nanswer = first(a)", "answer = direct(question)"]
    assert [value.value for value in judge([WORDS.id] * 2, texts, "step 0")] == [None, 0.1]


def test_a_group_of_equal_texts_is_flat(bench):
    judge, _ = bench()
    values = judge([WORDS.id] * 4, ["a = words(question)\nanswer = last(a)"] * 4, "step 0")
    assert share_of_zero_variance_groups([value.value for value in values], 4) == 1.0


class AboveTheGroup:
    """A reward that needs the other members: the score above the group's mean."""

    def rewards(self, question, executions, cheats):
        scores = [execution.score for execution in executions]
        return [RewardValue(score - sum(scores) / len(scores), {"members": len(scores)}) for score in scores]


def test_a_reward_gets_the_whole_group_of_a_question(bench):
    other = Question.make(task="mixed", text="Which comes first? Words: kiwi, plum", reference="kiwi", split="train")
    judge, _ = bench(reward=AboveTheGroup(), asked=(WORDS, other))
    first, last = "a = words(question)\nanswer = first(a)", "a = words(question)\nanswer = last(a)"
    values = judge([WORDS.id] * 4 + [other.id] * 2, [first, last, last, last, first, last], "step 0")
    assert [value.value for value in values] == [0.75, -0.25, -0.25, -0.25, 0.5, -0.5]
    assert [value.parts["members"] for value in values] == [4, 4, 4, 4, 2, 2]
