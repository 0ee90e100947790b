import subprocess
import sys
import textwrap
import threading

import pytest

from luthier.errors import BudgetExhausted, InputError
from luthier.ledger.budget import show
from luthier.ledger.ledger import Amount, Budget, Context, Entry, Forecast, Ledger, Price
from luthier.ledger.store import Store
from luthier.target import Usage

SEARCH = Context("search", "proposer", "gepa", "propose")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store.db")


def entry(purpose, amount, *, context=SEARCH, cached=False, part="answer", problem=""):
    return Entry(context, purpose, part, cached, Amount() if cached else amount, amount, problem, "model")


def test_a_budget_reads_its_limits():
    assert Budget.parse({"calls": 5, "seconds": 1.5, "price": None}) == Budget(calls=5, seconds=1.5)


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"call": 5}, "field call: unknown limit"),
        ({"calls": -1}, "field calls: -1 is not a whole number"),
        ({"calls": 1.5}, "field calls: 1.5 is not a whole number"),
        ({"price": "1"}, "field price: '1' is not a number"),
        ({"calls": True}, "field calls: True"),
        ({"seconds": float("nan")}, "field seconds: nan"),
    ],
)
def test_a_wrong_budget_names_its_field(mapping, words):
    with pytest.raises(InputError, match=words):
        Budget.parse(mapping, where="params.yaml: budget")


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (None, "seconds", "unknown"),
        (0.0, "seconds", "0.0"),
        (0.03, "seconds", "0.0300"),
        (61.24, "seconds", "61.2"),
        (1234, "calls", "1,234"),
        (0.00071, "price", "0.0007"),
    ],
)
def test_a_number_is_shown_with_the_digits_that_it_needs(value, unit, words):
    assert show(value, unit) == words


def test_totals_are_those_worked_by_hand(store):
    ledger = Ledger(store, run="r", prices={"proposer": Price(0.15, 0.6)})
    judge = Context("train", "judge", "gepa", "credit")
    paid = ledger.amount("proposer", Usage(1, 1000, 200, 2.0))
    assert paid.picodollars == 1000 * 150_000 + 200 * 600_000
    ledger.settle([], [entry("a", paid), entry("b", paid, cached=True)])
    failed = ledger.amount("proposer", Usage(1, 50, 0, 0.5))
    ledger.settle([], [entry("c", failed, part="failed 0", problem="timeout")])
    ledger.settle([], [entry("a", ledger.amount("judge", Usage(2, 10, 4, 1.0)), context=judge)])
    search, train = ledger.totals()
    assert (search.account, search.role, search.method, search.phase) == ("search", "proposer", "gepa", "propose")
    assert search.paid == Amount(0, 2, 1050, 200, 2.5, 277_500_000)
    assert search.paid.price == pytest.approx(0.0002775)
    assert search.alone == Amount(0, 3, 2050, 400, 4.5, 547_500_000)
    assert (search.entries, search.cached, search.problems) == (3, 1, 1)
    assert (train.account, train.paid) == ("train", Amount(0, 2, 10, 4, 1.0, None))
    assert ledger.spent() == Amount(0, 4, 1060, 204, 3.5, None)
    assert ledger.spent("paid", "search") == search.paid
    table = ledger.render()
    assert "unknown" in table
    assert "0.0003" in table
    assert [e.purpose for e in ledger.entries()] == ["a", "b", "c", "a"]


def test_an_unknown_role_or_account_is_refused():
    with pytest.raises(InputError, match="field account: 'serach' is unknown"):
        Context("serach", "target", "m", "p")


def test_a_price_limit_without_a_price_is_refused(store):
    ledger = Ledger(store, Budget(price=1.0), run="r", prices={"target": Price(1, 1)})
    with pytest.raises(InputError, match="role 'judge' has no price"):
        ledger.amount("judge", Usage(1))


def test_a_run_with_unknown_prices_cannot_be_limited_by_price_later(store):
    Ledger(store, run="r").settle([], [entry("a", Amount(0, 1, 10, 5, 0.0, None))])
    ledger = Ledger(store, Budget(price=1.0), run="r", prices={"target": Price(1, 1)})
    with pytest.raises(InputError, match="run 'r' already holds entries of unknown price"):
        ledger.reserve("search", ONE)


ONE = Amount(1, 1, 10, 5, 0.0, 7_000_000)


