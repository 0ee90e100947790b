"""Rows that carry a digest of their content, so that a damaged file is noticed and no altered figure is read.

Each table of a store but `schema` ends in the column `digest`, over all other columns in their order. SQLite's own
check finds damage to the tree of pages (a row that is lost, two that changed places), the digests find everything
else. Texts are read byte for byte, also those that are no UTF-8 any more: their digests tell.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

from luthier.errors import StoreError
from luthier.files import digest_text

SEALED_VERSION = 2
"""Schema version from which on all rows have digests."""
REPAIR = "run `luthier store repair`, which drops what is damaged and keeps the rest; what is dropped is paid again"


def digest_row(values: Iterable[object]) -> str:
    """SHA-256 over a row's other columns, 64 hex digits."""
    return digest_text(json.dumps([str(value) for value in values]))


def seal(values: Sequence[Any]) -> tuple[Any, ...]:
    """A row with its digest as the last column; half characters, which a file cannot hold, are written as escapes."""
    row = [value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value for value in values]
    return (*row, digest_row(row))


def add_numbered(db: sqlite3.Connection, table: str, values: Sequence[Any]) -> int:
    """Add a row under the next number of an AUTOINCREMENT table, which is under its digest, too; the number."""
    numbers = f"SELECT seq FROM sqlite_sequence WHERE name = ? UNION ALL SELECT MAX(rowid) FROM {table}"
    number = int(db.execute(f"SELECT MAX(seq) FROM ({numbers})", [table]).fetchone()[0] or 0) + 1
    row = seal((number, *values))
    db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    return number


def seal_again(db: sqlite3.Connection, table: str, number: int) -> None:
    """Give a numbered row that was changed its new digest."""
    row = db.execute(f"SELECT * FROM {table} WHERE rowid = ?", [number]).fetchone()
    db.execute(f"UPDATE {table} SET digest = ? WHERE rowid = ?", [digest_row(row[:-1]), number])


def read_bytes_as_text(db: sqlite3.Connection) -> sqlite3.Connection:
    """Let a connection give texts without a check of their encoding; bytes that are no UTF-8 become surrogates."""
    db.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    return db


def checked(rows: Iterable[Sequence[Any]], *, table: str, where: str) -> Iterator[tuple[Any, ...]]:
    """Rows without their digests.

    Raises:
        StoreError: one of them does not match its digest.
    """
    for row in rows:
        if digest_row(row[:-1]) != row[-1]:
            raise StoreError(
                f"the row with key {str(row[0])!a} does not match its digest",
                where=f"{where}, table {table}",
                fix=REPAIR,
            )
        yield tuple(row[:-1])


def verify(db: sqlite3.Connection, tables: Iterable[str], *, where: str) -> None:
    """Check the pages of the file and each row of some tables, which an older file has no digests for.

    Raises:
        StoreError: the file is damaged.
    """
    for (problem,) in db.execute("PRAGMA integrity_check(1)").fetchall():
        if problem != "ok":
            raise StoreError(f"the file is damaged ({problem!a})", where=where, fix=REPAIR)
    (version,) = db.execute("SELECT version FROM schema").fetchone()
    if version < SEALED_VERSION:
        return
    for table in tables:
        if names := columns(db, table, where=where):
            with closing(db.execute(f"SELECT {', '.join(names)} FROM {table}")) as rows:
                for _ in checked(rows, table=table, where=where):
                    pass


def columns(db: sqlite3.Connection, table: str, *, where: str) -> list[str]:
    """Names of a table's columns in order; empty when there is no such table.

    Raises:
        StoreError: a name that no table of ours has.
    """
    names = [str(row[1]) for row in db.execute(f"PRAGMA table_info({table})").fetchall()]
    if wrong := [name for name in names if not re.fullmatch("[a-z_]+", name)]:
        raise StoreError(f"the file is damaged (a column is called {wrong[0]!a})", where=where, fix=REPAIR)
    return names


def tables(db: sqlite3.Connection) -> list[str]:
    """Names of the tables whose rows carry digests, or will."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name != 'schema' AND name NOT LIKE 'sqlite_%'"
    return [str(name) for (name,) in db.execute(f"{query} ORDER BY name")]


def seal_old_tables(db: sqlite3.Connection, *, where: str) -> None:
    """Add digests to tables of a file that was written before they had any."""
    db.create_function("digest_row", -1, lambda *values: digest_row(values), deterministic=True)
    for table in tables(db):
        names = columns(db, table, where=where)
        if "digest" not in names:
            db.execute(f"ALTER TABLE {table} ADD COLUMN digest")
            db.execute(f"UPDATE {table} SET digest = digest_row({', '.join(names)})")
