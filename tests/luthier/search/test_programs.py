"""A program as a candidate: both ways, and each module's own steps as evidence."""

from __future__ import annotations

import pytest

from luthier.errors import HarnessError
from luthier.execution import Limits
from luthier.executors.execute import Job, execute
from luthier.harnesses.program.harness import ProgramHarness
from luthier.ledger.budget import Budget
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.store import Store
from luthier.question import Question
from luthier.search.candidate import Demonstration
from luthier.search.contracts import Evaluation, Evidence
from luthier.search.credit import OutcomeCredit
from luthier.search.programs import ProgramBinding
from luthier.target import Request
from luthier.targets.scripted import ScriptedTarget, prompt_text
from luthier.task import Score

TEXT = """
wiring: |
  kind, words = split(question)
    if kind == "sort" -> sorted else plain
  sorted: answer = order(words)
    -> END
  plain: answer = reply(question)
modules:
  split:
    inputs: [question]
    outputs: [kind, words]
    instruction: Split it.
    demos:
      - question: sort b a
        kind: sort
        words: b a
  order:
    inputs: [words]
    outputs: [answer]
    instruction: Order them.
  reply:
    inputs: [question]
    outputs: [answer]
    instruction: Reply.
"""


@pytest.fixture
def program() -> ProgramHarness:
    return ProgramHarness.parse(TEXT)


def test_a_program_survives_the_way_to_a_candidate_and_back(program: ProgramHarness) -> None:
    binding = ProgramBinding(program)
    candidate = binding.candidate()
    assert candidate.text("order") == "Order them."
    assert candidate.shots("split") == (
        Demonstration("", (("question", "sort b a"),), '{"kind": "sort", "words": "b a"}', "labelled"),
    )
    assert binding.build(candidate) == program


def test_edits_arrive_in_the_program_and_nothing_else_changes(program: ProgramHarness) -> None:
    binding = ProgramBinding(program)
    shot = Demonstration("q1", (("words", "d c"),), "c d", "bootstrapped")
    child = binding.candidate().with_texts({"order": "By letter."}).with_shots({"order": [shot]})
    built = binding.build(child)
    assert built.modules["order"].instruction == "By letter."
    assert built.modules["order"].demos == ({"words": "d c", "answer": "c d"},)
    assert built.modules["split"].demos == ()
    assert built.wiring == program.wiring


def test_a_demonstration_without_a_field_is_named(program: ProgramHarness) -> None:
    binding = ProgramBinding(program)
    broken = Demonstration("q1", (("question", "x"),), '{"kind": "sort"}', "bootstrapped")
    with pytest.raises(HarnessError, match=r"module split, demos.*kind, words"):
        binding.build(binding.candidate().with_shots({"split": [broken]}))


def _answer(request: Request) -> str:
    text = prompt_text(request)
    if "Split it." in text:
        return "Kind: sort\nWords: b a" if "please" in text.rsplit("Question:", 1)[1] else "Kind: none\nWords: -"
    return "a b" if "Order" in text else "no idea"


def test_each_module_is_shown_its_own_calls_and_none_of_a_run_without_it(program: ProgramHarness, tmp_path) -> None:
    questions = [
        Question.make(task="toy", text=text, reference="a b", split="train") for text in ("please sort b a", "hello")
    ]
    binding = ProgramBinding(program)
    built = binding.build(binding.candidate().with_texts({"order": "Order by letter."}))
    store = Store(tmp_path / "store.db")
    ledger = Ledger(store, Budget(), run="t", counts="alone")
    meter = Meter(ScriptedTarget(_answer), store, ledger, role="target", account="search", method="m", phase="p")
    rows = execute(
        [Job(built, question, 0) for question in questions],
        lambda question, answer: Score(float(answer == question.reference), "remark"),
        meter,
        Limits(),
    )
    store.close()
    assert [row.score for row in rows] == [1.0, 0.0]
    evaluation = Evaluation("c", tuple(rows))
    credit = OutcomeCredit(steps=binding.steps)
    (order,) = credit.assign("order", evaluation, questions, "trace")
    assert (order.inputs, order.output, order.score) == ((("words", "b a"),), "a b", 1.0)
    split = credit.assign("split", evaluation, questions, "trace")
    assert [item.output for item in split] == [
        '{"kind": "sort", "words": "b a"}',
        '{"kind": "none", "words": "-"}',
    ]
    assert [item.score for item in split] == [1.0, 0.0]
    assert len(credit.assign("order", evaluation, questions, "text")) == 2


def test_a_call_becomes_a_worked_case(program: ProgramHarness) -> None:
    case = ProgramBinding(program).worked_case
    inputs = (("question", "sort b a"),)
    assert case("reply", Evidence("q", inputs, "a b", 1.0)) == "Question: sort b a\nAnswer: a b"
    both = Evidence("q", inputs, '{"kind": "sort", "words": "b a"}', 1.0)
    assert case("split", both) == "Question: sort b a\nKind: sort\nWords: b a"


@pytest.mark.parametrize(
    ("component", "output"), [("order", "a b"), ("split", "no object"), ("split", '{"kind": "x"}')]
)
def test_what_is_no_call_of_the_module_becomes_no_case(program: ProgramHarness, component: str, output: str) -> None:
    evidence = Evidence("q", (("question", "sort b a"),), output, 1.0)
    assert ProgramBinding(program).worked_case(component, evidence) == ""