@pytest.mark.parametrize(
    ("budget", "unit"),
    [
        (Budget(rollouts=3), "rollouts"),
        (Budget(calls=3), "calls"),
        (Budget(prompt_tokens=39), "prompt_tokens"),
        (Budget(completion_tokens=15), "completion_tokens"),
        (Budget(price=0.000021), "price"),
    ],
)
def test_no_limit_is_overshot_by_one_unit(store, budget, unit):
    ledger = Ledger(store, budget, run="r")
    for number in range(3):
        ledger.settle([ledger.reserve("search", ONE)], [entry(str(number), ONE)])
    with pytest.raises(BudgetExhausted) as caught:
        ledger.reserve("search", ONE)
    assert caught.value.limit == unit
    assert caught.value.account == "search"
    assert ledger.spent().calls == 3


def test_seconds_stop_at_the_slowest_pace_seen(store):
    ledger = Ledger(store, Budget(seconds=1.0), run="r")
    call = Amount(calls=1, seconds=0.4)
    for number in range(2):
        ledger.settle([ledger.reserve("search", Amount(calls=1))], [entry(str(number), call)])
    with pytest.raises(BudgetExhausted) as caught:
        ledger.reserve("search", Amount(calls=1))
    assert (caught.value.limit, caught.value.needed) == ("seconds", pytest.approx(1.2))


def test_the_pace_is_seconds_per_paid_call_of_all_runs(store):
    def settle(run, number, **parts):
        call = Entry(
            SEARCH, number, "answer", parts.pop("cached", False), Amount(calls=2, seconds=3.0), Amount(), **parts
        )
        Ledger(store, run=run).settle([], [call])

    ledger = Ledger(store, run="a")
    assert ledger.pace("t") is None
    settle("a", "1", target="t")
    assert ledger.pace("t") == 1.5
    settle("b", "2", target="t")
    settle("b", "3", target="other")
    settle("b", "4", target="t", cached=True)
    settle("b", "5", target="t", problem="timeout")
    ledger.settle([], [Entry(SEARCH, "6", "answer", False, Amount(calls=1, seconds=9.0), Amount(), target="t")])
    assert ledger.pace("t") == 3.0  # (3 + 3 + 9) seconds, 5 calls
    assert ledger.pace("t") == Ledger(store, run="new").pace("t")
    assert ledger.pace("unknown") is None


def test_the_ledger_keeps_refusing_but_hits_and_tests_go_on(store):
    ledger = Ledger(store, Budget(calls=5), run="r")
    with pytest.raises(BudgetExhausted):
        ledger.reserve("search", Amount(calls=6))
    with pytest.raises(BudgetExhausted):
        ledger.reserve("train", Amount(calls=1))
    assert ledger.reserve_many("search", [Amount()])[1] is None
    assert ledger.reserve_many("test", [Amount(calls=100)])[1] is None
    ledger.settle([], [entry("t", Amount(calls=100), context=Context("test", "target", "m", "evaluate"))])
    assert ledger.spent().calls == 0
    assert ledger.spent("paid", "test").calls == 100


def test_what_was_reserved_and_not_used_comes_back(store):
    ledger = Ledger(store, Budget(completion_tokens=100), run="r")
    ids, refused = ledger.reserve_many("search", [Amount(completion_tokens=60)] * 2)
    assert len(ids) == 1
    assert refused is not None
    ledger.settle(ids, [entry("a", Amount(completion_tokens=10))])
    ids, refused = ledger.reserve_many("search", [Amount(completion_tokens=60), Amount(completion_tokens=30)])
    assert (len(ids), refused) == (2, None)


def test_a_replay_adds_nothing_and_a_second_payment_adds_to_paid_only(store):
    call = Amount(0, 1, 10, 5, 1.0, None)
    Ledger(store, run="r").settle([], [entry("a", call), entry("b", call, cached=True)])
    again = Ledger(store, run="r")
    again.settle([], [entry("a", call, cached=True), entry("b", call, cached=True)])
    assert (again.spent("paid").calls, again.spent("alone").calls) == (1, 2)
    again.settle([], [entry("a", call)])
    assert (again.spent("paid").calls, again.spent("alone").calls) == (2, 2)
    other = Ledger(store, run="other")
    other.settle([], [entry("a", call, cached=True)])
    assert (other.spent("paid").calls, other.spent("alone").calls) == (0, 1)
    assert other.totals(["r", "other"])[0].alone.calls == 3


