"""A toy whose landscape is known: each kind of question needs one sentence in the prompt, one kind a demonstration."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from luthier.harnesses.prompt import PromptHarness
from luthier.ledger.budget import Budget
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.store import Store
from luthier.question import Question
from luthier.search.candidate import Candidate
from luthier.search.contracts import Scope
from luthier.search.evaluator import Executed
from luthier.search.log import SearchLog
from luthier.search.proposers.grammar import GrammarProposer
from luthier.search.reflective import Reflective
from luthier.search.session import Session, run
from luthier.target import Request
from luthier.targets.scripted import ScriptedTarget, prompt_text
from luthier.task import Score

NEEDS = ("only the answer", "whole question", "small steps", "")


def answer(request: Request) -> str:
    text = prompt_text(request)
    kind, number = re.findall(r"kind (\d) number (\d+)", text)[-1]
    return f"right {number}" if NEEDS[int(kind)] in text else f"perhaps 'right {number}' or not"


def score(question: Question, given: str) -> Score:
    value = float(given == question.reference)
    return Score(value, "" if value else f"expected '{question.reference}', got '{given}'")


def questions(split: str, count: int, first: int) -> list[Question]:
    return [
        Question.make(task="toy", text=f"kind {n % 4} number {n}", reference=f"right {n}", split=split)
        for n in range(first, first + count)
    ]


def build(candidate: Candidate) -> PromptHarness:
    texts = " ".join(text for _, text in candidate.texts)
    items = [item for _, shots in candidate.demonstrations for item in shots]
    shots = "".join(f"{item.inputs[0][1]} -> {item.output}\n" for item in items)
    return PromptHarness.parse(f"{texts}\n{shots}{{question}}")


class Toy:
    """One folder: store, logs and target of a search."""

    def __init__(self, folder: Path, *, answer=answer, faults=(), train: int = 12, validation: int = 8) -> None:
        self.folder = folder
        self.store = Store(folder / "store.db")
        self.target = ScriptedTarget(answer, faults=faults)
        self.train = questions("train", train, 0)
        self.validation = questions("validation", validation, 100)
        self.start = Candidate.make({"prompt": "Answer."})

    def ledger(self, budget: Budget | None = None, name: str = "run") -> Ledger:
        return Ledger(self.store, budget, run=name, counts="alone")

    def session(self, budget=None, *, seed=0, name="run", demonstrations=False, target=None, ledger=None, **options):
        ledger = ledger or self.ledger(budget, name)
        evaluate = self.executed(self.meters(ledger, target), seed)
        scope = Scope(self.start.components, demonstrations=demonstrations, feedback=options.pop("feedback", "text"))
        log = SearchLog(self.folder / f"{name}.jsonl")
        return Session(self.start, scope, self.train, self.validation, evaluate, ledger, log, seed=seed, **options)

    def executed(self, meters, seed=0) -> Executed:
        return Executed(build, score, meters, seed=seed)

    def meters(self, ledger, target=None, **context):
        options = {"role": "target", "account": "search", "method": "m", **context}
        return lambda phase, split: Meter(
            target or self.target, self.store, ledger, phase=phase, split=split, **options
        )

    def search(self, search, budget=None, **options):
        return run(search, self.session(budget, **options))

    def log(self, name: str = "run") -> str:
        return (self.folder / f"{name}.jsonl").read_text()

    def bill(self, name: str = "run") -> list:
        ledger = self.ledger(name=name)
        return [(line.account, line.role, line.phase, line.alone) for line in ledger.totals()]


@pytest.fixture
def toy(tmp_path):
    return Toy(tmp_path / "one")


@pytest.fixture(scope="module")
def free(tmp_path_factory):
    """The end of a search by grammar, 30 iterations, that no budget stopped."""
    return Toy(tmp_path_factory.mktemp("free")).search(Reflective(GrammarProposer(), iterations=30))


@pytest.fixture
def toys(tmp_path):
    """A maker of toys in folders of their own."""
    return lambda name, **options: Toy(tmp_path / name, **options)
