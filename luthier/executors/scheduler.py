"""The driver behind `luthier.executors.execute`: admits runs, answers their requests in waves, scores and stores.

Waves are formed from the order of the jobs alone. Execution rows carry no wall time (usage seconds are 0),
so equal work gives equal rows; the ledger has the seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from luthier.errors import BudgetExhausted, SandboxError
from luthier.execution import Execution, Limits
from luthier.executor import Run, RunResult
from luthier.executors import executor_for
from luthier.executors.job import InvalidHarness, Job, execution_key
from luthier.ledger.ledger import Amount, Entry
from luthier.ledger.meter import CallsExhausted, Meter
from luthier.ledger.store import StoredExecution
from luthier.progress import Progress
from luthier.question import Question
from luthier.target import Completion, Failure, Request, Usage
from luthier.task import Score

Scorer = Callable[[Question, str], Score]
"""`Task.score`."""


@dataclass(slots=True)
class Active:
    """A run in progress: the batch that it waits for, and what the batches before cost."""

    job: Job
    key: str
    purpose: str
    reserved: int
    run: Run
    started: bool = False
    requests: Sequence[Request] = ()
    answers: list[Completion | None] = field(default_factory=list)
    costs: list[Usage] = field(default_factory=list)
    failed_waves: int = 0
    problem: str = ""

    def waiting(self) -> Iterator[tuple[int, Request]]:
        """Unanswered requests with their places in the batch."""
        for place, (request, answer) in enumerate(zip(self.requests, self.answers, strict=True)):
            if answer is None:
                yield place, request

    def purpose_of(self, place: int) -> str:
        """What the call at this place of the batch is for; equal whenever the execution is run again."""
        return f"{self.purpose}/{len(self.costs) + place}"

    def advance(self, limits: Limits) -> RunResult | None:
        """Feed back a complete batch; the result when the run ended, None when it asks for more."""
        while True:
            batch = [answer for answer in self.answers if answer is not None]
            self.costs.extend(answer.usage for answer in batch)
            sent = [replace(answer, usage=_timeless(answer.usage)) for answer in batch]
            try:
                self.requests = self.run.send(sent) if self.started else next(self.run)
            except StopIteration as end:
                result: RunResult = end.value
                return result
            self.started, self.answers, self.failed_waves = True, [None] * len(self.requests), 0
            if reached := self._reached(limits):
                self.run.close()
                return RunResult("incomplete", error=reached)
            if self.requests:
                return None

    def _reached(self, limits: Limits) -> str:
        calls = len(self.costs) + len(self.requests)
        if calls > limits.calls:
            return f"limit calls: {calls} needed, {limits.calls} allowed"
        tokens = sum(usage.prompt_tokens + usage.completion_tokens for usage in self.costs)
        if self.requests and tokens > limits.tokens:
            return f"limit tokens: {tokens} used, {limits.tokens} allowed"
        return ""


@dataclass(frozen=True, slots=True)
class _Ended:
    """A run that came to its end, not scored yet."""

    job: Job
    key: str
    purpose: str
    reserved: int
    result: RunResult
    costs: tuple[Usage, ...] = ()


class Scheduler:
    """The state of one `execute`; `report` is told whenever some of a wave's calls have their answers."""

    def __init__(
        self, jobs: Sequence[Job], scorer: Scorer, meter: Meter, limits: Limits, report: Callable[[Progress], None]
    ) -> None:
        self._scorer, self._meter, self._limits, self._report = scorer, meter, limits, report
        self._store, self._ledger = meter.store, meter.ledger
        self._jobs: dict[str, Job] = {}
        self._places: dict[str, list[int]] = {}
        self._purposes: list[str] = []
        for index, job in enumerate(jobs):
            key = execution_key(job, meter.target.fingerprint, limits)
            self._jobs.setdefault(key, job)
            self._places.setdefault(key, []).append(index)
            self._purposes.append(f"{key}#{self._ledger.nth_use(meter.context, key)}")
        self.results: list[Execution | None] = [None] * len(jobs)
        self.state = Progress(len(jobs))
        self.refused: BudgetExhausted | None = None
        self.active: list[Active] = []
        self.queue: list[str] = []

    def look_up(self) -> None:
        """Take the executions that the store has; queue the others."""
        stored = self._store.executions(self._places)
        hits = [(index, stored[key]) for key, places in self._places.items() if key in stored for index in places]
        self._replay(sorted(hits, key=lambda hit: hit[0]))
        self.queue = [key for key in self._places if key not in stored]

    def wave(self, width: int, infra_retries: int) -> None:
        """Admit new runs, answer what all active runs ask for, finish those that end."""
        ended = self._admit(width - len(self.active))
        ended += self._answer(infra_retries)
        self._finish(ended)

    def release(self) -> None:
        """Give up the active runs and what was reserved for them."""
        for item in self.active:
            item.run.close()
        if self.active:
            self._ledger.settle([item.reserved for item in self.active], [])
        self.active = []

    def _admit(self, places: int) -> list[_Ended]:
        if self.refused is not None or not self.queue or places < 1:
            return []
        wanted = self.queue[:places]
        account = self._meter.context.account
        # Waiting for other processes is right only when there is nothing of our own to go on with.
        ids, refused = self._ledger.reserve_many(account, [Amount(rollouts=1)] * len(wanted), wait=not self.active)
        if not ids and not self.active:
            self.refused = refused
        del self.queue[: len(ids)]
        ended: list[_Ended] = []
        for key, reserved in zip(wanted, ids, strict=False):
            job, purpose = self._jobs[key], self._purposes[self._places[key][0]]
            if isinstance(job.harness, InvalidHarness):
                ended.append(_Ended(job, key, purpose, reserved, RunResult("invalid", error=job.harness.error)))
                continue
            run = executor_for(job.harness.kind).start(job.harness, job.question, self._limits, job.seed)
            self._advance(Active(job, key, purpose, reserved, run), self.active, ended)
        return ended

    def _answer(self, infra_retries: int) -> list[_Ended]:
        asked = [(item, place, request) for item in self.active for place, request in item.waiting()]
        requests = [request for _, _, request in asked]
        purposes = [item.purpose_of(place) for item, place, _ in asked]
        try:
            answers: Sequence[Completion | Failure | None] = self._meter.complete(requests, purposes, self._answered)
        except CallsExhausted as reason:
            self.refused, answers = reason, reason.answers
        for item in self.active:
            item.problem = ""
        for (item, place, _), answer in zip(asked, answers, strict=True):
            if isinstance(answer, Completion):
                item.answers[place] = answer
            elif answer is not None:
                item.problem = str(answer.error)
        return self._sort_out(infra_retries, exhausted=None in answers)

    def _answered(self, count: int) -> None:
        self.state = replace(self.state, calls=self.state.calls + count)
        self._report(self.state)

    def _sort_out(self, infra_retries: int, *, exhausted: bool) -> list[_Ended]:
        """Advance complete runs, keep those with a retry left, end or (when exhausted) give up the others."""
        before, self.active = self.active, []
        going_on: list[Active] = []
        ended: list[_Ended] = []
        for item in before:
            item.failed_waves += item.problem != ""
            if next(item.waiting(), None) is None:
                self._advance(item, going_on, ended)
            elif item.failed_waves > infra_retries:
                item.run.close()
                ended.append(_end(item, RunResult("infra_error", error=item.problem)))
            else:
                going_on.append(item)
        self.active = going_on
        if exhausted:
            self.release()
        return ended

    def _advance(self, item: Active, going_on: list[Active], ended: list[_Ended]) -> None:
        result = item.advance(self._limits)
        if result is None:
            going_on.append(item)
        else:
            ended.append(_end(item, result))

    def _finish(self, ended: Sequence[_Ended]) -> None:
        try:
            rows = [(item, self._score(item)) for item in ended]
        except BaseException:
            self._ledger.settle([item.reserved for item in ended], [])
            raise
        stored = [StoredExecution(i.key, row, i.costs) for i, row in rows if row.outcome != "infra_error"]
        purposes = [item.purpose for item, row in rows if row.outcome != "infra_error"]
        if rows:
            with self._store.transaction():
                self._store.put_executions(stored)
                entries = [self._rollout(purpose, cached=False) for purpose in purposes]
                self._ledger.settle([item.reserved for item in ended], entries)
        for item, row in rows:
            first, *others = self._places[item.key]
            self._record(first, row)
            if row.outcome == "infra_error":
                for index in others:
                    self._record(index, row)
            else:
                self._replay([(index, StoredExecution(item.key, row, item.costs)) for index in others])

    def _score(self, item: _Ended) -> Execution:
        result, outcome, score = item.result, item.result.outcome, Score(0.0)
        error = result.error
        if outcome == "ok" and result.score is not None:
            score = Score(result.score)
        elif outcome == "ok" and not result.answer.strip():
            outcome, error = "noop", error or "the answer is empty"
        elif outcome == "ok":
            try:
                score = self._scorer(item.job.question, result.answer)
            except SandboxError as problem:
                outcome, error = "infra_error", str(problem)
        return Execution(
            question=item.job.question.id,
            harness=item.job.harness.digest,
            kind=item.job.harness.kind,
            target=self._meter.target.fingerprint,
            seed=item.job.seed,
            outcome=outcome,
            answer=result.answer if outcome == "ok" else "",
            score=None if outcome == "infra_error" else score.value,
            feedback=score.feedback,
            error=error,
            trace=result.trace,
            usage=_timeless(sum(item.costs, Usage())),
        )

    def _replay(self, hits: Sequence[tuple[int, StoredExecution]]) -> None:
        """Take executions that are already paid for, and enter what they cost uncached."""
        groups = [self._replay_entries(index, stored) for index, stored in hits]
        taken = len(hits)
        ids: list[int] = []
        if self._ledger.counts == "alone" and hits:
            needs = [self._new_cost(entries) for entries in groups]
            ids, refused = self._ledger.reserve_many(self._meter.context.account, needs)
            taken, self.refused = len(ids), self.refused or refused
        if taken:
            self._ledger.settle(ids, [entry for entries in groups[:taken] for entry in entries])
        for index, stored in hits[:taken]:
            self._record(index, stored.execution, cached=True)

    def _replay_entries(self, index: int, stored: StoredExecution) -> list[Entry]:
        purpose = self._purposes[index]
        calls = [self._meter.cached_entry(f"{purpose}/{n}", usage) for n, usage in enumerate(stored.costs)]
        return [*calls, self._rollout(purpose, cached=True)]

    def _new_cost(self, entries: Sequence[Entry]) -> Amount:
        known = self._ledger.known(entries)
        return sum((e.alone for e, old in zip(entries, known, strict=True) if not old), Amount())

    def _rollout(self, purpose: str, *, cached: bool) -> Entry:
        entry = self._meter.cached_entry(purpose, Usage(), part="rollout", rollouts=1)
        return entry if cached else replace(entry, cached=False, paid=entry.alone)

    def _record(self, index: int, row: Execution, *, cached: bool = False) -> None:
        self.results[index] = row
        self.state = replace(
            self.state,
            done=self.state.done + 1,
            cached=self.state.cached + cached,
            failed=self.state.failed + (row.outcome == "infra_error"),
            tokens=self.state.tokens + (0 if cached else row.usage.prompt_tokens + row.usage.completion_tokens),
        )


def first_requests(job: Job, limits: Limits) -> Sequence[Request]:
    """What a job's run asks for first; nothing when it ends without a call."""
    if isinstance(job.harness, InvalidHarness):
        return ()
    item = Active(job, "", "", 0, executor_for(job.harness.kind).start(job.harness, job.question, limits, job.seed))
    ended = item.advance(limits) is not None
    item.run.close()
    return () if ended else item.requests


def _end(item: Active, result: RunResult) -> _Ended:
    return _Ended(item.job, item.key, item.purpose, item.reserved, result, tuple(item.costs))


def _timeless(usage: Usage) -> Usage:
    return replace(usage, seconds=0.0)
