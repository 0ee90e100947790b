"""`Session`: all that a search can do. Evaluate, validate, assign, propose, decide; each is one row of the log."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol

from luthier.errors import BudgetExhausted, InputError, TargetError
from luthier.ledger.ledger import Ledger
from luthier.question import Question
from luthier.search.candidate import Candidate
from luthier.search.contracts import (
    AskingCredit,
    Assignment,
    Credit,
    DraftOutcome,
    Evaluate,
    Evaluation,
    Event,
    Evidence,
    JointDraft,
    JointProposer,
    LogRow,
    Proposer,
    Scope,
    SearchResult,
    StoppingRule,
    TextDraft,
)
from luthier.search.evaluator import require_alone
from luthier.search.log import SearchLog
from luthier.search.stopping import WholeSteps


class SearchStopped(BaseException):
    """The stopping rule ended the search. No `Exception`, like `BudgetExhausted`: nothing may swallow it."""


class Search(Protocol):
    """An algorithm over a session."""

    @property
    def name(self) -> str:
        """What logs and reports call it."""
        ...

    def settings(self) -> Mapping[str, Any]:
        """JSON of everything that changes its course; part of the log's first row."""
        ...

    def run(self, session: Session) -> None:
        """Search until done or stopped; the session keeps the best."""
        ...


