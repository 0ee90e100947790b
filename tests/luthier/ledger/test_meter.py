import pytest

from luthier.errors import BudgetExhausted, InputError, TargetError
from luthier.ledger.ledger import Amount, Budget, Ledger, Price
from luthier.ledger.meter import CallsExhausted, Meter
from luthier.ledger.store import Store
from luthier.target import Attempt, Completion, Failure, Request, Usage
from luthier.targets.scripted import Fault, ScriptedTarget


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store.db")


class Counted:
    """A scripted target with its own books: every attempt that reached it, outside our ledger."""

    def __init__(self, *, retries=0, **options):
        self._inner = ScriptedTarget(lambda request: f"to {request.prompt}", **options)
        self.name, self.fingerprint = self._inner.name, self._inner.fingerprint
        self.retries, self.usage, self.batches = retries, Usage(), []

    def complete(self, requests):
        self.batches.append(len(requests))
        answers = self._inner.complete(requests)
        if len(answers) == len(requests):
            answers = [self._again(request, answer) for request, answer in zip(requests, answers, strict=True)]
        for answer in answers:
            for attempt in answer.attempts:
                self.usage += attempt.usage
        return answers

    def _again(self, request, answer):
        tried = answer.attempts
        for _ in range(self.retries):
            if isinstance(answer, Completion):
                break
            answer = self._inner.complete([request])[0]
            tried += answer.attempts
        if isinstance(answer, Completion):
            return Completion(answer.text, answer.finish, answer.usage, tried)
        return Failure(answer.error, tried)

    def count_tokens(self, request):
        return self._inner.count_tokens(request)


def meter(target, store, budget=None, *, run="r", prices=None, counts="paid", method="m", **options):
    ledger = Ledger(store, budget, run=run, prices=prices, counts=counts)
    return Meter(target, store, ledger, role="target", account="search", method=method, phase="search", **options)


def ask(*names, max_tokens=8):
    return [Request(f"answer {name} please", max_tokens=max_tokens) for name in names]


def paid(m):
    return m.ledger.spent("paid")


def test_equal_requests_reach_the_target_once(store):
    target = Counted()
    m = meter(target, store)
    answers = m.complete(ask("a", "b", "a", "a"))
    assert [a.text for a in answers] == ["to answer a please", "to answer b please"] + ["to answer a please"] * 2
    assert target.batches == [2]
    assert [(e.cached, e.paid.calls, e.alone.calls) for e in m.ledger.entries()] == [
        (False, 1, 1),
        (False, 1, 1),
        (True, 0, 1),
        (True, 0, 1),
    ]
    assert [a.attempts != () for a in answers] == [True, True, False, False]


def test_sampled_requests_are_shared_only_with_their_seed(store):
    target = Counted()
    requests = [Request("x", temperature=1.0, seed=seed) for seed in (1, 2, 1)]
    meter(target, store).complete(requests)
    assert target.batches == [2]


def test_a_stored_answer_costs_nothing_in_another_run(store):
    target = Counted()
    first = meter(target, store, run="one").complete(ask("a", "b"))
    other = meter(target, store, run="two")
    second = other.complete(ask("a", "b"))
    assert [a.text for a in second] == [a.text for a in first]
    assert target.batches == [2]
    assert (paid(other), other.ledger.spent("alone").usage) == (Amount(), target.usage)
    assert all(entry.cached for entry in other.ledger.entries())


def test_a_run_that_starts_again_enters_nothing_twice(store):
    target = Counted()
    names = ["a", "b", "a", "c"]
    meter(target, store).complete(ask(*names[:3]))
    again = meter(target, store)
    again.complete(ask(*names))
    assert again.complete(ask("a"))[0].text == "to answer a please"
    assert (paid(again).calls, again.ledger.spent("alone").calls) == (3, 5)
    clean = meter(Counted(), Store(store.path.with_name("clean.db")))
    clean.complete(ask(*names))
    clean.complete(ask("a"))
    assert clean.ledger.totals() == again.ledger.totals()


