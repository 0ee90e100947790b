"""`Store`: the content-addressed, append-only, crash-safe record of calls and executions, in one SQLite file.

Several processes may use one file at once: WAL mode, one writer at a time, everybody else waits up to
`BUSY_SECONDS`. Each write is one transaction, so a killed process leaves whole rows or none. Every row
carries the digest of its content and is checked whenever it is read; a bad row is named, never used. A key
that is not found might stand in a damaged row: before a process takes one for absent, it checks the whole
table once. The ledger keeps its own tables in the same file through `transaction`, so that an answer and its
payment are committed together.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from luthier.errors import StoreError
from luthier.execution import Execution
from luthier.files import to_json
from luthier.ledger.sealed_rows import (
    REPAIR,
    SEALED_VERSION,
    checked,
    read_bytes_as_text,
    seal,
    seal_old_tables,
    verify,
)
from luthier.target import Completion, Request, Usage

SCHEMA_VERSION = SEALED_VERSION
_UNSEALED_VERSION = 1
"""The ledger's rows had no digests; such a file gets them when it is opened."""
BUSY_SECONDS = 120
_KEYS_A_QUERY = 500
_TABLES = (
    "CREATE TABLE schema (version INTEGER NOT NULL)",
    "CREATE TABLE calls (key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, request TEXT NOT NULL,"
    " completion TEXT NOT NULL, digest TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE executions (key TEXT PRIMARY KEY, row TEXT NOT NULL, costs TEXT NOT NULL,"
    " digest TEXT NOT NULL) WITHOUT ROWID",
)
_COLUMNS = {"calls": ("key", "fingerprint", "request", "completion"), "executions": ("key", "row", "costs")}


@dataclass(frozen=True, slots=True)
class StoredCall:
    """One answered request, ready to be stored."""

    key: str
    fingerprint: str
    request: Request
    completion: Completion


@dataclass(frozen=True, slots=True)
class StoredExecution:
    """One finished execution with what each of its calls cost, in order, uncached."""

    key: str
    execution: Execution
    costs: tuple[Usage, ...]


