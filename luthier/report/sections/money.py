"""Money: the ledger's totals by account, role and phase, paid and uncached, read without touching the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from luthier.context import CACHE, StageContext
from luthier.errors import StoreError
from luthier.ledger.budget import Amount, show
from luthier.ledger.ledger import Ledger, Line
from luthier.ledger.sealed_rows import read_bytes_as_text, verify
from luthier.methods import card
from luthier.report.html.markup import Html
from luthier.report.html.tables import Column, cell, note, number, row, section, table
from luthier.report.sections.training_costs import training_costs
from luthier.settings.load import Params

_UNITS = ("rollouts", "calls", "prompt_tokens", "completion_tokens", "seconds", "price")
_SHARED = "grid"


@dataclass(frozen=True, slots=True)
class Spending:
    """What is in the ledger.

    Attributes:
        lines: Totals over `runs`. runs: One for each stage and method.
        older: Those of `runs` that were made with other settings than the present ones.
        everything: Totals over all runs in the store. all_runs: How many there are.
    """

    lines: tuple[Line, ...]
    runs: tuple[str, ...]
    older: tuple[str, ...]
    everything: tuple[Line, ...]
    all_runs: int


def read_spending(root: Path, params: Params) -> Spending | None:
    """Totals in the store; None when there is no store, or nothing was entered yet.

    Of each stage and method counts the run with the present settings. Without one, its latest run counts: DVC
    leaves a stage alone whose own settings did not change, while the name of a run covers all settings (ours).

    Raises:
        StoreError: the file is damaged; it is opened read-only and never changed.
    """
    path = root / CACHE / "store.sqlite"
    if not path.is_file():
        return None
    journal = _ReadOnlyJournal(path)
    known = journal.runs()
    if not known:
        return None
    ledger = Ledger(journal, run="report")
    present = _runs_of(params)
    runs = [run for name in present if (run := _run_of_stage(name, known))]
    lines = ledger.totals(runs) if runs else []
    older = [run for run in runs if run not in present]
    return Spending(tuple(lines), tuple(runs), tuple(older), tuple(ledger.totals(known)), len(known))


def _run_of_stage(present: str, known: Sequence[str]) -> str:
    """The present run if the store has it, else the latest of its stage and method, else ""."""
    if present in known:
        return present
    stage = present.partition("/")[0] + "/"
    return next((run for run in reversed(known) if run.startswith(stage)), "")


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
    if spending.all_runs > len(spending.runs):
        rows += _total(f"all {spending.all_runs} runs in this store", spending.everything)
    older = ", ".join(spending.older)
    return section(
        "money",
        "Money",
        table("Ledger totals by account, role, method and phase", columns, rows),
        training_costs(spending.lines),
        note(f"Made with other settings than the present ones (the latest run of its stage counts): {older}.")
        if older
        else None,
        note(
            "Paid: what really went to an engine; a stored answer costs nothing. As if alone: what the same work costs "
            "with an empty store. A price that nobody stated is unknown, never 0. Seconds are the engine's, or the "
            "trainer's: there a call is a sample or a row of an update pass, and tokens that carry the loss count as "
            "completion. A step done again after a kill is paid again. Account test never limits anything."
        ),
    )


def _rows(line: Line) -> list[Html]:
    shared = (line.role, line.method or "all", line.phase)
    return [
        row(line.account, *(cell(text) for text in shared), cell(basis), *_figures(amount))
        for basis, amount in (("paid", line.paid), ("uncached", line.alone))
    ]


def _total(label: str, lines: Sequence[Line]) -> list[Html]:
    paid, alone = (sum((pick(line) for line in lines), Amount()) for pick in (_paid, _alone))
    return [
        row(label, cell(""), cell(""), cell(""), cell(basis), *_figures(amount), class_="total")
        for basis, amount in (("paid", paid), ("uncached", alone))
    ]


def _paid(line: Line) -> Amount:
    return line.paid


def _alone(line: Line) -> Amount:
    return line.alone


def _figures(amount: Amount) -> list[Html]:
    return [number(show(amount.get(unit), unit)) for unit in _UNITS]


def _runs_of(params: Params) -> list[str]:
    """Names of the ledger runs that the stages open with these settings."""
    names = [StageContext(_SHARED, "", params=params).run]
    for method in params.ask.methods:
        for stage in (*card(method).phases, "evaluate"):
            names.append(StageContext(stage, method, params=params).run)
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
                yield read_bytes_as_text(db)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise StoreError(
                str(error), where=str(self._path), fix="restore the file, or move it away: the page says so then"
            ) from error

    def verify(self, *tables: str) -> None:
        """Check all rows of these tables.

        Raises:
            StoreError: the file is damaged.
        """
        with self.transaction() as db:
            verify(db, tables, where=str(self._path))

    def runs(self) -> list[str]:
        """Names of all runs, the one that was written to last comes last; empty when there is no ledger yet."""
        with self.transaction() as db:
            if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'entries'").fetchone() is None:
                return []
            return [name for (name,) in db.execute("SELECT run FROM entries GROUP BY run ORDER BY MAX(seq)").fetchall()]
