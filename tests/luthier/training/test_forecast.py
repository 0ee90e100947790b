"""Forecasts of training and evaluation: exact tokens, the ledger's pace, and unknown where nothing is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from luthier.execution import Limits
from luthier.ledger.budget import Amount, Price
from luthier.ledger.entries import Context, Entry
from luthier.ledger.ledger import Ledger
from luthier.ledger.store import Store
from luthier.target import Usage
from luthier.training.bill import LedgerBill
from luthier.training.forecast import BOUNDED, EXECUTED, Outlook, count_tokens, update_usage
from tests.luthier.training.bills import CONTEXT

PRICES = {"generator": Price(1, 2), "trained": Price(3, 3), "target": Price(1, 1)}
LIMITS = Limits(calls=5, tokens=100)


@pytest.fixture
def store(tmp_path):
    with_tables = Store(tmp_path / "store.sqlite")
    yield with_tables
    with_tables.close()


def ledger(store: Store, run: str) -> Ledger:
    return Ledger(store, run=run, prices=PRICES)


def test_seconds_come_from_the_same_work_of_the_same_phase_in_any_run(store, tmp_path):
    bill = LedgerBill(ledger(store, "another seed"), CONTEXT, "a", tmp_path)
    bill.enter("update", "step 0", Usage(4, 60, 40, 20.0), [])
    bill.enter("draw", "step 0", Usage(4, 10, 40, 5.0), [])
    outlook = Outlook(ledger(store, "mine"), "reinforce")
    assert outlook.training("update", Usage(8, 100, 100)).full == Amount(0, 8, 100, 100, 40.0, 600_000_000)
    assert outlook.training("draw", Usage(1, 10, 10)).full.seconds == pytest.approx(2.0)
    assert outlook.training("reference", Usage(1, 10)).full.seconds is None
    assert Outlook(ledger(store, "mine"), "sft").training("update", Usage(8, 100, 100)).full.seconds is None


def test_nothing_to_do_takes_no_time(store):
    assert Outlook(ledger(store, "mine"), "sft").training("update", Usage()).full == Amount()


def test_executions_cost_the_mean_of_those_so_far_and_are_bounded_before_the_first(store):
    before = Outlook(ledger(store, "mine"), "reinforce").executions(10, LIMITS)
    assert (before.full.rollouts, before.full.calls, before.full.completion_tokens) == (10, 50, 1000)
    assert before.full.seconds is None
    assert BOUNDED in before.notes
    context = Context("data", "target", "", "grid", "train")
    cost = Amount(1, 2, 30, 10, 4.0, 40_000_000)
    entries = [Entry(context, f"q{index}", "answer", False, cost, cost) for index in range(4)]
    entries.append(replace(entries[0], purpose="a stored one", cached=True, paid=Amount()))
    ledger(store, "grid").settle([], entries)
    after = Outlook(ledger(store, "mine"), "reinforce").executions(10, LIMITS)
    assert after.full == Amount(10, 20, 300, 100, 40.0, 400_000_000)
    assert EXECUTED in after.notes


def test_rows_go_through_as_often_as_there_are_epochs():
    assert update_usage([(10, 3), (20, 5)], 1.5) == Usage(3, 45, 12)


def test_tokens_are_the_generators_own(tiny_base):
    short, longer = count_tokens(tiny_base, ["first", "first of last"])
    assert 0 < short < longer
