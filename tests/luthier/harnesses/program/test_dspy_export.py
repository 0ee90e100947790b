"""Export needs no DSPy; that real DSPy takes it is in `test_dspy_bridge`."""

from __future__ import annotations

import json

import pytest

from luthier.errors import InputError
from luthier.harnesses.program.dspy_bridge import with_dspy_state
from luthier.harnesses.program.dspy_export import dspy_state, to_dspy
from luthier.harnesses.program.harness import ProgramHarness
from luthier.harnesses.program.module import Module

DEMO = {"question": "q", "draft": "d", "verdict": "v", "why": "w"}
SOLVE = Module("solve", ("question",), ("answer",), 'Solve "it".', temperature=0.5)
JUDGE = Module("judge", ("question", "draft"), ("verdict", "why"), "Judge.", (DEMO,), {"verdict": "right or wrong"})

SOURCE = '''\
"""A DSPy program, written by Luthier."""

import dspy


class Program(dspy.Module):
    def __init__(self):
        super().__init__()
        self.solve = dspy.Predict(
            dspy.Signature(
                {
                    'question': (str, dspy.InputField()),
                    'answer': (str, dspy.OutputField()),
                },
                'Solve "it".',
            ),
            max_tokens=64,
            temperature=0.5,
        )
        self.judge = dspy.Predict(
            dspy.Signature(
                {
                    'question': (str, dspy.InputField()),
                    'draft': (str, dspy.InputField()),
                    'verdict': (str, dspy.OutputField(desc='right or wrong')),
                    'why': (str, dspy.OutputField()),
                },
                'Judge.',
            ),
            max_tokens=64,
            temperature=0,
        )

    def forward(self, question):
        note = 'none'
        draft = self.solve(question=question, config={'max_tokens': 9})['answer']
        _result = self.judge(question='7', draft=draft)
        note = _result['verdict']
        why = _result['why']
        answer = note
        return dspy.Prediction(answer=answer)
'''


def program() -> ProgramHarness:
    wiring = (
        'state note: str = "none"\ndraft = solve(question) max_tokens=9\n'
        "note, why = judge(7, draft)\nanswer = copy(note)"
    )
    return ProgramHarness.of([SOLVE, JUDGE], wiring)


def test_a_straight_program_is_written_as_python() -> None:
    assert to_dspy(program()).source == SOURCE
    compile(SOURCE, "exported", "exec")


def test_the_state_is_that_of_dspy_s_files() -> None:
    export = to_dspy(program())
    state = json.loads(export.state_text)
    assert list(state) == ["solve", "judge", "metadata"]
    assert state["judge"] == {
        "traces": [],
        "train": [],
        "demos": [DEMO],
        "signature": {
            "instructions": "Judge.",
            "fields": [
                {"prefix": "Question:", "description": "${question}"},
                {"prefix": "Draft:", "description": "${draft}"},
                {"prefix": "Verdict:", "description": "right or wrong"},
                {"prefix": "Why:", "description": "${why}"},
            ],
        },
        "lm": None,
    }


def test_a_state_comes_back() -> None:
    ours = program()
    bare = ours.with_instruction("judge", "").with_demos("judge", [])
    assert with_dspy_state(bare, to_dspy(ours).state) == ours
    theirs = dspy_state(ours, {"judge": "steps[0].predict", "solve": "solve.predict"})
    assert list(theirs) == ["solve.predict", "steps[0].predict", "metadata"]
    renamed = ProgramHarness.of(
        [Module(m.name.replace("judge", "steps_0"), m.inputs, m.outputs) for m in ours.modules.values()],
        "draft = solve(question)\nanswer, why = steps_0(question, draft)",
    )
    assert with_dspy_state(renamed, theirs).module("steps_0").demos == (DEMO,)


def test_a_state_that_does_not_fit_is_refused() -> None:
    ours, state = program(), to_dspy(program()).state
    with pytest.raises(InputError, match="the program the modules"):
        with_dspy_state(ours, {key: row for key, row in state.items() if key != "solve"})
    with pytest.raises(InputError, match="'solve' has no signature"):
        with_dspy_state(ours, {**state, "solve": {"demos": []}})
    with pytest.raises(InputError, match="demonstration 1 lacks answer"):
        with_dspy_state(ours, {**state, "solve": {**state["solve"], "demos": [{"question": "x"}]}})


@pytest.mark.parametrize(
    ("wiring", "part"),
    [
        ("x = solve(question) n=2 temperature=1\nanswer = vote(x)", "node n1 takes several samples"),
        ("x = solve(question)\nanswer = upper(x)", "node n2 runs upper"),
        ("x = solve(question)\nanswer = vote(x)", "node n2 runs vote"),
        ('answer = solve(question)\n  if answer == "x" and visits.n1 < 2 -> n1', "node n1 has edges"),
        ("state x: list[str] append\nx = solve(question)\nanswer = copy(x)", "state x is a list"),
        ("class = solve(question)\nanswer = copy(class)", "state class has a name"),
        ("dspy = solve(question)\nanswer = copy(dspy)", "state dspy has a name"),
    ],
)
def test_what_python_alone_cannot_do_is_refused_by_name(wiring: str, part: str) -> None:
    ours = ProgramHarness.of([SOLVE], wiring)
    with pytest.raises(InputError, match=part):
        to_dspy(ours)
    assert dspy_state(ours)["solve"]["signature"]["instructions"] == 'Solve "it".'


@pytest.mark.parametrize(
    ("module", "part"),
    [
        (Module("forward", ("question",), ("answer",)), "module forward"),
        (Module("lambda", ("question",), ("answer",)), "module lambda"),
        (Module("metadata", ("question",), ("answer",)), "module metadata"),
        (Module("f", ("config",), ("answer",)), "field config"),
        (Module("f", ("class",), ("answer",)), "field class"),
    ],
)
def test_names_that_python_or_dspy_use_are_refused(module: Module, part: str) -> None:
    with pytest.raises(InputError, match=part):
        to_dspy(ProgramHarness.of([module], f"answer = {module.name}(question)"))
