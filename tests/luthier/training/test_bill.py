"""The bill of a training: what was done is entered once uncached, whatever is killed, resumed or done again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from luthier.errors import BudgetExhausted, InputError
from luthier.ledger.budget import Amount, Budget, Price
from luthier.ledger.ledger import Ledger
from luthier.ledger.store import Store
from luthier.target import Usage
from luthier.training.bill import LedgerBill, Updates, paying
from tests.luthier.training.bills import CONTEXT, spent

PRICES = {"generator": Price(1, 2), "trained": Price(3, 3)}


@pytest.fixture
def store(tmp_path):
    with_tables = Store(tmp_path / "store.sqlite")
    yield with_tables
    with_tables.close()


def ledger_of(store: Store, run: str = "r", budget: Budget | None = None, prices=PRICES) -> Ledger:
    return Ledger(store, budget, run=run, prices=prices)


def train(bill: LedgerBill, steps: range) -> None:
    """What a policy-gradient training pays, without a model."""
    for step in steps:
        with paying(bill, "draw", f"step {step}", Usage(8, 20, 80)) as charge:
            charge.usage = Usage(8, 20, 50)
        updates = Updates(bill)
        updates.begin(step)
        updates.passing(3, 30, 20)
        updates.passing(2, 20, 10)
        updates.end()


def test_draws_and_updates_are_lines_of_their_own(store, tmp_path):
    ledger = ledger_of(store)
    train(LedgerBill(ledger, CONTEXT, "a", tmp_path / "s"), range(2))
    assert spent(ledger) == {
        ("reinforce", "paid"): (2, 16, 40, 100),
        ("reinforce", "alone"): (2, 16, 40, 100),
        ("reinforce update", "paid"): (2, 10, 100, 60),
        ("reinforce update", "alone"): (2, 10, 100, 60),
    }
    assert {(line.account, line.role, line.method) for line in ledger.totals()} == {
        ("train", "generator", "mas_architect")
    }
    prices = {line.phase: line.paid.price for line in ledger.totals()}
    assert prices == {"reinforce": pytest.approx(240e-6), "reinforce update": pytest.approx(480e-6)}
    assert all((line.paid.seconds or 0) > 0 for line in ledger.totals())
    assert {entry.part for entry in ledger.entries()} == {"draw", "update"}


def test_seconds_of_a_step_leave_out_what_others_are_paid_for(store, tmp_path):
    """A step that spends its time drawing has next to none of its own."""
    import time

    bill = LedgerBill(ledger_of(store), CONTEXT, "a", tmp_path / "s")
    updates = Updates(bill)
    updates.begin(0)
    with updates.elsewhere(), paying(bill, "draw", "step 0", Usage(1, 1, 1)) as charge:
        time.sleep(0.2)
        charge.usage = Usage(1, 1, 1)
    updates.passing(1, 1, 1)
    updates.end()
    seconds = {line.phase: line.paid.seconds for line in ledger_of(store).totals()}
    assert seconds["reinforce"] >= 0.2 > seconds["reinforce update"] >= 0.0


def test_a_resumed_training_enters_no_step_twice_and_loses_none(store, tmp_path):
    train(LedgerBill(ledger_of(store, "whole"), CONTEXT, "a", tmp_path / "whole"), range(6))
    # The last save was after step 3; steps 4 and 5 were done before the kill, and are done again.
    train(LedgerBill(ledger_of(store), CONTEXT, "a", tmp_path / "s"), range(5))
    train(LedgerBill(ledger_of(store), CONTEXT, "a", tmp_path / "s"), range(3, 6))
    whole, resumed = spent(ledger_of(store, "whole")), spent(ledger_of(store))
    assert resumed["reinforce", "alone"][1:] == whole["reinforce", "alone"][1:]
    assert resumed["reinforce update", "alone"][1:] == whole["reinforce update", "alone"][1:]
    assert resumed["reinforce", "paid"] == (8, 64, 160, 400), "two steps were really drawn twice"
    assert resumed["reinforce update", "paid"] == (8, 40, 400, 240)


def test_a_training_that_goes_on_in_another_run_keeps_what_the_first_one_paid(store, tmp_path):
    train(LedgerBill(ledger_of(store, "before"), CONTEXT, "a", tmp_path / "s"), range(4))
    with (tmp_path / "s" / "bill-0.jsonl").open("a") as journal:
        journal.write('["draw", "step 4", {"calls": 8, "prom')  # a kill within the line
    after = ledger_of(store, "after")
    train(LedgerBill(after, CONTEXT, "a", tmp_path / "s"), range(4, 6))
    assert spent(after) == {
        ("reinforce", "paid"): (6, 16, 40, 100),
        ("reinforce", "alone"): (6, 48, 120, 300),
        ("reinforce update", "paid"): (6, 10, 100, 60),
        ("reinforce update", "alone"): (6, 30, 300, 180),
    }


def test_another_training_of_the_same_run_is_no_repetition(store, tmp_path):
    ledger = ledger_of(store)
    for identity in ("a", "b"):
        train(LedgerBill(ledger, CONTEXT, identity, tmp_path / identity), range(1))
    assert spent(ledger)["reinforce", "alone"] == (2, 16, 40, 100)


def test_every_process_of_a_training_pays_for_its_own_work(store, tmp_path, monkeypatch):
    ledger = ledger_of(store)
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        train(LedgerBill(ledger, CONTEXT, "a", tmp_path / "s"), range(1))
    assert spent(ledger)["reinforce", "alone"] == (2, 16, 40, 100)
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["bill-0.jsonl", "bill-1.jsonl"]


def test_a_limit_is_not_passed_by_a_token_and_the_broken_step_is_paid(store, tmp_path):
    """Each pass is reserved exactly: the first fits, the second does not."""
    ledger = ledger_of(store, budget=Budget(prompt_tokens=49))
    updates = Updates(LedgerBill(ledger, CONTEXT, "a", tmp_path / "s"))
    updates.begin(0)
    updates.passing(3, 30, 20)
    with pytest.raises(BudgetExhausted) as caught:
        updates.passing(2, 20, 10)
    updates.end(whole=False)
    assert caught.value.limit == "prompt_tokens"
    assert (ledger.spent("paid").prompt_tokens, ledger.spent("alone").prompt_tokens) == (30, 0)
    train(LedgerBill(ledger_of(store), CONTEXT, "a", tmp_path / "s"), range(1))
    assert ledger.spent("alone").prompt_tokens == 70, "done whole, the step counts once"
    assert ledger.spent("paid").prompt_tokens == 100


def test_samples_are_reserved_at_the_most_they_can_cost(store, tmp_path):
    bill = LedgerBill(ledger_of(store, budget=Budget(completion_tokens=79)), CONTEXT, "a", tmp_path / "s")
    with pytest.raises(BudgetExhausted), paying(bill, "draw", "step 0", Usage(8, 20, 80)):
        raise AssertionError("nothing is drawn")


def test_training_needs_a_price_of_its_own_under_a_price_limit(store, tmp_path):
    ledger = ledger_of(store, budget=Budget(price=1.0), prices={"generator": Price(1, 2)})
    updates = Updates(LedgerBill(ledger, CONTEXT, "a", tmp_path / "s"))
    updates.begin(0)
    with pytest.raises(InputError, match=r"training has no price, so budget\.price cannot be held"):
        updates.passing(1, 1, 1)


def test_the_slow_pace_of_updates_is_no_estimate_for_calls(store, tmp_path):
    ledger = ledger_of(store, budget=Budget(seconds=100.0))
    bill = LedgerBill(ledger, CONTEXT, "a", tmp_path / "s")
    bill.enter("update", "step 0", Usage(1, 1, 1, 60.0), [bill.reserve("update", Usage(1, 1, 1))])
    ledger.settle([ledger.reserve("train", Amount(calls=50))], [])
    with pytest.raises(BudgetExhausted, match="seconds"):
        bill.reserve("update", Usage(1, 1, 1))


def test_passes_in_flight_at_a_kill_are_reported_as_lost(store, tmp_path):
    code = """
import os, sys
from pathlib import Path
from luthier.ledger.entries import Context
from luthier.ledger.ledger import Ledger
from luthier.ledger.store import Store
from luthier.training.bill import LedgerBill, Updates
folder = Path(sys.argv[1])
ledger = Ledger(Store(folder / "store.sqlite"), run="r")
context = Context("train", "generator", "mas_architect", "reinforce", "train", 17)
updates = Updates(LedgerBill(ledger, context, "a", folder / "s"))
for step in range(2):
    updates.begin(step)
    updates.passing(3, 30, 20)
    if step:
        os._exit(9)
    updates.end()
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=environment, check=False)
    assert done.returncode == 9
    ledger = ledger_of(store, prices={})
    assert ledger.spent("paid").prompt_tokens == 30
    assert (ledger.lost().calls, ledger.lost().prompt_tokens) == (3, 30)