def test_a_scope_tells_the_steps_of_a_resuming_caller_apart(store):
    for step in ("step 1", "step 2"):
        m = meter(Counted(), store, scope=step)
        m.complete(ask("a"))
    assert (paid(m).calls, m.ledger.spent("alone").calls) == (1, 2)


def test_every_attempt_is_an_entry_and_sums_equal_the_targets_own_count(store):
    fault = Fault("error", pattern="answer b", times=2)
    target = Counted(retries=3, faults=[fault])
    m = meter(target, store, attempts=4)
    answers = m.complete(ask("a", "b", "c"))
    assert [type(a) for a in answers] == [Completion] * 3
    assert paid(m).usage == target.usage
    assert target.usage.calls == 5
    parts = [(e.part, e.problem != "") for e in m.ledger.entries()]
    assert parts == [
        ("answer", False),
        ("failed 0", True),
        ("failed 1", True),
        ("answer", False),
        ("answer", False),
    ]


def test_a_failure_is_paid_and_not_stored_and_may_be_asked_again(store):
    target = Counted(faults=[Fault("error", pattern="answer b", times=1)])
    m = meter(target, store)
    first = m.complete(ask("a", "b", "b"))
    assert [type(a) for a in first] == [Completion, Failure, Failure]
    assert store.count("calls") == 1
    assert [type(a) for a in m.complete(ask("a", "b"))] == [Completion, Completion]
    assert paid(m).usage == target.usage
    assert target.usage.calls == 3
    assert m.ledger.totals()[0].problems == 1


def test_a_failure_that_reached_no_engine_is_still_an_entry(store):
    class Unreachable(ScriptedTarget):
        def complete(self, requests):
            return [Failure(TargetError("no route")) for _ in requests]

    m = meter(Unreachable([]), store)
    m.complete(ask("a"))
    (entry,) = m.ledger.entries()
    assert (entry.paid, entry.problem, entry.part) == (Amount(), "no route", "failed 0")


PRICES = {"target": Price(1.0, 2.0)}
# Each call reads 3 words and writes 4 ("to answer x please"); max_tokens 4 makes the worst case exact.


@pytest.mark.parametrize(
    ("budget", "calls"),
    [
        (Budget(calls=5), 5),
        (Budget(prompt_tokens=14), 4),
        (Budget(prompt_tokens=15), 5),
        (Budget(completion_tokens=11), 2),
        (Budget(completion_tokens=12), 3),
        (Budget(price=(6 * 11 - 1) / 1e6), 5),
        (Budget(price=6 * 11 / 1e6), 6),
        (Budget(calls=0), 0),
    ],
)
@pytest.mark.parametrize("chunk", [1, 3, 256])
def test_no_limit_is_overshot_and_none_of_it_is_wasted(store, budget, calls, chunk):
    target = Counted()
    m = meter(target, store, budget, prices=PRICES, chunk=chunk)
    with pytest.raises(CallsExhausted) as caught:
        m.complete(ask(*"abcdefgh", max_tokens=4))
    assert target.usage.calls == calls
    assert paid(m).usage == target.usage
    assert [a is not None for a in caught.value.answers] == [True] * calls + [False] * (8 - calls)
    assert store.count("calls") == calls
    with pytest.raises(BudgetExhausted):
        m.complete(ask("new"))
    assert target.usage.calls == calls
    assert len(m.complete(ask(*"abcdefgh"[:calls], max_tokens=4))) == calls


def test_unused_reserve_is_used_by_the_next_chunk(store):
    target = Counted()
    m = meter(target, store, Budget(completion_tokens=20))
    with pytest.raises(CallsExhausted):
        m.complete(ask(*"abcdefgh", max_tokens=8))
    assert target.usage.completion_tokens == 16
    assert target.batches == [2, 1, 1]


