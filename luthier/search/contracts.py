"""`search`: the contracts of finding one harness from outside. Who proposes is apart from who gets credit.

A search edits a `Candidate` (texts and demonstrations by component name) inside a declared `Scope`, and ends
with the best one that full validation proved within the budget. Its parts vary independently:
`Proposer` x `Credit` x `Selector` x `Acceptance`. Who sees what: training questions give scores, feedback and traces;
validation questions give scores only; test questions are refused.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from luthier.errors import InputError
from luthier.execution import Execution
from luthier.ledger.budget import Amount, Budget
from luthier.question import Question
from luthier.search.candidate import Candidate

Feedback = Literal["score", "text", "trace"]
"""What a proposer learns of a training run: the score alone, also the task's sentence, also each component's step."""
DraftOutcome = Literal["new", "empty", "repeated", "too-long", "unread", "failed"]
"""What became of a proposal; all are counted. unread: not in the form that was asked for. failed: the machine gave
no text."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a search may edit and what it may read; searches are compared only under equal scopes.

    Attributes:
        components: Names of the texts that may change, in the order of round-robin choice.
        demonstrations: Whether demonstrations may change too.
        feedback: What proposers learn of a training run.
        max_characters: Longest text of a component.
    """

    components: tuple[str, ...]
    demonstrations: bool = False
    feedback: Feedback = "text"
    max_characters: int = 2000

    def check(self, seed: Candidate, candidate: Candidate) -> None:
        """Refuse a candidate that differs from the seed outside the scope.

        Raises:
            InputError: it does; component and fix are named.
        """
        fix = "widen the scope for all searches of the comparison, or leave it as the seed has it"
        if candidate.components != seed.components:
            raise InputError(f"components {candidate.components} differ from the seed's", where="scope", fix=fix)
        for name in seed.components:
            if name not in self.components and candidate.text(name) != seed.text(name):
                raise InputError(f"component {name!r} may not be edited", where="scope", fix=fix)
            if not self.demonstrations and candidate.shots(name) != seed.shots(name):
                raise InputError(f"demonstrations of {name!r} may not be edited", where="scope", fix=fix)

    def render(self) -> str:
        """One line to print beside every number."""
        edited = "instructions + demonstrations" if self.demonstrations else "instructions"
        names = ", ".join(self.components)
        return f"{edited} of {names} (at most {self.max_characters} characters each); proposers read: {self.feedback}"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A candidate's executions on some questions, in their order. None of them is an `infra_error`.

    Attributes:
        candidate: Its digest.
        executions: Rows; those of validation questions hold scores and outcomes only.
    """

    candidate: str
    executions: tuple[Execution, ...]

    @property
    def scores(self) -> tuple[float, ...]:
        """One score per question."""
        return tuple(row.score or 0.0 for row in self.executions)

    @property
    def mean(self) -> float:
        """Mean score, exact in any order; 0 for no question."""
        return math.fsum(self.scores) / len(self.executions) if self.executions else 0.0


class Evaluate(Protocol):
    """Runs a candidate. Build one with `luthier.search.evaluator.Executed`."""

    def __call__(self, candidate: Candidate, questions: Sequence[Question], phase: str) -> Evaluation:
        """Run and pay; `phase` names the step in the ledger.

        Raises:
            BudgetExhausted: the budget does not reach for all questions.
            TargetError: the machine failed on some question, retries included; nothing is scored 0 for that.
        """
        ...

    def worst_case(self, candidate: Candidate, questions: Sequence[Question], phase: str) -> Amount:
        """The most that it can cost, uncached; equal whatever the store holds (seconds aside)."""
        ...


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one component did in one training run.

    Attributes:
        question: Question id. inputs: Name and text of what the component read. output: What it wrote.
        score: Score that credit assigns to this step. feedback: A sentence, "" when the scope hides it.
    """

    question: str
    inputs: tuple[tuple[str, str], ...]
    output: str
    score: float
    feedback: str = ""


class Credit(Protocol):
    """Says which component did what, and how well."""

    def assign(
        self, component: str, evaluation: Evaluation, questions: Sequence[Question], feedback: Feedback
    ) -> list[Evidence]:
        """Evidence for one component, in question order, with no more than `feedback` allows."""
        ...


@dataclass(frozen=True, slots=True)
class Criticism:
    """What a critic said of one value of one run.

    Attributes:
        question: Question id. call: Place of the call in the trace, from 0. node: The node that made it.
        about: "instruction", or the input of the call that was criticised.
        text: What it said, "" for no complaint. problem: Why the machine gave no text.
    """

    question: str
    call: int
    node: str
    about: str
    text: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Credit for several components at once.

    Attributes:
        evidence: By component; one that deserves no complaint is absent and is not edited.
        criticisms: Everything that was asked of a critic, in order.
    """

    evidence: Mapping[str, list[Evidence]]
    criticisms: tuple[Criticism, ...]


