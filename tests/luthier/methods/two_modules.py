"""A program of two modules whose landscape is known: what helps one module pays only with a choice of the other.

`read` notes a question, carefully only when KEY is in its instruction. `decide` is shown the note:

    quick note, fewer than 3 demonstrations    right for every fourth question (kind 0)
    careful note, 3 demonstrations or more     always right
    one of the two alone                       always wrong

So from the start (1/4 right) every single change makes it worse, and the two together make it perfect.
"""

from __future__ import annotations

import re
from pathlib import Path

from luthier.harnesses.program.harness import ProgramHarness
from luthier.ledger.budget import Budget
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.store import Store
from luthier.question import Question
from luthier.search.contracts import Scope
from luthier.search.evaluator import Executed
from luthier.search.log import SearchLog
from luthier.search.parts import Parts
from luthier.search.programs import ProgramBinding
from luthier.search.proposers.grammar import GrammarProposer, Part, Slot
from luthier.search.session import Session, run
from luthier.target import Request
from luthier.targets.scripted import ScriptedTarget
from luthier.task import Score

KEY = "List every fact."
GRAMMAR = (Slot("manner", (Part(KEY, frozenset({"wrong"})), Part("Stay calm."), Part("Use plain words."))),)
PROGRAM = ProgramHarness.parse(
    """
wiring: |
  note = read(question)
  answer = decide(question, note)
modules:
  read: {inputs: [question], outputs: [note], instruction: Note the question.}
  decide: {inputs: [question, note], outputs: [answer], instruction: Decide.}
"""
)


def reply(request: Request) -> str:
    """What the target says; see the module."""
    system, *turns = (message.content for message in request.prompt)
    number = re.findall(r"number (\d+)", turns[-1])[-1]
    if turns[-1].endswith("Note:"):
        return f"{'careful' if KEY in system else 'quick'} note of {number}"
    careful, shown = "careful note" in turns[-1], len(turns) // 2 >= 3
    right = careful if careful == shown else False
    return f"right {number}" if right or (not careful and not shown and int(number) % 4 == 0) else "wrong"


def score(question: Question, answer: str) -> Score:
    """Exact match."""
    value = float(answer == question.reference)
    return Score(value, "" if value else f"expected '{question.reference}'")


def questions(split: str, count: int, first: int) -> list[Question]:
    """Numbered questions; every fourth is of kind 0."""
    return [
        Question.make(task="toy", text=f"number {n}", reference=f"right {n}", split=split)
        for n in range(first, first + count)
    ]


class World:
    """One folder: store, logs and target of a search over the program."""

    def __init__(self, folder: Path, *, program=PROGRAM, answer=reply, metric=score, train=16, validation=8) -> None:
        self.folder = folder
        self.store = Store(folder / "store.db")
        self.target = ScriptedTarget(answer)
        self.metric = metric
        self.train = questions("train", train, 0)
        self.validation = questions("validation", validation, 100)
        self.binding = ProgramBinding(program)

    def parts(self, **parts) -> Parts:
        return Parts(self.binding, **{"proposer": GrammarProposer(GRAMMAR), **parts})

    def ledger(self, budget: Budget | None = None, name: str = "run") -> Ledger:
        return Ledger(self.store, budget, run=name, counts="alone")

    def meter(self, ledger: Ledger, target=None, **context) -> Meter:
        options = {"role": "target", "account": "search", "method": "m", "phase": "p", **context}
        return Meter(target or self.target, self.store, ledger, **options)

    def session(
        self, budget=None, *, seed=0, name="run", demonstrations=True, feedback="trace", target=None, ledger=None
    ):
        ledger = ledger or self.ledger(budget, name)
        evaluate = Executed(
            self.binding.build,
            self.metric,
            lambda phase, split: self.meter(ledger, target, phase=phase, split=split),
            seed=seed,
        )
        start = self.binding.candidate()
        scope = Scope(tuple(self.binding.program.modules), demonstrations=demonstrations, feedback=feedback)
        log = SearchLog(self.folder / f"{name}.jsonl")
        return Session(start, scope, self.train, self.validation, evaluate, ledger, log, seed=seed)

    def search(self, search, budget=None, **options):
        return run(search, self.session(budget, **options))

    def log(self, name: str = "run") -> str:
        return (self.folder / f"{name}.jsonl").read_text()

    def spent(self, name: str = "run"):
        return self.ledger(name=name).spent("alone")

    def bill(self, name: str = "run") -> list:
        return [(line.account, line.role, line.phase, line.alone) for line in self.ledger(name=name).totals()]


class Dying:
    """A target that is killed at one of its calls: the process ends, nothing is tidied up."""

    def __init__(self, target, at: int) -> None:
        self.target, self.at = target, at
        self.name, self.fingerprint = target.name, target.fingerprint
        self.count_tokens = target.count_tokens

    def complete(self, requests):
        self.at -= len(requests)
        if self.at < 0:
            raise KeyboardInterrupt
        return self.target.complete(requests)


def phases(result, phase: str) -> int:
    """Rollouts of a phase."""
    return sum(len(row.detail["questions"]) for row in result.rows if row.event == "evaluate" and row.phase == phase)
