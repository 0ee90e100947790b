"""Backward passes worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from luthier.execution import Execution
from luthier.harnesses.program.harness import ProgramHarness
from luthier.methods.textgrad.backward import BackwardCredit
from luthier.search.contracts import AskingCredit, Evaluation, TextDraft
from luthier.search.critics import CriticQuestion
from luthier.search.programs import ProgramBinding
from tests.luthier.search.program_runs import question, ran

DIAMOND = ProgramHarness.parse(
    """
wiring: |
  a = find(question)
    -> left, right
  left: b = one(a)
    -> join
  right: c = two(a, question)
    -> join
  join: both = merge(b, c)
  d = copy(both)
  answer = final(b, d)
modules:
  find: {inputs: [question], outputs: [fact]}
  one: {inputs: [fact], outputs: [guess]}
  two: {inputs: [fact, question], outputs: [guess]}
  final: {inputs: [first, second], outputs: [reply]}
"""
)
NAMES = ("find", "one", "two", "final")


@dataclass
class Echo:
    """Says who was asked and what it was told; nothing of what it is told to spare."""

    spared: tuple[str, ...] = ()
    name: str = "echo"
    batches: list[int] = field(default_factory=list, repr=False)
    purposes: list[str] = field(default_factory=list, repr=False)

    def criticise(self, asks: list[CriticQuestion], purposes: list[str]) -> list[TextDraft]:
        self.batches.append(len(asks))
        self.purposes += purposes
        return [
            TextDraft("" if self._key(ask) in self.spared else f"{self._key(ask)}({ask.criticism})") for ask in asks
        ]

    def _key(self, ask: CriticQuestion) -> str:
        return f"{ask.call.runs}.{ask.edge.name if ask.edge else 'own'}"


@pytest.fixture
def evaluation(tmp_path: Path) -> Evaluation:
    return ran(tmp_path, DIAMOND, [question("why"), question("how", "it")], lambda request: "it", sentence="L")


def assign(critic: Echo, evaluation: Evaluation, names=NAMES, feedback="trace", known=None):
    questions = [question("why"), question("how", "it")]
    start = ProgramBinding(DIAMOND).candidate()
    credit = BackwardCredit(DIAMOND, critic)
    return credit.assign_all(start, names, evaluation, questions, feedback, purpose="p", known=known)


def test_criticism_of_several_ways_is_summed_by_hand(evaluation: Evaluation) -> None:
    """find -> one -> final.first and merge; find -> two -> merge -> copy -> final.second. Tools hand it on as it is."""
    made = assign(Echo(), evaluation)
    first, second = "final.first(L)", "final.second(L)"
    said = {name: [item.feedback for item in items] for name, items in made.evidence.items()}
    assert said["final"] == ["final.own(L)"]
    # `one` is read by merge (place 3, which hands on what final said of its second input) and by final (place 5).
    assert said["one"] == [f"one.own({second}\n{first})"]
    assert said["two"] == [f"two.own({second})"]
    assert said["find"] == [f"find.own(one.fact({second}\n{first})\ntwo.fact({second}))"]


def test_each_call_asks_for_its_instruction_and_each_input_that_a_module_made(evaluation: Evaluation) -> None:
    made = assign(Echo(), evaluation)
    assert [(item.node, item.about) for item in made.criticisms] == [
        ("n6", "instruction"),
        ("n6", "value first of left"),
        ("n6", "value second of n5"),
        ("right", "instruction"),
        ("right", "value fact of n1"),
        ("left", "instruction"),
        ("left", "value fact of n1"),
        ("n1", "instruction"),
    ]
    assert {item.question for item in made.criticisms} == {question("why").id}


def test_runs_advance_together_and_purposes_differ(tmp_path: Path) -> None:
    both = [question("why"), question("how")]
    evaluation = ran(tmp_path, DIAMOND, both, lambda request: "it", sentence="L")
    critic = Echo()
    start = ProgramBinding(DIAMOND).candidate()
    BackwardCredit(DIAMOND, critic).assign_all(start, NAMES, evaluation, both, "trace", purpose="p")
    assert critic.batches == [6, 4, 4, 2]
    assert len(set(critic.purposes)) == 16


def test_a_run_with_a_full_score_is_not_criticised(evaluation: Evaluation) -> None:
    made = assign(Echo(), evaluation)
    assert [len(items) for items in made.evidence.values()] == [1, 1, 1, 1]
    assert all(item.question == question("why").id for items in made.evidence.values() for item in items)


def test_a_module_without_criticism_is_absent_and_nobody_before_it_is_asked(evaluation: Evaluation) -> None:
    made = assign(Echo(spared=("final.first", "final.second", "final.own")), evaluation)
    assert made.evidence == {}
    assert len(made.criticisms) == 3
    made = assign(Echo(spared=("one.fact", "two.fact")), evaluation)
    assert sorted(made.evidence) == ["final", "one", "two"]


def test_only_ways_to_modules_that_may_change_are_walked(evaluation: Evaluation) -> None:
    made = assign(Echo(), evaluation, ("find",))
    assert sorted(made.evidence) == ["find"]
    assert [item.about for item in made.criticisms].count("instruction") == 1
    made = assign(Echo(), evaluation, ("final",))
    assert [item.about for item in made.criticisms] == ["instruction"]


def test_evidence_is_the_call_itself(evaluation: Evaluation) -> None:
    (item,) = assign(Echo(), evaluation).evidence["two"]
    assert (item.inputs, item.output, item.score) == ((("fact", "it"), ("question", "why")), "it", 0.0)


def test_with_less_feedback_blame_chooses_modules_and_tells_no_more(evaluation: Evaluation) -> None:
    (text,) = assign(Echo(spared=("two.own",)), evaluation, feedback="text").evidence["one"]
    assert (text.inputs, text.output, text.feedback) == ((("question", "why"),), "it", "L")
    made = assign(Echo(spared=("two.own",)), evaluation, feedback="score")
    assert sorted(made.evidence) == ["final", "find", "one"]
    assert made.evidence["one"][0].feedback == ""
    assert "The score is 0 of 1." in made.criticisms[0].text


def test_known_answers_are_taken_and_nobody_is_asked(evaluation: Evaluation) -> None:
    made = assign(Echo(), evaluation)
    critic = Echo()
    known = [TextDraft(item.text, item.problem) for item in made.criticisms]
    assert assign(critic, evaluation, known=known) == made
    assert critic.batches == []


def test_a_failed_answer_is_no_criticism_and_is_kept(evaluation: Evaluation) -> None:
    @dataclass
    class Failing(Echo):
        def criticise(self, asks: list[CriticQuestion], purposes: list[str]) -> list[TextDraft]:
            return [TextDraft("half a", "broken") if ask.edge else TextDraft("bad") for ask in asks]

    made = assign(Failing(), evaluation)
    assert sorted(made.evidence) == ["final"]
    assert [item.problem for item in made.criticisms] == ["", "broken", "broken"]


def test_it_is_a_plain_credit_too(evaluation: Evaluation) -> None:
    credit = BackwardCredit(DIAMOND, Echo())
    assert isinstance(credit, AskingCredit)
    items = credit.assign("final", evaluation, [question("why"), question("how", "it")], "trace")
    assert [item.feedback for item in items] == ["final.own(L)"]
    assert repr(credit) == repr(BackwardCredit(DIAMOND, Echo()))


def test_a_run_that_could_not_start_blames_nobody(tmp_path: Path) -> None:
    row = Execution(question("why").id, "h", "program", "t", 0, "invalid", error="broken")
    made = BackwardCredit(DIAMOND, Echo()).assign_all(
        ProgramBinding(DIAMOND).candidate(), NAMES, Evaluation("c", (row,)), [question("why")], "trace", purpose="p"
    )
    assert made.evidence == {}
    assert made.criticisms == ()
