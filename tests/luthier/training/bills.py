"""A real bill for trainings in a test's folder, and what it came to."""

from __future__ import annotations

from pathlib import Path

from luthier.ledger.entries import Context
from luthier.ledger.ledger import Ledger
from luthier.ledger.store import Store
from luthier.training.bill import LedgerBill

CONTEXT = Context("train", "generator", "mas_architect", "reinforce", "train", 17)


def ledger_in(folder: Path) -> Ledger:
    """The ledger of a training in `folder`; the same after a kill."""
    folder.mkdir(parents=True, exist_ok=True)
    return Ledger(Store(folder / "ledger.sqlite"), run="r")


def bill_in(folder: Path) -> LedgerBill:
    """The bill of a training in `folder`, whose resumable state lies in `scratch`."""
    return LedgerBill(ledger_in(folder), CONTEXT, "identity", folder / "scratch")


def spent(ledger: Ledger) -> dict[tuple[str, str], tuple[int, int, int, int]]:
    """(phase, basis) -> entries, calls, prompt tokens, completion tokens."""
    rows = {}
    for line in ledger.totals():
        for basis, amount in (("paid", line.paid), ("alone", line.alone)):
            rows[line.phase, basis] = (line.entries, amount.calls, amount.prompt_tokens, amount.completion_tokens)
    return rows
