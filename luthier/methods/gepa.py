"""GEPA (Agrawal et al., arXiv 2507.19457): reflective mutation, instance-wise Pareto choice, system-aware merge.

Two engines. `gepa` is the authors' package (0.1.4, the exact reference) behind an adapter of
ours; `own` is `luthier.search.reflective`, the same loop with draws of its own. Any selector, credit and proposer
goes with either; the paper's ablations are the selectors `best` and `beam` without merge.

What the package decides: parents, mini-batches, components, when to merge and what. What is ours around it, because
the package counts otherwise or loses it: every evaluation and every proposal goes
through the session, so ledger, limits, outcomes and log are those of all searches. A limit ends the run before the
first evaluation that does not fit (the package looks once an iteration, and may pass a limit by 2b + V).

* Resume: nothing is pickled. The package is run again over log and store. It is deterministic by its seed, once
  questions and components bear numbers: it walks sets of both, and those of texts depend on PYTHONHASHSEED.
* A merge draws a common ancestor by mean score and fails when all are 0, so it is told `FLOOR` instead of 0.
  Added to any other score of this size it changes no bit, and it moves no comparison.
* A text that is empty, repeated, too long or missing is an outcome of the session. The package then evaluates no
  child; the parent's mini-batch has been paid, the next iteration goes on with another one.
* An epoch that the mini-batch does not divide is padded by the package with its last questions, one of which may
  then stand twice in a mini-batch; both are counted.
* `Exception`s of proposers are swallowed by the package, so ours pass through it as something else.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from luthier.errors import InputError
from luthier.execution import Execution
from luthier.method import MethodCard, SearchMethod
from luthier.question import Question
from luthier.search.candidate import Candidate
from luthier.search.contracts import Acceptance, Credit, Evaluation, Evidence, Proposer, Selector
from luthier.search.credit import OutcomeCredit
from luthier.search.parts import Parts
from luthier.search.reflective import Reflective, require_end
from luthier.search.selectors import NotWorse, ParetoFront, StrictImprovement, selector_of
from luthier.search.session import Search, Session
from luthier.settings.search import ParentName, ReflectiveParams

if TYPE_CHECKING:
    from gepa.core.adapter import EvaluationBatch
    from gepa.core.state import GEPAState
    from gepa.proposer.base import CandidateProposal

CARD = MethodCard(
    name="gepa",
    title="GEPA",
    paper="Agrawal et al., GEPA: Reflective Prompt Evolution Can Outperform Reinforcement Learning, arXiv 2507.19457",
    kind="program",
    phases=("search",),
    trained="nothing; the instructions of the program's modules are searched",
    frozen="the target, the wiring, the signatures and the demonstrations",
    ours="the stop before the first evaluation that does not fit, and the offline proposer where it is chosen",
)

FLOOR = 2.0**-500
"""What the package is told for a score of 0."""
Texts = dict[Any, str]
"""What the package edits: a text by the number of its component (it means names, and never looks into them)."""


class GepaParams(ReflectiveParams):
    """GEPA (arXiv 2507.19457): instance-wise Pareto choice, reflective mutation, merge."""

    selector: ParentName = "pareto"
    acceptance: Literal["strict", "not_worse"] = "strict"
    engine: Literal["gepa", "own"] = Field(
        default="gepa", description="the authors' package, or our loop; every selector goes with both"
    )
    merge: bool = True
    max_merges: int = Field(default=5, ge=0)


def build(settings: GepaParams, parts: Parts) -> Search:
    """The search of these settings.

    Raises:
        InputError: the beam has no width.
    """
    selector = selector_of(settings.selector, settings.width)
    acceptance: Acceptance = StrictImprovement() if settings.acceptance == "strict" else NotWorse()
    credit = OutcomeCredit(steps=parts.binding.steps)
    batch, end = settings.batch, settings.iterations
    merges = settings.max_merges if settings.merge else 0
    chosen = (parts.proposer, selector, acceptance, credit)
    if settings.engine == "own":
        return Reflective(*chosen, batch=batch, iterations=end, merges=merges, name=CARD.name)
    return GepaSearch(*chosen, batch=batch, iterations=end, merges=merges)


METHOD = SearchMethod(CARD, GepaParams, build)


@dataclass(frozen=True)
class GepaSearch:
    """The package's run over a session.

    Attributes:
        proposer, selector, acceptance, credit: Its four independent parts; a `ParetoFront` is the package's own.
        batch: Questions of a mini-batch.
        perfect: A parent that reaches this on the whole mini-batch is not edited.
        merges: Most accepted merges, 0 for none. One costs 5 validation rollouts, and a validation if accepted; the
            package merges only with 5 validation questions or more.
        iterations: Most iterations; None leaves the end to the budget.
        name: What logs call it.
    """

    proposer: Proposer
    selector: Selector = field(default_factory=ParetoFront)
    acceptance: Acceptance = field(default_factory=StrictImprovement)
    credit: Credit = field(default_factory=OutcomeCredit)
    batch: int = 3
    perfect: float = 1.0
    merges: int = 5
    iterations: int | None = None
    name: str = CARD.name

    def settings(self) -> Mapping[str, Any]:
        """See `luthier.search.session.Search`."""
        parts = {name: repr(getattr(self, name)) for name in ("selector", "acceptance", "credit")}
        rest = {"batch": self.batch, "perfect": self.perfect, "merges": self.merges}
        return {"proposer": self.proposer.name, "library": f"gepa {_version()}", **parts, **rest}

    def run(self, session: Session) -> None:
        """Search until the iterations or the budget are used up.

        Raises:
            InputError: neither iterations nor the budget set an end, or the package is missing.
        """
        require_end(self.name, self.iterations, session)
        _version()
        import gepa

        adapter: Any = _Adapter(self, session)
        own: Any = "pareto" if isinstance(self.selector, ParetoFront) else _Choosing(self.selector, session)
        try:
            gepa.optimize(
                seed_candidate=adapter.texts(session.start),
                trainset=list(session.train),
                valset=list(session.validation),
                adapter=adapter,
                candidate_selection_strategy=own,
                acceptance_criterion=adapter,
                perfect_score=self.perfect,
                reflection_minibatch_size=min(self.batch, len(session.train)),
                use_merge=self.merges > 0,
                max_merge_invocations=self.merges,
                stop_callbacks=lambda state: self.iterations is not None and state.i + 1 >= self.iterations,
                callbacks=[adapter],
                cache_evaluation=False,
                logger=_Quiet(),
                seed=session.seed,
            )
        except _Carried as carried:
            raise carried.error from carried.error.__cause__


class _Adapter:
    """What the package calls: `GEPAAdapter`, `AcceptanceCriterion` and two of its callbacks."""

    def __init__(self, search: GepaSearch, session: Session) -> None:
        self._search, self._session = search, session
        self._names = session.scope.components
        self._made = {tuple(self.texts(session.start).values()): session.start}
        self._pool: list[Candidate] = []
        self._merging: tuple[int, ...] = ()
        self._merged: Candidate | None = None

    def texts(self, candidate: Candidate) -> Texts:
        """The texts that may change, by number, in the order of round-robin choice."""
        return {number: candidate.text(name) for number, name in enumerate(self._names)}

    def evaluate(
        self, batch: list[Question], candidate: Texts, capture_traces: bool = False
    ) -> EvaluationBatch[Execution, str]:
        """A mini-batch, the validation questions that test a merge, or the whole validation."""
        from gepa.core.adapter import EvaluationBatch

        if batch[0].split == "train":
            evaluation = self._session.evaluate(self._candidate(candidate), batch, "minibatch")
        elif self._merging:
            evaluation = self._session.evaluate(self._merge(candidate), batch, "merge")
        else:
            evaluation = self._validate(self._candidate(candidate))
        rows = evaluation.executions
        return EvaluationBatch(
            outputs=[row.answer for row in rows],
            scores=[max(score, FLOOR) for score in evaluation.scores],
            trajectories=list(rows),
        )

    def make_reflective_dataset(
        self, candidate: Texts, eval_batch: EvaluationBatch[Execution, str], components_to_update: list[Any]
    ) -> dict[Any, list[dict[str, Any]]]:
        """Evidence by component number, in the package's form of records."""
        parent = self._candidate(candidate)
        evaluation = Evaluation(parent.digest, tuple(eval_batch.trajectories or ()))
        names = [self._names[number] for number in components_to_update]
        with _passing():
            evidence = self._session.assign(self._search.credit, names, parent, evaluation)
        return {number: [_record(item) for item in evidence[self._names[number]]] for number in components_to_update}

    def propose_new_texts(
        self, candidate: Texts, reflective_dataset: Mapping[Any, Sequence[Mapping[str, Any]]], components: list[Any]
    ) -> Texts:
        """New texts by component number; none when none was usable, and then no child is run."""
        parent = self._candidate(candidate)
        evidence = {
            self._names[number]: [_evidence(item) for item in reflective_dataset[number]] for number in components
        }
        with _passing():
            child = self._session.propose(self._search.proposer, parent, evidence)
        texts = self.texts(child)
        self._made.setdefault(tuple(texts.values()), child)
        return {number: text for number, text in texts.items() if text != candidate[number]}

    def should_accept(self, proposal: CandidateProposal[int], state: GEPAState[str, int]) -> bool:
        """Our acceptance, logged; the package asks once for each child, before it validates."""
        before, after = proposal.subsample_scores_before or [], proposal.subsample_scores_after or []
        accepted = self._search.acceptance.accepts(before, after)
        self._session.decide(self._candidate(proposal.candidate), "accepted" if accepted else "rejected")
        return accepted

    def on_evaluation_start(self, event: Mapping[str, Any]) -> None:
        """Learn that a merge is tested next: it alone runs without traces."""
        if not event["capture_traces"]:
            self._merging = tuple(event["parent_ids"])

    def on_merge_rejected(self, event: Mapping[str, Any]) -> None:
        """Log that the merge under test is no better than its parents."""
        with _passing():
            if self._merged is not None:
                self._session.decide(self._merged, "rejected")
        self._merged = None

    def _merge(self, texts: Texts) -> Candidate:
        """The merge under test, logged with its texts, since no proposal holds them."""
        parents = [self._pool[number].digest for number in self._merging]
        named = dict(zip(self._names, texts.values(), strict=True))
        child = Candidate.make(
            {**dict(self._session.start.texts), **named}, dict(self._session.start.demonstrations), parents
        )
        self._made.setdefault(tuple(texts.values()), child)
        self._merging, self._merged = (), child
        self._session.decide(child, "merged", child=child.to_row())
        return child

    def _validate(self, candidate: Candidate) -> Evaluation:
        if self._merged is not None:
            self._session.decide(self._merged, "accepted")
            self._merged = None
        evaluation = self._session.validate(candidate)
        self._pool.append(candidate)
        return evaluation

    def _candidate(self, texts: Texts) -> Candidate:
        """The candidate as it was made, with its parents."""
        return self._made[tuple(texts.values())]


