"""Against real DSPy; without the extra `dspy` all but the first test skip."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from luthier.errors import HarnessError, InputError
from luthier.harnesses.program.dspy_bridge import from_dspy, module_names, update_dspy, with_dspy_state
from luthier.harnesses.program.dspy_export import to_dspy
from luthier.harnesses.program.harness import ProgramHarness
from luthier.harnesses.program.module import Module

pytestmark = pytest.mark.extras

WIRING = "reasoning, draft = cot(question)\nverdict, why = steps_0(question, draft)\nanswer = copy(draft)"


def test_without_dspy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dspy", None)
    with pytest.raises(InputError, match=r"luthier\[dspy\]"):
        module_names(object())


@pytest.fixture
def dspy() -> Any:
    return pytest.importorskip("dspy", reason="the optional extra `dspy` is not installed")


def theirs(dspy: Any) -> Any:
    """A program as a user writes it: a chain of thought and a predictor in a list."""

    class Theirs(dspy.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.cot = dspy.ChainOfThought("question -> answer")
            fields = {
                "question": (str, dspy.InputField()),
                "draft": (str, dspy.InputField(desc="what somebody wrote")),
                "verdict": (str, dspy.OutputField(desc="right or wrong")),
                "why": (str, dspy.OutputField()),
            }
            self.steps = [dspy.Predict(dspy.Signature(fields, "Judge."), temperature=0.5, max_tokens=40)]
            demo = {"question": "q", "draft": "d", "verdict": "v", "why": "w"}
            self.steps[0].demos = [dspy.Example(augmented=True, dspy_uuid="7", **demo), demo]

    return Theirs()


def test_a_program_comes_in(dspy: Any) -> None:
    assert module_names(theirs(dspy)) == {"cot.predict": "cot", "steps[0]": "steps_0"}
    program = from_dspy(theirs(dspy), WIRING)
    demo = {"question": "q", "draft": "d", "verdict": "v", "why": "w"}
    assert list(program.modules.values()) == [
        Module(
            "cot",
            ("question",),
            ("reasoning", "answer"),
            "Given the fields `question`, produce the fields `answer`.",
            max_tokens=256,
        ),
        Module(
            "steps_0",
            ("question", "draft"),
            ("verdict", "why"),
            "Judge.",
            (demo, demo),
            {"draft": "what somebody wrote", "verdict": "right or wrong"},
            max_tokens=40,
            temperature=0.5,
        ),
    ]


def test_the_result_goes_home(dspy: Any, tmp_path: Path) -> None:
    original = theirs(dspy)
    program = from_dspy(original, WIRING).with_instruction("cot", "Think.").with_demos("steps_0", [])
    demo = {"question": "1+1", "reasoning": "count", "answer": "2"}
    program = program.with_demos("cot", [demo])
    better = update_dspy(program, original)
    assert better.cot.predict.signature.instructions == "Think."
    assert [example.toDict() for example in better.cot.predict.demos] == [demo]
    assert better.steps[0].demos == []
    assert better.steps[0].config == {"temperature": 0.5, "max_tokens": 40}
    assert original.cot.predict.demos == []
    assert from_dspy(better, WIRING) == program
    better.save(tmp_path / "state.json")
    state = json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))
    assert with_dspy_state(from_dspy(original, WIRING), state) == program


def test_an_exported_program_runs_in_dspy_and_loads_its_state(dspy: Any, tmp_path: Path) -> None:
    solve = Module("solve", ("question",), ("answer",), "Solve it.", ({"question": "1+1", "answer": "2"},))
    judge = Module("judge", ("question", "draft"), ("verdict", "why"), "Judge.", (), {"verdict": "right or wrong"})
    wiring = "draft = solve(question)\nverdict, why = judge(question, draft)\nanswer = copy(verdict)"
    ours = ProgramHarness.of([solve, judge], wiring)
    export = to_dspy(ours)
    space: dict[str, Any] = {}
    exec(compile(export.source, "exported", "exec"), space)
    exported = space["Program"]()
    (tmp_path / "state.json").write_text(export.state_text, encoding="utf-8")
    exported.load(tmp_path / "state.json")
    state = exported.dump_state()
    assert state == {key: row for key, row in export.state.items() if key != "metadata"}
    assert from_dspy(exported, wiring, max_tokens=64) == ours
    lm = dspy.utils.DummyLM([{"answer": "4"}, {"verdict": "right", "why": "it is"}])
    with dspy.context(lm=lm):
        assert exported(question="2+2").answer == "right"
    shown = json.dumps(lm.history[0]["messages"])
    assert "Solve it." in shown
    assert "1+1" in shown


def test_incomplete_demonstrations_are_refused_or_dropped(dspy: Any) -> None:
    program = theirs(dspy)
    program.cot.predict.demos = [dspy.Example(question="q", answer="a")]
    with pytest.raises(InputError, match=r"cot.predict.*demonstration 1 lacks reasoning.*drop_incomplete_demos"):
        from_dspy(program, WIRING)
    assert from_dspy(program, WIRING, drop_incomplete_demos=True).module("cot").demos == ()


def broken(dspy: Any, part: str) -> Any:
    """Their program with one part that is not supported."""
    program = theirs(dspy)
    if part == "react":
        program.agent = dspy.ReAct("question -> answer", tools=[])
    elif part == "typed output":
        program.extra = dspy.Predict("question -> number: int")
    elif part == "typed input":
        program.extra = dspy.Predict("items: list[str] -> answer")
    elif part == "lm":
        program.steps[0].lm = dspy.utils.DummyLM([])
    elif part == "adapter":
        program.adapter = dspy.JSONAdapter()
    elif part == "subclass":
        program.extra = type("Mine", (dspy.Predict,), {})("question -> answer")
    elif part == "frozen":
        program.cot._compiled = True
    elif part == "setting":
        program.extra = dspy.Predict("question -> answer", n=3)
    elif part == "demo":
        program.steps[0].demos = [{"question": "q", "draft": 5, "verdict": "v", "why": "w"}]
    elif part == "same name":
        program.steps_0 = dspy.Predict("question -> answer")
    return program


@pytest.mark.parametrize(
    ("part", "word"),
    [
        ("react", r"'agent' is a dspy\.ReAct"),
        ("typed output", "'extra', field 'number' has the type int"),
        ("typed input", "'extra', field 'items' has the type list"),
        ("lm", r"'steps\[0\]' has a language model of its own"),
        ("adapter", "adapter is an adapter .JSONAdapter"),
        ("subclass", "'extra' is a Mine"),
        ("frozen", "'cot.predict' is frozen"),
        ("setting", "'extra' sets 'n'"),
        ("demo", "demonstration 1, field 'draft' is no str"),
        ("same name", "a second module 'steps_0'"),
    ],
)
def test_each_unsupported_part_is_refused_by_name(dspy: Any, part: str, word: str) -> None:
    with pytest.raises(InputError, match=word) as caught:
        from_dspy(broken(dspy, part), WIRING)
    assert "Fix: " in str(caught.value)


def test_predictors_in_a_dictionary_are_found(dspy: Any) -> None:
    program = dspy.Module()
    program.steps = {"first": dspy.Predict("question -> answer")}
    assert list(from_dspy(program, "answer = steps_first(question)").modules) == ["steps_first"]


def test_what_is_no_program_is_refused(dspy: Any) -> None:
    with pytest.raises(InputError, match="is no DSPy program"):
        module_names(SimpleNamespace())
    with pytest.raises(InputError, match="no predictor"):
        module_names(dspy.Module())
    with pytest.raises(HarnessError) as caught:
        from_dspy(theirs(dspy), "a: x, y = cot(question)\n  -> a\nanswer, z = steps_0(question, x)")
    assert caught.value.rule == "unguarded-cycle"


def test_a_program_with_other_modules_or_fields_is_not_updated(dspy: Any) -> None:
    other = ProgramHarness.of([Module("cot", ("question",), ("answer",))], "answer = cot(question)")
    with pytest.raises(InputError, match="has the modules"):
        update_dspy(other, theirs(dspy))
    alone = dspy.Module()
    alone.cot = dspy.Predict("question -> reply")
    with pytest.raises(InputError, match="has the fields"):
        update_dspy(other, alone)
