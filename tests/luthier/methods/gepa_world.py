"""Programs, targets and proposers whose landscape is known, and the folder of a GEPA search."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from luthier.harnesses.program.harness import ProgramHarness
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.store import Store
from luthier.question import Question
from luthier.search.contracts import Scope, TextDraft
from luthier.search.evaluator import Executed
from luthier.search.log import SearchLog
from luthier.search.programs import ProgramBinding
from luthier.search.session import Session, run
from luthier.target import Request
from luthier.targets.scripted import ScriptedTarget, prompt_text
from luthier.task import Score

PROGRAM = """
wiring: |
  first = left(question)
  answer = right(question, first)
modules:
  left:
    inputs: [question]
    outputs: [first]
    instruction: Left.
    demos:
      - question: kind 9 number 9
        first: none
  right:
    inputs: [question, first]
    outputs: [answer]
    instruction: Right.
"""
BINDING = ProgramBinding(ProgramHarness.parse(PROGRAM))
KINDS = (0, 1, 2, 0, 1, 2, 0, 1)


def score(question: Question, given: str) -> Score:
    return Score(float(given == question.reference), f"expected '{question.reference}', got '{given}'")


def questions(split: str, count: int, first: int) -> list[Question]:
    texts = [(KINDS[n % 8], n) for n in range(first, first + count)]
    return [
        Question.make(task="toy", text=f"kind {kind} number {n}", reference=f"right {n}", split=split)
        for kind, n in texts
    ]


def asked(text: str) -> tuple[int, str]:
    kind, number = re.findall(r"kind (\d) number (\d+)", text)[-1]
    return int(kind), number


def halves(request: Request) -> str:
    """Kind 0 needs the left module edited, kind 1 the right one, kind 2 both or none."""
    text = prompt_text(request)
    if "Left" in text:
        return "seen" if "alpha" in text else "blind"
    kind, number = asked(text)
    alpha, beta = "seen" in text, "beta" in text
    return f"right {number}" if (alpha, beta, alpha == beta)[kind] else "wrong"


@dataclass(frozen=True)
class OneHalf:
    """Edits one module of the start and spoils whatever is edited already: only a merge has both."""

    name: str = "one half"

    def propose(self, parent, component, evidence, *, rng, purpose):
        other = {"left": "right", "right": "left"}[component]
        if parent.text(other) != BINDING.candidate().text(other):
            return TextDraft(f"noise {purpose}")
        return TextDraft({"left": "Left. alpha", "right": "Right. beta"}[component] + f" {purpose}")


def forked(request: Request) -> str:
    """The start solves kind 2, a trap kind 0, a detour kinds 1 and 2; one step leads home from there."""
    text = prompt_text(request)
    if "Left" in text:
        return "-"
    kind, number = asked(text)
    solved = {0} if "trap" in text else {0, 1, 2} if "home" in text else {1, 2} if "detour" in text else {2}
    return f"right {number}" if kind in solved else "wrong"


@dataclass(frozen=True)
class Fork:
    """From the start into the trap when it sees kind 0, else to the detour; from the trap nowhere."""

    name: str = "fork"

    def propose(self, parent, component, evidence, *, rng, purpose):
        text = parent.text(component)
        if "trap" in text:
            return TextDraft(f"trap {purpose}")
        if "detour" in text:
            return TextDraft(f"detour home {purpose}")
        sees = any("kind 0" in value for item in evidence for _, value in item.inputs)
        return TextDraft(f"{'trap' if sees else 'detour'} {purpose}")


class Bench:
    """One folder: store, log and target of a search."""

    def __init__(self, folder: Path, answer=halves, *, train: int = 12, validation: int = 8) -> None:
        self.folder = folder
        self.store = Store(folder / "store.db")
        self.target = ScriptedTarget(answer)
        self.train, self.validation = questions("train", train, 0), questions("validation", validation, 104)
        self.start, self.build = BINDING.candidate(), BINDING.build
        self.components = ("left", "right")

    def session(self, budget=None, *, seed=0, target=None, feedback="trace") -> Session:
        ledger = Ledger(self.store, budget, run="run", counts="alone")

        def meters(phase: str, split: str) -> Meter:
            context = {"role": "target", "account": "search", "method": "gepa", "phase": phase, "split": split}
            return Meter(target or self.target, self.store, ledger, **context)

        evaluate = Executed(self.build, score, meters, seed=seed)
        scope = Scope(self.components, demonstrations=True, feedback=feedback)
        log = SearchLog(self.folder / "run.jsonl")
        return Session(self.start, scope, self.train, self.validation, evaluate, ledger, log, seed=seed)

    def search(self, search, budget=None, **options):
        return run(search, self.session(budget, **options))

    def log(self) -> str:
        return (self.folder / "run.jsonl").read_text()

    def bill(self) -> list:
        ledger = Ledger(self.store, run="run", counts="alone")
        return [(line.account, line.role, line.phase, line.alone) for line in ledger.totals()]

    def spent(self, unit: str) -> float:
        return Ledger(self.store, run="run", counts="alone").spent("alone").get(unit)
