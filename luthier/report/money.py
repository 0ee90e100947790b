"""Money: the ledger's totals by account, role and phase, paid and as if alone, read without touching the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from luthier.budget import Amount, show
from luthier.errors import StoreError
from luthier.ledger import Ledger, Line
from luthier.params import Params
from luthier.report.markup import Html
from luthier.report.numbers import count
from luthier.report.tables import Column, cell, note, number, row, section, table
from luthier.workbench import CACHE, Workbench

_UNITS = ("rollouts", "calls", "prompt_tokens", "completion_tokens", "seconds", "price")
_PAYING_STAGES = ("grid", "teach", "reinforce", "evaluate")
_SHARED = "grid"


@dataclass(frozen=True, slots=True)
class Spending:
    """Ledger lines of the present settings' runs, and the totals of every run in the store."""

    lines: tuple[Line, ...]
    runs: tuple[str, ...]
    everything: tuple[Line, ...]
    all_runs: int


def read_spending(root: Path, params: Params) -> Spending | None:
    """Totals in the store; None when there is no store, or nothing was entered yet.

    The present settings' runs are those that the stages open with these parameters. When the store holds none
    of them (it was made with other settings), the lines are those of all runs.

    Raises:
        StoreError: the file is damaged; it is opened read-only and never changed.
    """
    path = root / CACHE / "store.sqlite"
    if not path.is_file():
        return None
    journal = _ReadOnlyJournal(path)
    present = journal.runs()
    if not present:
        return None
    ledger = Ledger(journal, run="report")
    wanted = [run for run in _runs_of(params) if run in present]
    lines = ledger.totals(wanted or present)
    return Spending(tuple(lines), tuple(wanted), tuple(ledger.totals(present)), len(present))


def money(spending: Spending | None) -> Html:
    """The ledger as a table."""
    if spending is None:
        return section("money", "Money", note("No ledger here: .cache/store.sqlite is missing or empty."))
    columns = [
        Column("account"),
        Column("role"),
        Column("method"),
        Column("phase"),
        Column("basis"),
        *(Column("price (USD)" if unit == "price" else unit.replace("_", " "), numeric=True) for unit in _UNITS),
    ]
    rows = [line for entry in spending.lines for line in _rows(entry)]
    rows += _total("all of these", spending.lines)
    if spending.runs and spending.all_runs > len(spending.runs):
        rows += _total(f"all {spending.all_runs} runs in this store", spending.everything)
    which = f"{count(len(spending.runs))} runs with the present settings" if spending.runs else "all runs in this store"
    return section(
        "money",
        "Money",
        table(f"Ledger totals of {which}", columns, rows),
        note(
            "Paid: what really went to an engine; a stored answer costs nothing. As if alone: what the same work costs "
            "with an empty store. A price that nobody stated is unknown, never 0. Seconds are the engine's; training "
            "itself calls no metered model in sft and is not in the ledger. Account test never limits anything."
        ),
    )


def _rows(line: Line) -> list[Html]:
    shared = (line.role, line.method or "all", line.phase)
    return [
        row(line.account, *(cell(text) for text in shared), cell(basis), *_figures(amount))
        for basis, amount in (("paid", line.paid), ("as if alone", line.alone))
    ]


def _total(label: str, lines: Sequence[Line]) -> list[Html]:
    paid, alone = (sum((pick(line) for line in lines), Amount()) for pick in (_paid, _alone))
    return [
        row(label, cell(""), cell(""), cell(""), cell(basis), *_figures(amount), class_="total")
        for basis, amount in (("paid", paid), ("as if alone", alone))
    ]


def _paid(line: Line) -> Amount:
    return line.paid


def _alone(line: Line) -> Amount:
    return line.alone


def _figures(amount: Amount) -> list[Html]:
    return [number(show(amount.get(unit), unit)) for unit in _UNITS]


def _runs_of(params: Params) -> list[str]:
    """Names of the ledger runs that the stages open with these settings."""
    names = []
    for stage in _PAYING_STAGES:
        for method in ("",) if stage == _SHARED else params.ask.methods:
            names.append(Workbench(stage, method, params=params).run)
    return names


class _ReadOnlyJournal:
    """A ledger's journal on a store that is only read.

    Args:
        path: The SQLite file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._uri = f"{path.resolve().as_uri()}?mode=ro"

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One connection that cannot write.

        Raises:
            StoreError: the file is damaged or no store.
        """
        try:
            with closing(sqlite3.connect(self._uri, uri=True)) as db:
                yield db
        except sqlite3.Error as error:
            raise StoreError(
                str(error), where=str(self._path), fix="restore the file, or move it away: the page says so then"
            ) from error

    def runs(self) -> list[str]:
        """Names of all runs with entries, sorted; empty when the ledger has no tables yet."""
        with self.transaction() as db:
            if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'entries'").fetchone() is None:
                return []
            return [name for (name,) in db.execute("SELECT DISTINCT run FROM entries ORDER BY run").fetchall()]
