"""`execute`: many harness runs advance together in waves, so that the engine is always given a full batch.

A wave collects what all active runs ask for, has the meter answer it at once, feeds the answers back,
scores what finished and stores it in one transaction (`luthier.executors.scheduler`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from luthier.errors import BudgetExhausted, TargetError
from luthier.execution import Execution, Limits
from luthier.executors.job import InvalidHarness, Job, execution_key
from luthier.executors.scheduler import Scheduler, Scorer, first_requests
from luthier.ledger.ledger import Amount, Forecast
from luthier.ledger.meter import Meter, timed
from luthier.progress import Progress
from luthier.stopping import StopSignal
from luthier.target import Request, Usage

__all__ = [
    "ExecutionsExhausted",
    "InvalidHarness",
    "Job",
    "execute",
    "execution_key",
    "forecast_executions",
    "require_results",
]

_MESSAGES = 3
"""Different messages of the machine that an error quotes."""


class ExecutionsExhausted(BudgetExhausted):
    """The budget did not reach for all jobs.

    Args:
        reason: Which limit stopped it.
        completed: In job order what was finished (and is stored and paid); None for the rest.
    """

    def __init__(self, reason: BudgetExhausted, completed: Sequence[Execution | None]) -> None:
        super().__init__(
            reason.limit, allowed=reason.allowed, needed=reason.needed, account=reason.account, lost=reason.lost
        )
        self.completed = tuple(completed)


def execute(
    jobs: Sequence[Job],
    scorer: Scorer,
    meter: Meter,
    limits: Limits | None = None,
    *,
    width: int = 256,
    infra_retries: int = 2,
    progress: Callable[[Progress], None] | None = None,
    stop: StopSignal | None = None,
) -> list[Execution]:
    """Run jobs; one execution per job, in their order.

    Args:
        jobs: Equal jobs run once; the others get the same row and a cached entry.
        scorer: Scores the answers of runs that end `ok`.
        meter: Pays; its store holds the executions too.
        limits: Bounds of one execution.
        width: Most runs that are active at once.
        infra_retries: How many more times a request that the machine failed is asked, one per wave,
            before its execution becomes `infra_error` (score None, not stored, no rollout charged).
        progress: Told at the start, within a wave after each chunk of calls, and after each wave.
        stop: Asked before each wave and after the last one.

    Raises:
        ExecutionsExhausted: the budget ended; what finished is stored and carried.
        StopRequested: `stop` was set; what finished is stored.
        TargetError: the target serves nothing at all. StoreError: the store cannot be used.
    """
    report = progress or (lambda state: None)
    driver = Scheduler(jobs, scorer, meter, limits or Limits(), report)
    try:
        driver.look_up()
        report(driver.state)
        while driver.active or (driver.queue and driver.refused is None):
            if stop is not None:
                stop.check()
            driver.wave(max(width, 1), infra_retries)
            report(driver.state)
    finally:
        driver.release()
    if driver.refused is not None:
        meter.ledger.stopped = meter.ledger.stopped or driver.refused
        raise ExecutionsExhausted(driver.refused, driver.results)
    if stop is not None:
        stop.check()
    return [result for result in driver.results if result is not None]


def require_results(executions: Sequence[Execution], where: str) -> None:
    """Refuse to go on with executions that the machine failed: what follows from the others would be another result.

    Args:
        executions: All of a step.
        where: Names the step in the error.

    Raises:
        TargetError: some are `infra_error`, with their number and the machine's messages, the most frequent first.
    """
    failed = Counter(item.error for item in executions if item.outcome == "infra_error")
    if not failed:
        return
    count = failed.total()
    said = [f"{times} x {text.rstrip('.')}" for text, times in failed.most_common(_MESSAGES)]
    if len(failed) > _MESSAGES:
        said.append(f"and {len(failed) - _MESSAGES} other messages")
    raise TargetError(
        f"the machine failed {count} of {len(executions)} executions after all tries: {'; '.join(said)}",
        where=where,
        fix="mend the machine, then run the same command again; what was answered is kept and not paid again",
    )


def forecast_executions(jobs: Sequence[Job], meter: Meter, limits: Limits | None = None) -> Forecast:
    """What `execute` would cost. Starts the runs, but calls no target.

    The first batch of every run is known exactly: its calls, its prompt tokens (`count_tokens`) and the most
    that it may write. Later batches depend on answers: their calls are bounded by the harness's own static
    bound and `limits.calls`; each is taken to read the longest prompt and to write the most of the first
    batch, which is an estimate (ours). So a harness whose calls all come at once is forecast exactly.
    Invalid harnesses cost a rollout and nothing else.
    """
    limits = limits or Limits()
    keys = [execution_key(job, meter.target.fingerprint, limits) for job in jobs]
    stored = meter.store.executions(keys)
    first = [first_requests(job, limits) for job in jobs]
    new = {key: index for index, key in reversed(list(enumerate(keys))) if key not in stored}
    full = meter.forecast([request for requests in first for request in requests])
    open_requests = [request for index in sorted(new.values()) for request in first[index]]
    remaining = meter.forecast(open_requests).remaining
    later = [_later(job, requests, meter, limits) for job, requests in zip(jobs, first, strict=True)]
    total = sum(later, Amount(rollouts=len(jobs)))
    left = sum((later[index] for index in new.values()), Amount(rollouts=len(new)))
    notes = full.notes
    if total.calls:
        notes += ("calls of later turns are an upper bound, their tokens an estimate",)
    pace = meter.ledger.pace(meter.target.fingerprint)
    return Forecast(timed(full.full + total, pace), timed(remaining + left, pace), notes)


def _later(job: Job, first: Sequence[Request], meter: Meter, limits: Limits) -> Amount:
    """Calls that may follow a run's first batch."""
    calls = max(min(job.harness.calls_bound(limits), limits.calls) - len(first), 0)
    if not first or not calls:
        return Amount()
    prompt = max(meter.target.count_tokens(request) for request in first)
    written = max(request.max_tokens for request in first)
    return meter.ledger.amount(meter.context.role, Usage(calls, calls * prompt, calls * written))