class _Choosing:
    """A selector of ours as the package's `CandidateSelector`."""

    def __init__(self, selector: Selector, session: Session) -> None:
        self._selector, self._session = selector, session

    def select_candidate_idx(self, state: GEPAState[str, int]) -> int:
        """Index of the candidate that is edited in this iteration."""
        scores = [[row[number] for number in sorted(row)] for row in state.prog_candidate_val_subscores]
        return self._selector.choose(scores, self._session.rng(f"parent {state.i}"))


class _Quiet:
    """The package's logger, silent: the session's log says it all."""

    def log(self, message: str) -> None:
        """Drop the message."""


class _Carried(BaseException):
    """An error on its way through the package, which would swallow it."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(str(error))


@contextmanager
def _passing() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise _Carried(error) from error


def _record(item: Evidence) -> dict[str, Any]:
    """A piece of evidence in the package's form; `_evidence` is its inverse."""
    shown = {"Inputs": dict(item.inputs), "Generated Outputs": item.output, "Feedback": item.feedback}
    return {**shown, "question": item.question, "score": item.score}


def _evidence(record: Mapping[str, Any]) -> Evidence:
    inputs = tuple(record["Inputs"].items())
    return Evidence(record["question"], inputs, record["Generated Outputs"], record["score"], record["Feedback"])


def _version() -> str:
    """Version of the installed package."""
    try:
        return importlib.metadata.version("gepa")
    except importlib.metadata.PackageNotFoundError as error:
        raise InputError(
            "field engine: the package gepa is not installed",
            where="search.gepa",
            fix="install luthier[search], or set engine: own",
        ) from error
