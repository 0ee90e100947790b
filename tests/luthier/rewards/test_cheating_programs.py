"""The cheat checks read what a program says and how it is wired, as they do for graphs."""

from __future__ import annotations

import pytest

from luthier.execution import Execution, Limits
from luthier.harnesses.program.harness import ProgramHarness
from luthier.harnesses.program.module import Module
from luthier.question import Question
from luthier.rewards.cheating import find_cheat, run_with
from luthier.target import Request
from luthier.task import Score

TOWN = Question.make(task="toy", text="Which town has the tower?", reference="Paris", split="train")
NUMBER = Question.make(task="toy", text="How many?", reference="64", split="train")
SHOWN = ({"question": "Where is the Seine?", "answer": "Paris"},)


def score(asked: Question, text: str) -> Score:
    return Score(float(text.casefold() == asked.reference.casefold()), "scored")


def cheat_of(program: ProgramHarness, asked: Question) -> str:
    def answer(request: Request) -> str:
        return asked.reference

    result = run_with(program, asked, Limits(), answer)
    row = Execution(asked.id, program.digest, "program", "t", 0, result.outcome, result.answer, 1.0, trace=result.trace)
    assert (result.outcome, score(asked, result.answer).value) == ("ok", 1.0)
    return find_cheat(program, asked, row, score, Limits())


def asks(**parts: object) -> Module:
    return Module("ask", ("question",), ("answer",), **parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("module", "wiring", "found"),
    [
        (asks(), "answer = ask(question)", ""),
        (asks(instruction="Say Paris."), "answer = ask(question)", "literal"),
        (asks(demos=SHOWN), "answer = ask(question)", "literal"),
        (asks(descriptions={"answer": "Paris"}), "answer = ask(question)", "literal"),
        (asks(), 'x = ask(question)\nanswer = copy("Paris")', "literal"),
        (asks(), 'x = ask(question)\nanswer = reverse("siraP")', "constant"),
    ],
)
def test_cheats_of_programs_are_found(module: Module, wiring: str, found: str) -> None:
    assert cheat_of(ProgramHarness.of([module], wiring), TOWN) == found


def test_settings_of_a_module_are_no_hidden_answer() -> None:
    assert cheat_of(ProgramHarness.of([asks(max_tokens=64)], "answer = ask(question)"), NUMBER) == ""
    assert cheat_of(ProgramHarness.of([asks(max_tokens=65)], "answer = ask(question) max_tokens=64"), NUMBER) == ""