class Store:
    """One SQLite file of calls and executions.

    Args:
        path: The file; made with its folder when absent, exactly once, under a lock file beside it.

    Raises:
        StoreError: the file cannot be opened, is not a store, or has another schema version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._depth = 0
        self._pid = 0
        self._db: sqlite3.Connection | None = None
        self._verified: set[str] = set()
        try:
            self._create()
        except StoreError:
            self.close()
            raise

    def calls(self, keys: Iterable[str]) -> dict[str, Completion]:
        """The stored answers among these request keys.

        Raises:
            StoreError: a row does not match its digest.
        """
        found: dict[str, Completion] = {}
        for key, _, _, text in self._read("calls", keys):
            row = json.loads(text)
            found[key] = Completion(row["text"], row["finish"], Usage(**row["usage"]))
        return found

    def put_calls(self, calls: Sequence[StoredCall]) -> None:
        """Add answers in one transaction; a key that is already there keeps its first answer.

        How often the engine tried is the ledger's matter, so attempts are not stored.
        """
        rows = []
        for call in calls:
            answer = call.completion
            completion = {"text": answer.text, "finish": answer.finish, "usage": asdict(answer.usage)}
            rows.append((call.key, call.fingerprint, _dump(call.request.to_row()), _dump(completion)))
        self._insert("calls", rows)

    def executions(self, keys: Iterable[str]) -> dict[str, StoredExecution]:
        """The stored executions among these keys.

        Raises:
            StoreError: a row does not match its digest.
        """
        found: dict[str, StoredExecution] = {}
        for key, row, costs in self._read("executions", keys):
            usages = tuple(Usage(**usage) for usage in json.loads(costs))
            found[key] = StoredExecution(key, Execution.from_row(json.loads(row)), usages)
        return found

    def put_executions(self, executions: Sequence[StoredExecution]) -> None:
        """Add executions in one transaction; the first row of a key stays.

        Raises:
            StoreError: one of them is an `infra_error`, which is retried and never stored.
        """
        rows = []
        for item in executions:
            if item.execution.outcome == "infra_error":
                raise StoreError(
                    "an infra_error is not a result", where=f"{self.path}, executions", fix="run it again instead"
                )
            costs = _dump([asdict(usage) for usage in item.costs])
            rows.append((item.key, _dump(item.execution.to_row()), costs))
        self._insert("executions", rows)

    def count(self, table: str) -> int:
        """Rows of the table `calls` or `executions`.

        Raises:
            StoreError: the table is damaged.
        """
        self.verify(table)
        with self._guarded() as db:
            return int(db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])

    def verify(self, *tables: str) -> None:
        """Check all rows of these tables and the pages of the file, once in the life of this object.

        Raises:
            StoreError: the file is damaged.
        """
        with self._lock, self._guarded() as db:
            if new := [table for table in tables if table not in self._verified]:
                verify(db, new, where=str(self.path))
                self._verified.update(new)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One atomic write, alone in the file; nested uses join the outer one.

        Raises:
            StoreError: disk full, read-only or damaged file, or a writer that does not let go.
        """
        with self._lock, self._guarded() as db:
            if self._depth == 0:
                db.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield db
                if self._depth == 1:
                    db.execute("COMMIT")
            except BaseException:
                if self._depth == 1 and db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1

    def close(self) -> None:
        """Close the file; a later use opens it again."""
        with self._lock:
            if self._db is not None and self._pid == os.getpid():
                self._db.close()
            self._db = None

    def _create(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(f"{self.path}.lock", "a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                with self._guarded() as db:
                    db.execute("PRAGMA journal_mode = WAL")
                    if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema'").fetchone() is None:
                        with self.transaction():
                            for statement in _TABLES:
                                db.execute(statement)
                            db.execute("INSERT INTO schema VALUES (?)", (SCHEMA_VERSION,))
                    if _version(db, self.path) == _UNSEALED_VERSION:
                        with self.transaction():
                            seal_old_tables(db, where=str(self.path))
                            db.execute("UPDATE schema SET version = ?", [SCHEMA_VERSION])
        except OSError as error:
            raise StoreError(
                f"cannot make the store ({error.strerror or error})",
                where=str(self.path),
                fix="correct the folder's rights or give another path",
            ) from error

    @contextmanager
    def _guarded(self) -> Iterator[sqlite3.Connection]:
        try:
            yield self._connection()
        except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite's own message may hold a damaged name
            raise StoreError(ascii(str(error))[1:-1], where=str(self.path), fix=_fix(str(error))) from error

    def _connection(self) -> sqlite3.Connection:
        # A connection must not cross a fork, so a child opens its own.
        if self._db is None or self._pid != os.getpid():
            db = sqlite3.connect(self.path, BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            self._db = read_bytes_as_text(db)
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._pid, self._depth = os.getpid(), 0
        return self._db

    def _insert(self, table: str, rows: Iterable[tuple[str, ...]]) -> None:
        marks = ", ".join("?" * (len(_COLUMNS[table]) + 1))
        with self.transaction() as db:
            db.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", map(seal, rows))

    def _read(self, table: str, keys: Iterable[str]) -> Iterator[tuple[str, ...]]:
        wanted = sorted(set(keys))
        columns = ", ".join(_COLUMNS[table])
        for start in range(0, len(wanted), _KEYS_A_QUERY):
            part = wanted[start : start + _KEYS_A_QUERY]
            query = f"SELECT {columns}, digest FROM {table} WHERE key IN ({', '.join('?' * len(part))}) ORDER BY key"
            with self._lock, self._guarded() as db:
                rows = db.execute(query, part).fetchall()
            if len(rows) < len(part):
                self.verify(table)
            yield from checked(rows, table=table, where=str(self.path))


def _version(db: sqlite3.Connection, path: Path) -> int:
    rows = db.execute("SELECT version FROM schema").fetchall()
    if rows not in ([(_UNSEALED_VERSION,)], [(SCHEMA_VERSION,)]):
        raise StoreError(
            f"field schema.version: {rows[0][0] if rows else None!r}, this Luthier writes {SCHEMA_VERSION}",
            where=str(path),
            fix="move the file away (its calls are then paid again) or use the Luthier that wrote it",
        )
    return int(rows[0][0])


def _dump(value: object) -> str:
    return to_json(value, compact=True)


def _fix(problem: str) -> str:
    if "full" in problem:
        return "free disk space, then run again; what was finished is kept"
    if "readonly" in problem or "unable to open" in problem:
        return "correct the rights of the file and its folder, or give another path"
    if "locked" in problem or "busy" in problem:
        return f"another process has been writing for {BUSY_SECONDS} seconds; end it, then run again"
    if "not a database" in problem:
        return "this is no store: restore it, or move it away (its calls are then paid again)"
    return REPAIR
