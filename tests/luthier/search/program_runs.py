"""Runs of small programs, for tests of what is read out of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from luthier.execution import Limits
from luthier.executors.execute import Job, execute
from luthier.harnesses.program.harness import ProgramHarness
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.store import Store
from luthier.question import Question
from luthier.search.call_graph import CallGraph, call_graph
from luthier.search.contracts import Evaluation
from luthier.target import Request
from luthier.targets.scripted import ScriptedTarget
from luthier.task import Score

Reply = Callable[[Request], str]


def question(text: str = "why", reference: str = "x") -> Question:
    """A training question."""
    return Question.make(task="toy", text=text, reference=reference, split="train")


def ran(
    folder: Path,
    program: ProgramHarness,
    questions: Sequence[Question],
    reply: Reply,
    *,
    sentence: str = "no",
    limits: Limits | None = None,
) -> Evaluation:
    """Run a program; an answer that is the reference scores 1, every other one 0 with this sentence."""
    store = Store(folder / "store.db")
    ledger = Ledger(store, run="t", counts="alone")
    meter = Meter(ScriptedTarget(reply), store, ledger, role="target", account="search", method="m", phase="p")
    jobs = [Job(program, item, 0) for item in questions]
    rows = execute(jobs, lambda item, given: Score(float(given == item.reference), sentence), meter, limits)
    store.close()
    return Evaluation("c", tuple(rows))


def graph_of(folder: Path, text: str, reply: Reply, limits: Limits | None = None) -> CallGraph:
    """The executed graph of one run."""
    program = ProgramHarness.parse(text)
    (row,) = ran(folder, program, [question()], reply, limits=limits).executions
    return call_graph(row, program, "why")
