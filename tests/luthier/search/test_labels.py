"""References are demonstrations of modules that answer the question themselves, of no others."""

from __future__ import annotations

import pytest

from luthier.errors import InputError
from luthier.harnesses.pool.task_programs import program_for
from luthier.harnesses.program.harness import ProgramHarness
from luthier.question import Question
from luthier.search.candidate import Demonstration
from luthier.search.contracts import Scope
from luthier.search.labels import answering_modules, label_for, labels_of
from luthier.search.programs import ProgramBinding
from luthier.tasks import open_task


@pytest.mark.parametrize(
    ("task", "answering"),
    [("mixed", {"judge": "question"}), ("twohop", {}), ("gsm8k", {"reply": "question"}), ("hotpotqa", {})],
)
def test_only_modules_that_answer_the_question_have_labels(task: str, answering: dict[str, str]) -> None:
    assert answering_modules(program_for(task)) == answering
    question = Question.make(task=task, text="Why?", reference="so", split="train")
    label = label_for(task)
    for name in program_for(task).modules:
        wanted = Demonstration(question.id, (("question", "Why?"),), "so", "labelled") if name in answering else None
        assert label(name, question) == wanted


def test_a_label_bears_the_module_s_own_field_names() -> None:
    program = ProgramHarness.parse(
        "wiring: |\n  draft = guess(question)\n  answer = settle(question)\nmodules:\n"
        "  guess: {inputs: [question], outputs: [text]}\n  settle: {inputs: [riddle], outputs: [solution]}"
    )
    question = Question.make(task="t", text="Why?", reference="so", split="train")
    label = labels_of(program)
    assert label("guess", question) is None
    shot = label("settle", question)
    assert shot is not None
    built = ProgramBinding(program).build(ProgramBinding(program).candidate().with_shots({"settle": [shot]}))
    assert built.modules["settle"].demos == ({"riddle": "Why?", "solution": "so"},)


def test_labels_of_the_mixed_program_build_and_its_scope_prints() -> None:
    binding = ProgramBinding(program_for("mixed"))
    label = label_for("mixed")
    shots = [shot for q in open_task("mixed").questions("train", 16, 7) if (shot := label("judge", q)) is not None]
    assert len(binding.build(binding.candidate().with_shots({"judge": shots})).modules["judge"].demos) == 16
    scope = Scope(tuple(binding.program.modules), demonstrations=True, feedback="trace")
    scope.check(binding.candidate(), binding.candidate().with_shots({"judge": shots}))
    assert scope.render().startswith("instructions + demonstrations of route, ")


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(InputError, match="task 'mixd' is unknown"):
        label_for("mixd")