@runtime_checkable
class AskingCredit(Protocol):
    """A credit that asks a critic, who may cost calls. Use it through `luthier.search.session.Session.assign`."""

    @property
    def name(self) -> str:
        """What logs and reports call it."""
        ...

    def assign_all(
        self,
        candidate: Candidate,
        components: Sequence[str],
        evaluation: Evaluation,
        questions: Sequence[Question],
        feedback: Feedback,
        *,
        purpose: str,
        known: Sequence[TextDraft] | None = None,
    ) -> Assignment:
        """Evidence for the components of a candidate that ran, the rest as of `Credit.assign`.

        `purpose` is unique in the run and equal on replay. `known` holds the critic's answers in order when they
        are known; nobody is asked then.

        Raises:
            CallsExhausted: the budget does not reach.
            TargetError: the critic's target serves nothing at all.
        """
        ...


@dataclass(frozen=True, slots=True)
class TextDraft:
    """What a proposer wrote: a text, or the reason why the machine gave none."""

    text: str
    problem: str = ""


class Proposer(Protocol):
    """Writes a new text for one component."""

    @property
    def name(self) -> str:
        """What logs and reports call it."""
        ...

    def propose(
        self, parent: Candidate, component: str, evidence: Sequence[Evidence], *, rng: random.Random, purpose: str
    ) -> TextDraft:
        """One draft. `rng` is fresh and seeded; `purpose` is unique in the run and equal on replay."""
        ...


@dataclass(frozen=True, slots=True)
class JointDraft:
    """What a joint proposer wrote.

    Attributes:
        texts: By component; those that stay as they are may be absent.
        problem: Why the machine gave no text. unread: Why its answer could not be read.
    """

    texts: Mapping[str, str]
    problem: str = ""
    unread: str = ""


class JointProposer(Protocol):
    """Writes new texts for several components in one proposal."""

    @property
    def name(self) -> str:
        """What logs and reports call it."""
        ...

    def propose_all(
        self,
        parent: Candidate,
        components: Sequence[str],
        evidence: Mapping[str, Sequence[Evidence]],
        report: str,
        *,
        rng: random.Random,
        purpose: str,
    ) -> JointDraft:
        """One draft for the components that may change; `rng` and `purpose` as of `Proposer.propose`.

        `evidence` is there for each component that has a part in what went wrong; `report` is the whole story.
        """
        ...


class Selector(Protocol):
    """Chooses the candidate that is edited next."""

    def choose(self, scores: Sequence[Sequence[float]], rng: random.Random) -> int:
        """Index of a candidate. `scores[c][i]` is the validation score of candidate c on question i."""
        ...


class Acceptance(Protocol):
    """Says whether a child is worth a full validation."""

    def accepts(self, parent: Sequence[float], child: Sequence[float]) -> bool:
        """Scores on the same mini-batch, in the same order."""
        ...


class StoppingRule(Protocol):
    """Says, before each evaluation, whether a search must end; never raises."""

    def reason(self, budget: Budget, spent: Amount, need: Amount, steps: int) -> str:
        """Why to stop, "" to go on.

        Args:
            budget: Limits of the ledger.
            spent: As if alone, after the last step.
            need: The most that the evaluation can cost.
            steps: Rows of the log so far.
        """
        ...


Event = Literal["start", "criticise", "propose", "evaluate", "decide", "stop"]


@dataclass(frozen=True, slots=True)
class LogRow:
    """One step of a search.

    Attributes:
        step: From 0.
        event: start, criticise, propose, evaluate, decide, or stop.
        candidate: Digest of what it is about, "" when nothing.
        phase: Ledger phase of an evaluation, or the name of the proposer or of the credit.
        outcome: Of a proposal, decision or criticism; the reason of a stop.
        detail: JSON: settings (start), answers (criticise), the candidate (propose), questions and scores (evaluate).
        best: Best mean of a full validation so far, None before the first.
        best_candidate: Its digest.
        spent: As if alone, AFTER this step. Seconds are measured, so they differ
            between machines; everything else is equal for equal runs.
    """

    step: int
    event: Event
    candidate: str
    phase: str
    outcome: str
    detail: Mapping[str, Any]
    best: float | None
    best_candidate: str
    spent: Amount

    def to_row(self) -> dict[str, Any]:
        """JSON object of this row."""
        return asdict(self)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> LogRow:
        """Inverse of `to_row`."""
        return cls(**{**row, "spent": Amount(**row["spent"])})


@dataclass(frozen=True, slots=True)
class SearchResult:
    """How a search ended.

    Attributes:
        best: Best candidate by full validation, the seed when none was validated.
        score: Its mean validation score, None when none was validated.
        reason: "finished", or which limit ended it.
        outcomes: Count of each proposal outcome.
        rows: The whole log.
        criticisms: Count of what a critic answered: said, empty (no complaint), failed (no text).
    """

    best: Candidate
    score: float | None
    reason: str
    outcomes: Mapping[str, int]
    rows: tuple[LogRow, ...]
    criticisms: Mapping[str, int] = field(default_factory=dict)

    def improvements(self) -> list[tuple[LogRow, float]]:
        """The steps after which the best score was higher than ever before, and that score."""
        found: list[tuple[LogRow, float]] = []
        for row in self.rows:
            if row.best is not None and (not found or row.best > found[-1][1]):
                found.append((row, row.best))
        return found

    def curve(self, unit: str) -> list[tuple[float | None, float]]:
        """Spend uncached in one of `luthier.ledger.budget.UNITS` (None: unknown) and best score, at each
        improvement.
        """
        return [(row.spent.get(unit), best) for row, best in self.improvements()]
