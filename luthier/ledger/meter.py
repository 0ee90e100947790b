"""`Meter`: the only way to call a target. Looks into the store, reserves, calls, stores and enters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from luthier.errors import BudgetExhausted, InputError, TargetError
from luthier.ledger.ledger import Account, Amount, Context, Entry, Forecast, Ledger
from luthier.ledger.store import Store, StoredCall
from luthier.target import Attempt, Completion, Failure, Loading, Request, Reserving, Role, Target, Usage

Answer = Completion | Failure


class CallsExhausted(BudgetExhausted):
    """The budget did not reach for all requests of a batch.

    Args:
        reason: Which limit stopped it.
        answers: In request order what was answered (and is stored and paid); None for the rest.
    """

    def __init__(self, reason: BudgetExhausted, answers: Sequence[Answer | None]) -> None:
        super().__init__(
            reason.limit, allowed=reason.allowed, needed=reason.needed, account=reason.account, lost=reason.lost
        )
        self.answers = tuple(answers)


@dataclass(frozen=True, slots=True)
class _Ask:
    """One request of a batch with its identities."""

    request: Request
    key: str
    purpose: str


class Meter:
    """Calls one target on behalf of one account, role, method and phase.

    Args:
        target: The model.
        store: Answers already paid for, by any run.
        ledger: Who pays. It must live in the same store, so that answer and payment are one transaction.
        role, account, method, phase, split, seed, scope: See `luthier.ledger.ledger.Context`.
        chunk: Most distinct requests that go to the target at once; a kill loses at most these.
        attempts: Most attempts that the target makes for a request (1 + its retries); the worst case
            of all of them is reserved.

    Raises:
        InputError: `budget.price` is set and the role has no price.
    """

    def __init__(
        self,
        target: Target,
        store: Store,
        ledger: Ledger,
        *,
        role: Role,
        account: Account,
        method: str,
        phase: str,
        split: str = "",
        seed: int = 0,
        scope: str = "",
        chunk: int = 256,
        attempts: int = 1,
    ) -> None:
        if chunk < 1 or attempts < 1:
            raise InputError(f"fields chunk and attempts: {chunk}, {attempts}", where="Meter", fix="use 1 or more")
        self.target, self.store, self.ledger = target, store, ledger
        self.context = Context(account, role, method, phase, split, seed, scope)
        self._chunk, self._attempts = chunk, attempts
        ledger.amount(role, Usage(calls=1))

    def require_role(self, role: Role, where: str) -> None:
        """Refuse to pay for another role's calls.

        Raises:
            InputError: the meter has another role.
        """
        if self.context.role != role:
            raise InputError(f"field meter: its role is {self.context.role!r}", where=where, fix=f"give role={role!r}")

    def complete(
        self,
        requests: Sequence[Request],
        purposes: Sequence[str] | None = None,
        answered: Callable[[int], None] | None = None,
    ) -> list[Answer]:
        """Answer requests; same length and order as given. Failures are entered, never stored.

        Args:
            requests: Any number; equal ones reach the target once.
            purposes: What each is for, equal after a restart and distinct within the run. Default: the
                request's content and how often this process asked it before, which is right for a
                caller that starts again from its beginning; one that resumes in the middle gives the
                meter a `scope` for each of its steps.
            answered: Told after each chunk how many more requests have their answer, stored and paid.

        Raises:
            CallsExhausted: some did not fit the budget; what was done before is stored and carried.
            TargetError: the target serves nothing at all, or answered out of number.
            StoreError: the store cannot be read or written.
        """
        asks = self._asks(requests, purposes)
        known: dict[str, Completion] = self.store.calls(ask.key for ask in asks)
        answers: list[Answer | None] = []
        while len(answers) < len(asks):
            part = self._next_part(asks[len(answers) :], known)
            if isinstance(self.target, Loading) and any(ask.key not in known for ask in part):
                # Before anything is reserved: who is killed while it loads has lost no call.
                self.target.load()
            ids, refused = self.ledger.reserve_many(self.context.account, self._needs(part, known))
            if not ids and refused is not None:
                self.ledger.stopped = self.ledger.stopped or refused
                raise CallsExhausted(refused, [*answers, *[None] * (len(asks) - len(answers))])
            answers.extend(self._serve(part[: len(ids)], ids, known))
            if answered is not None:
                answered(len(ids))
        return [answer for answer in answers if answer is not None]

    def forecast(self, requests: Sequence[Request]) -> Forecast:
        """What `complete` would cost: exact calls and prompt tokens (when nothing fails), completion tokens at most."""
        keys = [request.key(self.target.fingerprint) for request in requests]
        known = self.store.calls(keys)
        needs = [self.worst_case(request, attempts=1, count=True) for request in requests]
        full, remaining, seen = Amount(), Amount(), set(known)
        for key, need in zip(keys, needs, strict=True):
            full += need
            if key not in seen:
                seen.add(key)
                remaining += need
        pace = self.ledger.pace(self.target.fingerprint)
        return Forecast(timed(full, pace), timed(remaining, pace), ("completion tokens are an upper bound",))

    def worst_case(self, request: Request, *, attempts: int = 0, count: bool = False) -> Amount:
        """The most that a request can cost, seconds aside. Prompts are counted where a limit needs it, or on demand."""
        tries = attempts or self._attempts
        prompt = self.target.count_tokens(request) if count or self.ledger.budget.limits_tokens else 0
        target = self.target
        most = target.most_usage(request) if isinstance(target, Reserving) else Usage(1, 0, request.max_tokens)
        calls = tries * most.calls
        return self.ledger.amount(self.context.role, Usage(calls, calls * prompt, tries * most.completion_tokens))

    def cached_entry(self, purpose: str, usage: Usage, part: str = "answer", rollouts: int = 0) -> Entry:
        """An entry that costs nothing now and `usage` uncached."""
        alone = replace(self.ledger.amount(self.context.role, usage), rollouts=rollouts)
        return Entry(self.context, purpose, part, True, Amount(), alone, target=self.target.fingerprint)

    def _asks(self, requests: Sequence[Request], purposes: Sequence[str] | None) -> list[_Ask]:
        keys = [request.key(self.target.fingerprint) for request in requests]
        if purposes is None:
            purposes = [f"{key}#{self.ledger.nth_use(self.context, key)}" for key in keys]
        return [_Ask(*parts) for parts in zip(requests, keys, purposes, strict=True)]

    def _next_part(self, asks: Sequence[_Ask], known: dict[str, Completion]) -> Sequence[_Ask]:
        distinct: set[str] = set()
        for index, ask in enumerate(asks):
            if ask.key not in known and ask.key not in distinct:
                if len(distinct) == self._chunk:
                    return asks[:index]
                distinct.add(ask.key)
        return asks

    def _needs(self, asks: Sequence[_Ask], known: dict[str, Completion]) -> list[Amount]:
        """What each request may add to the basis that limits hold for."""
        alone = self.ledger.counts == "alone"
        hits = [self.cached_entry(ask.purpose, known[ask.key].usage) if ask.key in known else None for ask in asks]
        entered = iter(self.ledger.known([hit for hit in hits if hit is not None])) if alone else iter(())
        needs, distinct = [], set()
        for ask, hit in zip(asks, hits, strict=True):
            if hit is not None:
                needs.append(hit.alone if alone and not next(entered) else Amount())
            elif ask.key in distinct and not alone:
                needs.append(Amount())
            else:
                distinct.add(ask.key)
                needs.append(self.worst_case(ask.request))
        return needs

    def _serve(self, asks: Sequence[_Ask], ids: Sequence[int], known: dict[str, Completion]) -> list[Answer]:
        first: dict[str, _Ask] = {}
        for ask in asks:
            if ask.key not in known:
                first.setdefault(ask.key, ask)
        fresh = self._call(list(first.values()), ids) if first else {}
        entries: list[Entry] = []
        answers: list[Answer] = []
        for ask in asks:
            answer = fresh.get(ask.key) or known[ask.key]
            if first.get(ask.key) is ask:
                entries.extend(self._paid_entries(ask.purpose, answer))
            elif isinstance(answer, Completion):
                entries.append(self.cached_entry(ask.purpose, answer.usage))
            answers.append(answer if first.get(ask.key) is ask else replace(answer, attempts=()))
        done = {key: answer for key, answer in fresh.items() if isinstance(answer, Completion)}
        with self.store.transaction():
            self.store.put_calls(
                [StoredCall(key, self.target.fingerprint, first[key].request, answer) for key, answer in done.items()]
            )
            self.ledger.settle(ids, entries)
        known.update(done)
        return answers

    def _call(self, asks: Sequence[_Ask], ids: Sequence[int]) -> dict[str, Answer]:
        try:
            replies = self.target.complete([ask.request for ask in asks])
        except TargetError:
            self.ledger.settle(ids, [])
            raise
        if len(replies) != len(asks):
            problem = f"the target gave {len(replies)} answers to {len(asks)} requests"
            attempts = [Attempt(try_.usage, problem) for reply in replies for try_ in _attempts(reply)]
            error = TargetError(problem, where=self.target.name, fix="repair the target; nothing of it was stored")
            self.ledger.settle(ids, self._paid_entries(asks[0].purpose, Failure(error, tuple(attempts))))
            raise error
        return {ask.key: reply for ask, reply in zip(asks, replies, strict=True)}

    def _paid_entries(self, purpose: str, answer: Answer) -> list[Entry]:
        entries = []
        for attempt in _attempts(answer):
            part = "answer"
            if attempt.problem:
                part = f"failed {self.ledger.nth_failure(self.context, purpose)}"
            amount = self.ledger.amount(self.context.role, attempt.usage)
            fingerprint = self.target.fingerprint
            entries.append(Entry(self.context, purpose, part, False, amount, amount, attempt.problem, fingerprint))
        return entries


def _attempts(answer: Answer) -> tuple[Attempt, ...]:
    """Every attempt of an answer; a failure always has one, even when nothing reached the engine."""
    if isinstance(answer, Failure):
        return answer.attempts or (Attempt(Usage(), answer.error.problem),)
    return answer.attempts or (Attempt(answer.usage),)


def timed(amount: Amount, pace: float | None) -> Amount:
    """The amount with its seconds at `pace` seconds per call (None: unknown)."""
    seconds = 0.0 if amount.calls == 0 else None if pace is None else pace * amount.calls
    return replace(amount, seconds=seconds)
