"""`Executed`: the `Evaluate` of real searches. Builds a harness from a candidate and runs it through `execute`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from luthier.errors import HarnessError, InputError, LuthierError
from luthier.execution import Execution, Limits
from luthier.executors.execute import InvalidHarness, Job, execute, forecast_executions, require_results
from luthier.executors.scheduler import Scorer
from luthier.harness import Harness
from luthier.ledger.budget import Amount
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import Meter
from luthier.question import Question
from luthier.search.candidate import Candidate
from luthier.search.contracts import Evaluation
from luthier.stopping import StopSignal
from luthier.task import Score

Build = Callable[[Candidate], Harness]
"""Turns a candidate into a harness; raises `HarnessError` when its texts make none."""


MeterFor = Callable[[str, str], Meter]
"""Phase and split -> the meter that pays, with role `target` and account `search`."""


class Executed:
    """Evaluates candidates on one target; all spend goes to the account `search`.

    Args:
        build: Candidate -> harness. A `HarnessError` makes the candidate invalid: it scores 0, and counts.
        scorer: `Task.score`. One that raises, or gives no number from 0 to 1, ends the search with an `InputError`
            (dspy 3.4.1 would score 0).
        meter: Makes the meter of a phase and split. Its ledger must count "alone", or a warm store would give a
            search more steps.
        seed: Of sampled calls of the target.
        limits: Bounds of one execution.
        width, infra_retries, stop: See `luthier.executors.execute.execute`.

    Raises:
        InputError: the meter has another account or role, or its ledger counts what was paid.
    """

    def __init__(
        self,
        build: Build,
        scorer: Scorer,
        meter: MeterFor,
        *,
        seed: int = 0,
        limits: Limits | None = None,
        width: int = 256,
        infra_retries: int = 2,
        stop: StopSignal | None = None,
    ) -> None:
        self._build, self._scorer, self._meter, self._seed = build, _checked(scorer), meter, seed
        self._limits, self._width, self._retries, self._stop = limits or Limits(), width, infra_retries, stop
        example = meter("validation", "validation")
        require_alone(example.ledger)
        context = example.context
        if (context.account, context.role) != ("search", "target"):
            raise InputError(
                f"field meter: account {context.account!r}, role {context.role!r}",
                where="search",
                fix="make it with account='search' and role='target'",
            )

    def __call__(self, candidate: Candidate, questions: Sequence[Question], phase: str) -> Evaluation:
        """See `luthier.search.contracts.Evaluate`."""
        split = _split(questions)
        rows = execute(
            self._jobs(candidate, questions),
            self._scorer,
            self._meter(phase, split),
            self._limits,
            width=self._width,
            infra_retries=self._retries,
            stop=self._stop,
        )
        require_results(rows, f"search, phase {phase}")
        return Evaluation(candidate.digest, tuple(rows if split == "train" else map(_score_only, rows)))

    def worst_case(self, candidate: Candidate, questions: Sequence[Question], phase: str) -> Amount:
        """See `luthier.search.contracts.Evaluate`; without retries of a server, and seconds at the pace of earlier
        calls.
        """
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


def _checked(scorer: Scorer) -> Scorer:
    """The scorer, whose defects are errors that name the question."""
    fix = "repair the task's score and start the search again; what was finished is kept"

    def score(question: Question, answer: str) -> Score:
        try:
            given = scorer(question, answer)
        except LuthierError:
            raise
        except Exception as error:  # whatever a task's own code may raise
            problem = f"question {question.id}: the metric raised {type(error).__name__}: {error}"
            raise InputError(problem, where="search", fix=fix) from error
        if not 0.0 <= given.value <= 1.0:
            problem = f"question {question.id}: the metric gave {given.value!r}, not a number from 0 to 1"
            raise InputError(problem, where="search", fix=fix)
        return given

    return score


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
