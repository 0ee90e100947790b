"""`repair`: a damaged store without its damaged rows, and without lowering what was spent.

Every table is read from both ends as far as its pages allow, and each row that matches its digest goes into a new
file, which then takes the old one's place; the old one stays beside it as `<name>.damaged`. An answer or an execution
that is dropped is paid again when it is needed. Dropped entries of the ledger are made up for: what the tally of a run
and account says beyond the entries that are left is entered under `METHOD`, so that no limit opens again. (Ours.)
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from luthier.errors import StoreError
from luthier.ledger.budget import NUMBERS
from luthier.ledger.ledger import Account, Amount, Context, Entry, Ledger
from luthier.ledger.sealed_rows import REPAIR, columns, digest_row, read_bytes_as_text, seal, tables
from luthier.ledger.store import Store

METHOD = "luthier store repair"
_Slot = tuple[str, Account, str]
"""Run, account and basis of a tally."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair did.

    Attributes:
        dropped: Damaged rows. Those on pages that cannot be read at all are not counted.
        entered: Runs whose ledger got an entry in place of dropped ones.
        damaged: The old file; None when it was whole and nothing was done.
    """

    dropped: int
    entered: tuple[str, ...]
    damaged: Path | None


def repair(path: Path) -> Repaired:
    """Make a damaged store whole again; a whole one is left as it is.

    Raises:
        StoreError: another process has the file open, it cannot be written, or it is no store of this version.
    """
    if path.is_symlink():  # an experiment's link to the store of its workspace
        path = path.resolve()
    if _is_whole(path):
        return Repaired(0, (), None)
    fresh, damaged = (path.with_name(f"{path.name}.{word}") for word in ("repaired", "damaged"))
    try:
        for name in ("", "-wal", "-shm", ".lock"):
            Path(f"{fresh}{name}").unlink(missing_ok=True)
        damaged.unlink(missing_ok=True)
        with closing(_alone(path)) as old:
            dropped, entered = _copy(old, Store(fresh))
        os.link(path, damaged)
        for name in ("-wal", "-shm"):
            Path(f"{path}{name}").unlink(missing_ok=True)
        os.replace(fresh, path)
        Path(f"{fresh}.lock").unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot replace the store ({error.strerror or error})", where=str(path), fix="correct the folder's rights"
        ) from error
    return Repaired(dropped, entered, damaged)


def _is_whole(path: Path) -> bool:
    try:
        with closing(Store(path)) as store:
            with store.transaction() as db:
                names = tables(db)
            store.verify(*names)
    except StoreError as error:
        if error.fix != REPAIR:
            raise
        return False
    return True


def _alone(path: Path) -> sqlite3.Connection:
    """The damaged file, with all that its write-ahead log holds, when no other process has it open."""
    db = read_bytes_as_text(sqlite3.connect(path, 0, isolation_level=None))
    try:
        db.execute("PRAGMA journal_mode = DELETE")
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if "locked" in str(error):
            db.close()
            raise StoreError(
                "another process has the store open", where=str(path), fix="end it, then repair again"
            ) from error
    return db


def _copy(old: sqlite3.Connection, store: Store) -> tuple[int, tuple[str, ...]]:
    """Every whole row into the new store; how many were not, and the runs that got an entry for what they lack."""
    Ledger(store, run=METHOD)  # makes the ledger's tables
    dropped, tallies = 0, dict[_Slot, Amount]()
    with store.transaction() as db:
        for table in tables(db):
            for row in _readable(old, table):
                if row is None:
                    dropped += 1
                elif table == "tallies":
                    tallies[row[0], row[1], row[2]] = Amount(*row[3:])
                else:
                    sealed = seal(row)
                    db.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(sealed))})", sealed)
        spent = _spent(db)
        for slot, amount in spent.items():
            db.execute(f"INSERT INTO tallies VALUES ({', '.join('?' * 10)})", seal((*slot, *amount.numbers)))
    entered = _make_up(store, spent, tallies)
    store.close()
    return dropped, entered


def _readable(old: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...] | None]:
    """The rows of a table from both ends to where a page cannot be read; None for one that its digest does not fit."""
    seen: set[Any] = set()
    for order in ("ASC", "DESC"):
        try:
            names = columns(old, table, where="")
            keys = 3 if table == "tallies" else 1
            by = ", ".join(f"{name} {order}" for name in names[:keys])
            for row in old.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY {by}"):
                if row[:keys] in seen:
                    return
                seen.add(row[:keys])
                if names[-1] != "digest":  # an older file's, of which nobody can tell
                    yield row
                else:
                    yield row[:-1] if digest_row(row[:-1]) == row[-1] else None
            return
        except (sqlite3.Error, StoreError, UnicodeDecodeError):
            continue


def _spent(db: sqlite3.Connection) -> dict[_Slot, Amount]:
    """What the entries of each run and account say, paid and uncached."""
    spent: dict[_Slot, Amount] = {}
    for basis in ("paid", "alone"):
        query = f"SELECT run, account, {', '.join(f'{basis}_{name}' for name in NUMBERS)} FROM entries ORDER BY seq"
        for run, account, *numbers in db.execute(query):
            slot = (run, account, basis)
            spent[slot] = spent.get(slot, Amount()) + Amount(*numbers)
    return spent


def _make_up(store: Store, spent: Mapping[_Slot, Amount], tallies: Mapping[_Slot, Amount]) -> tuple[str, ...]:
    """Enter what the tallies say beyond the entries; the runs that this was done for."""
    entered: set[str] = set()
    for run, account in sorted({slot[:2] for slot in tallies}):
        paid, alone = (
            _beyond(tallies.get((run, account, basis)), spent.get((run, account, basis), Amount()))
            for basis in ("paid", "alone")
        )
        if (paid, alone) != (Amount(), Amount()):
            ledger = Ledger(store, run=run)
            earlier = sum(entry.context.method == METHOD for entry in ledger.entries())
            context = Context(account, "target", METHOD, "dropped entries", scope=f"repair {earlier}")
            problem = "entries were damaged and dropped; this is their sum"
            ledger.settle([], [Entry(context, context.scope, "dropped", False, paid, alone, problem)])
            entered.add(run)
    return tuple(sorted(entered))


def _beyond(tally: Amount | None, entries: Amount) -> Amount:
    """What a tally says beyond entries. Seconds alone may differ by how sums are rounded, so they do not count."""
    if tally is None:
        return Amount()
    parts: dict[str, Any] = {}
    for item in fields(Amount):
        whole, part = getattr(tally, item.name), getattr(entries, item.name)
        parts[item.name] = None if whole is None or part is None else max(whole - part, 0)
    beyond = Amount(**parts)
    return beyond if beyond.calls or beyond.rollouts or beyond.prompt_tokens or beyond.completion_tokens else Amount()