class Session:
    """One run of one search.

    Args:
        seed_candidate: Where it starts.
        scope: What it may edit.
        train, validation: Questions; no id may be in both.
        evaluate: Runs candidates.
        ledger: Pays for everything, and counts "alone"; one run name per search.
        log: Where the steps go. A log that is not empty is replayed.
        seed: Of all random choices.
        stopping: Asked before each evaluation.
        watch: Told each step, replayed ones included; for progress.

    Attributes:
        best, best_score: By full validation; a tie stays with the earlier one.
        validated: Every fully validated candidate by its digest.

    Raises:
        InputError: an empty or mixed question set, a component of the scope that does not exist or is longer than
            the scope allows, a paid ledger.
    """

    def __init__(
        self,
        seed_candidate: Candidate,
        scope: Scope,
        train: Sequence[Question],
        validation: Sequence[Question],
        evaluate: Evaluate,
        ledger: Ledger,
        log: SearchLog,
        *,
        seed: int,
        stopping: StoppingRule | None = None,
        watch: Callable[[LogRow], None] | None = None,
    ) -> None:
        require_alone(ledger)
        _check_questions(train, validation)
        _check_start(seed_candidate, scope)
        self.start, self.scope, self.seed = seed_candidate, scope, seed
        self.train, self.validation = tuple(train), tuple(validation)
        self.best: Candidate = seed_candidate
        self.best_score: float | None = None
        self.validated: dict[str, Candidate] = {}
        self.log, self.budget = log, ledger.budget
        self._evaluate, self._ledger, self._stopping = evaluate, ledger, stopping or WholeSteps()
        self._seen = {seed_candidate.digest}
        self._watch = watch or (lambda row: None)
        self._outcomes: Counter[str] = Counter()
        self._criticisms: Counter[str] = Counter()

    def rng(self, label: str) -> random.Random:
        """A fresh generator for a named choice; depends on seed and label alone."""
        return random.Random(f"{self.seed}:{label}")

    def evaluate(self, candidate: Candidate, questions: Sequence[Question], phase: str) -> Evaluation:
        """Run a candidate on some questions.

        Raises:
            SearchStopped, BudgetExhausted: the search must end.
            InputError: the candidate leaves the scope.
            TargetError: the machine failed.
        """
        return self._run(candidate, questions, phase, full=False)

    def validate(self, candidate: Candidate) -> Evaluation:
        """Run a candidate on all validation questions; only this can make it the best. Raises as `evaluate`."""
        return self._run(candidate, self.validation, "validation", full=True)

    def assign(
        self, credit: Credit, components: Sequence[str], candidate: Candidate, evaluation: Evaluation
    ) -> dict[str, list[Evidence]]:
        """Evidence for components out of training runs. What a critic said is a row of the log, and read from there.

        Raises:
            BudgetExhausted: the critic cannot be paid.
            TargetError: the machine failed a call of the critic.
        """
        by_id = {question.id: question for question in self.train}
        questions = [by_id[row.question] for row in evaluation.executions]
        if not isinstance(credit, AskingCredit):
            return {name: credit.assign(name, evaluation, questions, self.scope.feedback) for name in components}
        old = self.log.replayed
        known = None
        if old is not None and old.event == "criticise":
            known = [TextDraft(item["text"], item["problem"]) for item in old.detail["criticisms"]]
        assignment = credit.assign_all(
            candidate,
            components,
            evaluation,
            questions,
            self.scope.feedback,
            purpose=f"criticise/{len(self.log.rows)}",
            known=known,
        )
        self._log_criticisms(credit.name, candidate, assignment)
        return {name: list(items) for name, items in assignment.evidence.items()}

    def propose(self, proposer: Proposer, parent: Candidate, evidence: Mapping[str, Sequence[Evidence]]) -> Candidate:
        """Have new texts written for the components of `evidence`; the child equals the parent when none was usable.

        A draft is usable when it is not empty, not too long and makes a candidate that was not proposed before;
        everything else is counted by its outcome and stays in the bill.

        Raises:
            BudgetExhausted: the proposer cannot be paid.
            TargetError: the machine failed.
        """
        child = parent
        for component in self.scope.components:
            if component in evidence:
                child = self._propose_one(proposer, child, component, evidence[component])
        return child

    def propose_jointly(
        self, proposer: JointProposer, parent: Candidate, evidence: Mapping[str, Sequence[Evidence]], report: str
    ) -> Candidate:
        """Have the texts of all components written in one proposal; counted and returned as by `propose`.

        It is judged as a whole: one text that is too long spoils it. Texts of other components are left out.
        Raises as `propose`.
        """
        purpose = f"propose/{len(self.log.rows)}"
        names, old = self.scope.components, self.log.replayed
        if old is not None and old.event == "propose" and "texts" in old.detail:
            draft = JointDraft(old.detail["texts"], old.detail["problem"], old.detail["unread"])
        else:
            draft = proposer.propose_all(parent, names, evidence, report, rng=self.rng(purpose), purpose=purpose)
        changes = {name: draft.texts[name].strip() for name in names if draft.texts.get(name, "").strip()}
        child = parent.with_texts(changes)
        outcome: DraftOutcome = "unread" if draft.unread and not draft.problem else "empty"
        if draft.problem or changes:
            outcome = self._judge(draft.problem, child, tuple(changes))
        detail = {"texts": dict(draft.texts), "problem": draft.problem, "unread": draft.unread}
        return self._log_draft(proposer.name, parent, child, outcome, detail)

    def decide(self, candidate: Candidate, outcome: str, **detail: Any) -> None:
        """Log a decision ("accepted", "rejected", ...)."""
        self._add("decide", candidate.digest, "", outcome, detail)

    def begin(self, search: Search) -> None:
        """Log what the course of the search depends on."""
        ids = {"train": [q.id for q in self.train], "validation": [q.id for q in self.validation]}
        detail = {"scope": asdict(self.scope), "seed": self.seed, "settings": dict(search.settings()), **ids}
        self._add("start", self.start.digest, search.name, "", {**detail, "candidate": self.start.to_row()})

    def finish(self, reason: str) -> SearchResult:
        """Log the end."""
        self._add("stop", self.best.digest, "", reason, {})
        outcomes = dict(sorted(self._outcomes.items()))
        criticisms = dict(sorted(self._criticisms.items()))
        return SearchResult(self.best, self.best_score, reason, outcomes, tuple(self.log.rows), criticisms)

    def _run(self, candidate: Candidate, questions: Sequence[Question], phase: str, *, full: bool) -> Evaluation:
        self.scope.check(self.start, candidate)
        if self.log.replayed is None:
            need = self._evaluate.worst_case(candidate, questions, phase)
            reason = self._stopping.reason(self.budget, self.log.spent, need, len(self.log.rows))
            if reason:
                raise SearchStopped(reason)
        evaluation = self._evaluate(candidate, questions, phase)
        if full:
            self.validated.setdefault(candidate.digest, candidate)
        if full and (self.best_score is None or evaluation.mean > self.best_score):
            self.best, self.best_score = candidate, evaluation.mean
        detail = {
            "questions": [question.id for question in questions],
            "scores": list(evaluation.scores),
            "outcomes": dict(sorted(Counter(row.outcome for row in evaluation.executions).items())),
            "full": full,
        }
        self._add("evaluate", candidate.digest, phase, "", detail)
        return evaluation

    def _propose_one(
        self, proposer: Proposer, parent: Candidate, component: str, evidence: Sequence[Evidence]
    ) -> Candidate:
        draft = self._draft(proposer, parent, component, evidence, f"propose/{len(self.log.rows)}")
        child = parent.with_texts({component: draft.text.strip()})
        outcome = self._judge(draft.problem, child, (component,))
        detail = {"component": component, "text": draft.text, "problem": draft.problem}
        return self._log_draft(proposer.name, parent, child, outcome, detail)

    def _log_draft(
        self, name: str, parent: Candidate, child: Candidate, outcome: DraftOutcome, detail: dict[str, Any]
    ) -> Candidate:
        """Count a proposal; the child if it is usable, else the parent."""
        self._require_answers("proposer", name, [detail["problem"]] if outcome == "failed" else [])
        self._outcomes[outcome] += 1
        if outcome == "new":
            self._seen.add(child.digest)
            detail["candidate"] = child.to_row()
        self._add("propose", child.digest if outcome == "new" else parent.digest, name, outcome, detail)
        return child if outcome == "new" else parent

    def _log_criticisms(self, name: str, candidate: Candidate, assignment: Assignment) -> None:
        failed = [item.problem for item in assignment.criticisms if item.problem]
        self._require_answers("critic", name, failed)
        for item in assignment.criticisms:
            self._criticisms["failed" if item.problem else "said" if item.text else "empty"] += 1
        detail = {"criticisms": [asdict(item) for item in assignment.criticisms], "edited": sorted(assignment.evidence)}
        useless = len(failed) == len(assignment.criticisms) > 0
        self._add("criticise", candidate.digest, name, "failed" if useless else "done", detail)

    def _require_answers(self, who: str, name: str, problems: Sequence[str]) -> None:
        """A search never goes on without a text that the machine owes it (ours; gepa 0.1.4 spends on to the end).

        The step is not logged, so the next start asks again. A log may hold such steps from before that rule.
        """
        if problems and self.log.replayed is None:
            raise TargetError(
                f"the machine failed the {who}, calls without an answer: {len(problems)}, the last one: {problems[-1]}",
                where=name,
                fix="mend the machine behind it and start the search again; what was finished is kept",
            )

    def _draft(
        self, proposer: Proposer, parent: Candidate, component: str, evidence: Sequence[Evidence], purpose: str
    ) -> TextDraft:
        old = self.log.replayed
        if old is not None and old.event == "propose" and "text" in old.detail:
            return TextDraft(old.detail["text"], old.detail["problem"])
        return proposer.propose(parent, component, evidence, rng=self.rng(purpose), purpose=purpose)

    def _judge(self, problem: str, child: Candidate, changed: Sequence[str]) -> DraftOutcome:
        texts = [child.text(name) for name in changed]
        if problem:
            return "failed"
        if "" in texts:
            return "empty"
        if any(len(text) > self.scope.max_characters for text in texts):
            return "too-long"
        return "repeated" if child.digest in self._seen else "new"

    def _add(
        self,
        event: Event,
        candidate: str,
        phase: str,
        outcome: str,
        detail: Mapping[str, Any],
    ) -> None:
        best = "" if self.best_score is None else self.best.digest
        spent = self._ledger.spent("alone")
        row = LogRow(len(self.log.rows), event, candidate, phase, outcome, detail, self.best_score, best, spent)
        row = self.log.add(row)
        self._check_budget(row)
        self._watch(row)

    def _check_budget(self, row: LogRow) -> None:
        """A replay must not hand out what a larger budget found. Seconds are estimates and may be passed."""
        over = self.budget.exceeded(replace(row.spent, seconds=None))
        if over is not None:
            raise InputError(
                f"step {row.step} stands at {over[2]:g} {over[0]}, the budget allows {over[1]:g}",
                where=str(self.log.path),
                fix="resume with at least the budget that the log was written with, or start another run",
            )