def test_limits_may_count_as_if_alone(store):
    ledger = Ledger(store, Budget(calls=2), run="r", counts="alone")
    ledger.settle([], [entry(str(n), Amount(calls=1), cached=True) for n in range(2)])
    with pytest.raises(BudgetExhausted):
        ledger.reserve("search", Amount(calls=1))
    paid = Ledger(store, Budget(calls=2), run="r")
    assert paid.reserve("search", Amount(calls=1))


def test_processes_of_one_run_share_its_limits(store):
    first, second = Ledger(store, Budget(calls=10), run="r"), Ledger(Store(store.path), Budget(calls=10), run="r")
    first.settle([first.reserve("search", Amount(calls=6))], [entry("a", Amount(calls=6))])
    with pytest.raises(BudgetExhausted):
        second.reserve("search", Amount(calls=5))


def child(store, body):
    program = textwrap.dedent(f"""
        import os, sys, time
        from pathlib import Path
        from luthier.ledger.ledger import Amount, Budget, Ledger
        from luthier.ledger.store import Store
        ledger = Ledger(Store(Path({str(store.path)!r})), Budget(calls=10, rollouts=10), run="r")
        ids = [ledger.reserve("search", Amount(calls=8)), ledger.reserve("search", Amount(rollouts=10))]
        print("reserved", flush=True)
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", program + textwrap.dedent(body)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"reserved\n"
    return process


def test_waits_for_another_process_that_holds_the_rest(store):
    process = child(store, "sys.stdin.readline(); ledger.settle(ids, [])")
    ledger = Ledger(store, Budget(calls=10), run="r")
    assert ledger.reserve_many("search", [Amount(calls=5)], wait=False)[0] == []
    threading.Timer(0.2, lambda: process.communicate(b"go\n")).start()
    assert ledger.reserve("search", Amount(calls=5))
    process.wait()


def test_calls_in_flight_of_a_killed_process_are_lost_and_its_rollouts_are_not(store):
    process = child(store, "time.sleep(60)")
    process.kill()
    process.communicate()
    ledger = Ledger(store, Budget(calls=10, rollouts=10), run="r")
    assert ledger.lost() == Amount(calls=8)
    assert ledger.spent() == Amount()
    assert "lost (at most)" in ledger.render()
    assert ledger.reserve("search", Amount(rollouts=10, calls=2))
    with pytest.raises(BudgetExhausted):
        ledger.reserve("search", Amount(calls=1))
    alone = Ledger(store, Budget(calls=10), run="r", counts="alone")
    assert alone.reserve_many("search", [Amount(calls=8)])[1] is None


def test_a_forecast_prints_unknown_and_never_zero_for_what_it_does_not_know():
    full = Amount(10, 30, 3000, 600, None, None)
    text = Forecast(full, Amount(4, 12, 1200, 240, None, None), ("tokens are bounds",)).render()
    assert text.splitlines() == [
        "                   remaining  of full",
        "rollouts                   4       10",
        "calls                     12       30",
        "prompt tokens          1,200    3,000",
        "completion tokens        240      600",
        "seconds              unknown  unknown",
        "price (USD)          unknown  unknown",
        "18 calls need no payment (stored, or equal to another call)",
        "tokens are bounds",
    ]


def test_what_kills_have_eaten_is_named_and_can_be_written_off(store):
    process = child(store, "sys.stdin.readline()")
    process.kill()
    process.wait()
    ledger = Ledger(store, Budget(calls=10), run="r")
    with pytest.raises(BudgetExhausted, match=r"11 calls \(8 of them at most were in flight.*--write-off"):
        ledger.reserve("search", Amount(calls=3))
    assert Ledger(store, run="luthier ledger").write_off() == {"r": Amount(calls=8)}
    again = Ledger(store, Budget(calls=10), run="r")
    again.settle([again.reserve("search", Amount(calls=10))], [entry("a", Amount(calls=10))])
    assert (again.lost(), again.written_off(), again.spent().calls) == (Amount(), Amount(calls=8), 10)
    assert "lost, written off" in again.render()
    assert again.write_off() == {}
    store.verify("reservations")


def test_what_a_living_process_has_in_flight_is_not_written_off(store):
    process = child(store, "sys.stdin.readline(); ledger.settle(ids, [])")
    ledger = Ledger(store, Budget(calls=10), run="r")
    assert ledger.write_off() == {}
    assert ledger.reserve_many("search", [Amount(calls=5)], wait=False)[0] == []
    process.communicate(b"\n", timeout=20)