def test_the_worst_case_of_all_retries_is_reserved(store):
    target = Counted(retries=3, faults=[Fault("error", pattern="answer [cd]")])
    m = meter(target, store, Budget(calls=8), attempts=4)
    with pytest.raises(CallsExhausted):
        m.complete(ask(*"abcd"))
    assert target.usage.calls == 6
    assert paid(m).calls == 6


def test_a_search_counting_as_if_alone_stops_at_the_same_call_however_warm_the_store(store):
    def run(path, warm):
        target = Counted()
        if warm:
            meter(target, Store(path), run="earlier").complete(ask(*"abdg"))
        m = meter(target, Store(path), Budget(calls=5), counts="alone")
        with pytest.raises(CallsExhausted) as caught:
            m.complete(ask(*"aabcdefgh"))
        return [a.text if a else None for a in caught.value.answers], m.ledger.spent("alone")

    cold = run(store.path.with_name("cold.db"), warm=False)
    assert cold[0][4:6] == ["to answer d please", None]
    assert run(store.path.with_name("warm.db"), warm=True) == cold


def test_a_replay_at_the_limit_is_not_refused(store):
    for _ in range(2):
        m = meter(Counted(), store, Budget(calls=3), counts="alone")
        assert len(m.complete(ask(*"aba"))) == 3
    assert m.ledger.spent("alone").calls == 3


def test_chunks_are_distinct_requests_in_order(store):
    target = Counted()
    meter(target, store, chunk=3).complete(ask(*"aabbccddee"))
    assert target.batches == [3, 2]


def test_a_target_that_is_down_costs_nothing_and_keeps_earlier_chunks(store):
    target = ScriptedTarget([], faults=[Fault("down", at=frozenset({2}))])
    m = meter(target, store, Budget(calls=4), chunk=2)
    with pytest.raises(TargetError, match="down"):
        m.complete(ask(*"abcd"))
    assert store.count("calls") == 2
    assert len(meter(ScriptedTarget([]), store, Budget(calls=4), chunk=2).complete(ask(*"abcd"))) == 4


def test_answers_out_of_number_are_paid_and_not_stored(store):
    target = Counted(faults=[Fault("short", at=frozenset({1}))])
    m = meter(target, store)
    with pytest.raises(TargetError, match="gave 2 answers to 3 requests"):
        m.complete(ask(*"abc"))
    assert store.count("calls") == 0
    assert paid(m).usage == target.usage
    assert target.usage.calls == 2


def test_a_forecast_of_calls_is_what_is_then_paid(store):
    target = Counted()
    m = meter(target, store)
    m.complete(ask("a"))
    forecast = m.forecast(ask("a", "b", "c", "c", max_tokens=8))
    assert target.usage.calls == 1
    assert (forecast.full.calls, forecast.remaining.calls, forecast.cached_calls) == (4, 2, 2)
    before = paid(m)
    m.complete(ask("a", "b", "c", "c"))
    assert paid(m).calls - before.calls == forecast.remaining.calls
    assert paid(m).prompt_tokens - before.prompt_tokens == forecast.remaining.prompt_tokens
    assert paid(m).completion_tokens - before.completion_tokens <= forecast.remaining.completion_tokens
    assert forecast.remaining.price is None
    assert forecast.remaining.seconds == 0.0


def test_a_meter_that_cannot_hold_its_limits_is_refused(store):
    with pytest.raises(InputError, match="role 'target' has no price"):
        meter(Counted(), store, Budget(price=1.0))
    with pytest.raises(InputError, match="fields chunk and attempts: 0, 1"):
        meter(Counted(), store, chunk=0)


def test_attempts_are_not_part_of_a_stored_answer(store):
    m = meter(Counted(), store)
    request = ask("a")[0]
    answer = m.complete([request])[0]
    assert answer.attempts == (Attempt(answer.usage),)
    assert store.calls([request.key(m.target.fingerprint)]).popitem()[1].attempts == ()
