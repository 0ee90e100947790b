"""`Executed`: the `Evaluate` of real searches. Builds a harness from a candidate and runs it through `execute`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from luthier.budget import Amount
from luthier.errors import HarnessError, InputError, TargetError
from luthier.execute import InvalidHarness, Job, execute, forecast_executions
from luthier.execution import Execution, Limits
from luthier.harness import Harness
from luthier.ledger import Ledger
from luthier.meter import Meter
from luthier.question import Question
from luthier.search import Candidate, Evaluation
from luthier.store import Store
from luthier.target import Target
from luthier.waves import Scorer

Build = Callable[[Candidate], Harness]
"""Turns a candidate into a harness; raises `HarnessError` when its texts make none."""


class Executed:
    """Evaluates candidates on one target; all spend goes to the account `search`.

    Args:
        build: Candidate -> harness. A `HarnessError` makes the candidate invalid: it scores 0, and counts.
        scorer: `Task.score`.
        target, store, ledger: The ledger must count "alone", or a warm store would give a search more steps.
        method: Name in the ledger.
        seed: Seed of the search, in the ledger; sampled calls of the target use it too.
        limits: Bounds of one execution.
        infra_retries: See `luthier.execute.execute`.

    Raises:
        InputError: the ledger counts what was paid.
    """

    def __init__(
        self,
        build: Build,
        scorer: Scorer,
        target: Target,
        store: Store,
        ledger: Ledger,
        *,
        method: str,
        seed: int = 0,
        limits: Limits | None = None,
        infra_retries: int = 2,
    ) -> None:
        require_alone(ledger)
        self._build, self._scorer, self._limits = build, scorer, limits or Limits()
        self._target, self._store, self._ledger = target, store, ledger
        self._method, self._seed, self._retries = method, seed, infra_retries
        self._meters: dict[tuple[str, str], Meter] = {}

    def __call__(self, candidate: Candidate, questions: Sequence[Question], phase: str) -> Evaluation:
        """See `luthier.search.Evaluate`."""
        split = _split(questions)
        rows = execute(
            self._jobs(candidate, questions),
            self._scorer,
            self._meter(phase, split),
            self._limits,
            infra_retries=self._retries,
        )
        failed = [row for row in rows if row.outcome == "infra_error"]
        if failed:
            raise TargetError(
                f"{len(failed)} of {len(rows)} executions failed, the first with: {failed[0].error}",
                where=f"search, phase {phase}",
                fix="repair the machine and start the search again; what was finished is kept",
            )
        return Evaluation(candidate.digest, tuple(rows if split == "train" else map(_score_only, rows)))

    def worst_case(self, candidate: Candidate, questions: Sequence[Question], phase: str) -> Amount:
        """See `luthier.search.Evaluate`; seconds at the pace of earlier calls."""
        meter = self._meter(phase, _split(questions))
        return forecast_executions(self._jobs(candidate, questions), meter, self._limits).full

    def _jobs(self, candidate: Candidate, questions: Sequence[Question]) -> list[Job]:
        built: dict[str, Harness | InvalidHarness] = {}
        jobs = []
        for question in questions:
            fair = candidate.without(question.id)
            if fair.digest not in built:
                built[fair.digest] = self._built(fair)
            jobs.append(Job(built[fair.digest], question, self._seed))
        return jobs

    def _built(self, candidate: Candidate) -> Harness | InvalidHarness:
        try:
            return self._build(candidate)
        except HarnessError as error:
            return InvalidHarness("candidate", candidate.digest, str(error))

    def _meter(self, phase: str, split: str) -> Meter:
        if (phase, split) not in self._meters:
            self._meters[phase, split] = Meter(
                self._target,
                self._store,
                self._ledger,
                role="target",
                account="search",
                method=self._method,
                phase=phase,
                split=split,
                seed=self._seed,
            )
        return self._meters[phase, split]


def require_alone(ledger: Ledger) -> None:
    """Refuse a ledger whose limits hold for what was paid.

    Raises:
        InputError: it does.
    """
    if ledger.counts != "alone":
        raise InputError(
            f"field counts: the ledger counts {ledger.counts!r}, so a warm store would prolong the search",
            where="search",
            fix='open it with counts="alone"',
        )


def _split(questions: Sequence[Question]) -> str:
    """The one split of the questions; test questions never enter a search."""
    splits = sorted({question.split for question in questions})
    if splits not in (["train"], ["validation"]):
        raise InputError(
            f"field split: an evaluation holds questions of {splits or 'no split'}",
            where="search",
            fix="give train or validation questions, not both; test questions are for the final comparison",
        )
    return splits[0]


def _score_only(row: Execution) -> Execution:
    return replace(row, answer="", feedback="", error="", trace=())
