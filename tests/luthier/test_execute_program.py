"""A program on the one path of every harness: forecast, ledger, store, traces."""

from __future__ import annotations

from pathlib import Path

from luthier.executors.execute import Job, execute, forecast_executions
from luthier.executors.program import module_traces
from luthier.harnesses.program.harness import ProgramHarness
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.store import Store
from luthier.question import Question
from luthier.target import Request
from luthier.targets.scripted import ScriptedTarget, prompt_text
from luthier.task import Score

PROGRAM = ProgramHarness.parse(
    """\
wiring: |
  note, kind = sort_out(question)
  draft = answer_it(question, note)
  answer = answer_it(question, draft)
modules:
  sort_out: {inputs: [question], outputs: [note, kind], instruction: Sort it out.}
  answer_it: {inputs: [question, note], outputs: [answer], instruction: Answer.}
"""
)
JOBS = [Job(PROGRAM, Question.make(task="toy", text=f"thing {n}", reference="x", split="train")) for n in (0, 1, 0)]


def answer(request: Request) -> str:
    """Two labelled lines for the first module, the last input for the second."""
    text = prompt_text(request)
    return "Note: n\nKind: k" if "Sort it out" in text else f"a {text.split('Note: ')[-1].split()[0]}"


def score(asked: Question, text: str) -> Score:
    return Score(1.0 if text == "a a" else 0.0, "scored")


def test_what_is_forecast_is_paid_and_what_is_stored_is_not_paid_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    target = ScriptedTarget(answer)
    meter = Meter(target, store, Ledger(store, run="r"), role="target", account="search", method="m", phase="search")
    forecast = forecast_executions(JOBS[:2], meter)
    assert target.calls == 0
    first = execute(JOBS, score, meter)
    assert forecast.full.calls == meter.ledger.spent().calls == target.calls == 6
    assert [(e.kind, e.outcome, e.answer, e.score) for e in first] == [("program", "ok", "a a", 1.0)] * 3
    again = execute(JOBS, score, meter)
    assert target.calls == 6
    assert [e.to_row() for e in again] == [e.to_row() for e in first]
    traces = module_traces(again[0], PROGRAM)
    assert [(t.module, dict(t.outputs)) for t in traces] == [
        ("sort_out", {"note": "n", "kind": "k"}),
        ("answer_it", {"answer": "a n"}),
        ("answer_it", {"answer": "a a"}),
    ]