def run(search: Search, session: Session) -> SearchResult:
    """Run a search to its end. A limit that is reached is an end like any other: the best so far is the result.

    Raises:
        TargetError, StoreError, InputError: the machine or an input is broken; run again to go on.
    """
    session.begin(search)
    try:
        search.run(session)
    except (SearchStopped, BudgetExhausted) as reason:
        return session.finish(str(reason))
    return session.finish("finished")


def _check_start(start: Candidate, scope: Scope) -> None:
    """Edits add to a text, so one that is too long at the start would have nearly all of them refused."""
    for name in scope.components:
        if len(start.text(name)) > scope.max_characters:
            raise InputError(
                f"field max_characters: {scope.max_characters}, but the text of {name!r} has {len(start.text(name))}"
                " before any edit",
                where="scope",
                fix="raise it in the profile, field search.scope.max_characters, or shorten the text",
            )


def _check_questions(train: Sequence[Question], validation: Sequence[Question]) -> None:
    for name, questions in (("train", train), ("validation", validation)):
        if not questions or any(question.split != name for question in questions):
            raise InputError(
                f"field {name}: empty, or holds a question of another split",
                where="search",
                fix=f"give the {name} questions alone",
            )
    shared = sorted({q.id for q in train} & {q.id for q in validation})
    if shared:
        raise InputError(
            f"question {shared[0]} and {len(shared) - 1} others are in train and validation",
            where="search",
            fix="make the splits disjoint",
        )
