"""`Ledger`: who pays for every token, and the limits that no one may overshoot.

Two figures are kept for each entry. *Paid* is what really went to an engine: a stored answer costs nothing.
*As if alone* is what the same work costs with an empty store and no accident: it counts a stored answer at
its price, and each purpose once.

Resuming. An entry's identity is (run, context, purpose, part). The purpose says what the call was for, and
is the same when a killed run is started again: the n-th use of an execution, and the index of the call in
it. So a replay finds its entry already there:

* a stored answer whose entry exists adds nothing, neither paid nor uncached;
* a stored answer without an entry (another run paid for it) adds an entry with zero paid;
* a real payment is always entered. If its purpose already has an entry (the stored row was repaired away,
  or the same attempt failed again after a restart), it adds to paid and not to uncached.

Answers are stored and entered in one transaction, so no call is paid twice and none is lost, with one
exception that nothing can avoid: calls in flight when a process is killed. Their reservations stay behind;
`lost` reports them at their upper bound, and they count against limits on *paid*, because the engine may
have done the work, until somebody who knows better writes them off.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, get_args

from luthier.errors import BudgetExhausted, InputError
from luthier.files import digest_text
from luthier.ledger.budget import NUMBERS, UNITS, Amount, Budget, Forecast, Price, Tariff, show
from luthier.ledger.entries import TRAINING_PARTS, Account, Context, Entry, Line
from luthier.ledger.sealed_rows import add_numbered, seal, seal_again, tables
from luthier.process_owner import is_alive, owner_of
from luthier.target import Usage

__all__ = ["UNITS", "Account", "Amount", "Budget", "Context", "Entry", "Forecast", "Journal", "Ledger", "Line", "Price"]

UNLIMITED: Account = "test"
WRITTEN_OFF = "written off"
"""In a reservation's place for its owner: lost, but no longer counted."""

_PATIENCE_SECONDS, _POLL_SECONDS = 600.0, 0.05
_PAID, _ALONE = [f"paid_{n}" for n in NUMBERS], [f"alone_{n}" for n in NUMBERS]
_FIELDS = ("run", "key", "nth", "account", "role", "method", "phase", "split", "seed", "scope", "purpose", "part")
_COLUMNS = (*_FIELDS, "cached", *_PAID, *_ALONE, "problem", "target")
_RESERVATION = ("run", "account", "owner", *NUMBERS)
_TABLES = (
    f"CREATE TABLE entries (seq INTEGER PRIMARY KEY AUTOINCREMENT, {', '.join(_COLUMNS)}, digest,"
    " UNIQUE (run, key, nth))",
    f"CREATE TABLE tallies (run, account, basis, {', '.join(NUMBERS)}, digest,"
    " PRIMARY KEY (run, account, basis)) WITHOUT ROWID",
    f"CREATE TABLE reservations (id INTEGER PRIMARY KEY AUTOINCREMENT, {', '.join(_RESERVATION)}, digest)",
    "CREATE INDEX reservations_of_run ON reservations (run)",
)


class Journal(Protocol):
    """Where a ledger keeps its tables; `luthier.ledger.store.Store` is one."""

    def transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        """One atomic write, alone in the file; nested uses join the outer one."""
        ...

    def verify(self, *tables: str) -> None:
        """Check all rows of these tables by their digests (`luthier.ledger.sealed_rows`), once for each.

        Raises:
            StoreError: the file is damaged.
        """
        ...


class Ledger:
    """The accounts of one run. Several processes may open the same run on one store and share its limits.

    Args:
        journal: The store.
        budget: Limits on the sum over all accounts but `test`.
        run: Name of the run; the same name after a kill continues it.
        prices: Price of each tariff; a role without one has an unknown price.
        price_fields: For each tariff, the file and field that state it, for the error that asks for it.
        counts: What the limits hold for: "paid" guards money; "alone" makes a search stop at the same
            spend however warm the store is, which equal-cost comparisons need.
    """

    def __init__(
        self,
        journal: Journal,
        budget: Budget | None = None,
        *,
        run: str,
        prices: Mapping[Tariff, Price] | None = None,
        price_fields: Mapping[Tariff, str] | None = None,
        counts: Literal["paid", "alone"] = "paid",
    ) -> None:
        self.budget, self.run, self.counts = budget or Budget(), run, counts
        self.stopped: BudgetExhausted | None = None
        self._journal, self._prices, self._price_fields = journal, dict(prices or {}), dict(price_fields or {})
        self._owner = owner_of(os.getpid())
        self._uses: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._slowest = 0.0
        self._paces: dict[str, tuple[int, float, int]] = {}
        with journal.transaction() as db:
            if not {"entries", "tallies", "reservations"} & set(tables(db)):
                for statement in _TABLES:
                    db.execute(statement)
            journal.verify("entries", "tallies", "reservations")
            self._bury(db)

    def amount(self, tariff: Tariff, usage: Usage) -> Amount:
        """A usage with its price.

        Raises:
            InputError: `budget.price` is set and the tariff has no price, so that the limit cannot hold.
        """
        price = self._prices.get(tariff)
        if price is None and self.budget.price is not None:
            what = "training" if tariff == "trained" else f"role {tariff!r}"
            raise InputError(
                f"{what} has no price, so budget.price cannot be held",
                where=self._price_fields.get(tariff, "budget, field price"),
                fix="state the price there or remove budget.price",
            )
        pico = None if price is None else price.picodollars(usage.prompt_tokens, usage.completion_tokens)
        if usage == Usage():
            pico = 0
        return Amount(0, usage.calls, usage.prompt_tokens, usage.completion_tokens, usage.seconds, pico)

    def nth_use(self, context: Context, subject: str) -> int:
        """How often this process used `subject` in this context before; part of a default purpose."""
        key = digest_text(json.dumps([*context.values, subject]))
        self._uses[key] += 1
        return self._uses[key] - 1

    def nth_failure(self, context: Context, purpose: str) -> int:
        """How many failed attempts this process entered for a purpose before."""
        key = digest_text(json.dumps([*context.values, purpose]))
        self._failures[key] += 1
        return self._failures[key] - 1

    def reserve(self, account: Account, need: Amount) -> int:
        """Set the worst case of one unit of work aside, before spending.

        Raises:
            BudgetExhausted: it might overshoot a limit; the ledger refuses from then on.
        """
        ids, refused = self.reserve_many(account, [need])
        if refused is not None:
            self.stop(refused)
        return ids[0]

    def reserve_many(
        self, account: Account, needs: Sequence[Amount], *, wait: bool = True
    ) -> tuple[list[int], BudgetExhausted | None]:
        """Reserve in order as many as fit; the second value says why the next one did not.

        When nothing fits only because other processes hold reservations, `wait`s for them to settle. Nobody
        knows the seconds of a call beforehand: a need without an estimate of its own is reserved at the
        slowest pace of a call seen by this ledger (0 before the first), so only `seconds` may be passed,
        by the error of that estimate.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            ids, refused, foreign = self._try(account, needs)
            if ids or refused is None or not (wait and foreign) or time.monotonic() > deadline:
                return ids, refused
            time.sleep(_POLL_SECONDS)

    def settle(self, reserved: Sequence[int], entries: Sequence[Entry]) -> None:
        """Replace reservations by what was really spent. Joins an open transaction of the journal."""
        with self._journal.transaction() as db:
            db.executemany("DELETE FROM reservations WHERE id = ?", [(number,) for number in reserved])
            added: dict[tuple[str, str], Amount] = {}
            for entry in entries:
                for basis, amount in self._append(db, entry):
                    slot = (entry.context.account, basis)
                    added[slot] = added.get(slot, Amount()) + amount
            for (account, basis), amount in sorted(added.items()):
                self._tally(db, account, basis, amount)
        for entry in entries:
            if entry.paid.calls and entry.paid.seconds and entry.part not in TRAINING_PARTS:
                self._slowest = max(self._slowest, entry.paid.seconds / entry.paid.calls)

    def known(self, entries: Sequence[Entry]) -> list[bool]:
        """For each entry, whether this run already holds it."""
        with self._journal.transaction() as db:
            query = "SELECT 1 FROM entries WHERE run = ? AND key = ?"
            return [db.execute(query, (self.run, entry.key)).fetchone() is not None for entry in entries]

    def stop(self, reason: BudgetExhausted) -> None:
        """Refuse every limited account from now on, and say why.

        Raises:
            BudgetExhausted: always.
        """
        self.stopped = self.stopped or reason
        raise reason

    def spent(self, basis: Literal["paid", "alone"] = "paid", *accounts: Account) -> Amount:
        """Total of the run over some accounts (default: all that limits hold for)."""
        with self._journal.transaction() as db:
            return self._spent(db, basis, accounts or _limited())

    def lost(self, runs: Sequence[str] = ()) -> Amount:
        """Upper bound of what was in flight when processes were killed, of this run or of those named.

        Not part of `paid`. A kill is noticed when its run is opened again.
        """
        with self._journal.transaction() as db:
            self._bury(db)
            return self._left_behind(db, "", list(runs) or [self.run])

    def written_off(self, runs: Sequence[str] = ()) -> Amount:
        """What was lost and is no longer counted against limits, of this run or of those named."""
        with self._journal.transaction() as db:
            return self._left_behind(db, WRITTEN_OFF, list(runs) or [self.run])

    def write_off(self) -> dict[str, Amount]:
        """Count nothing that was lost so far against any run's limits; it stays on record.

        For whoever knows that nobody charges for it: an engine of this machine, or a server whose bill was read.
        What a living process has in flight is left alone.

        Returns:
            What was written off, by run.
        """
        with self._journal.transaction() as db:
            runs = [row[0] for row in db.execute("SELECT DISTINCT run FROM reservations ORDER BY run").fetchall()]
            for run in runs:
                self._bury(db, run)
            amounts = {run: self._left_behind(db, "", [run]) for run in runs}
            for (number,) in db.execute("SELECT id FROM reservations WHERE owner = ''").fetchall():
                self._hand_over(db, number, WRITTEN_OFF)
        return {run: amount for run, amount in amounts.items() if amount.calls}

    def runs(self) -> list[str]:
        """Names of all runs of this store that hold an entry, sorted."""
        with self._journal.transaction() as db:
            return [row[0] for row in db.execute("SELECT DISTINCT run FROM entries ORDER BY run").fetchall()]

    def latest(self, prefix: str) -> str:
        """The run of this store that was written last among those whose names begin so, "" when there is none."""
        query = "SELECT run FROM entries WHERE substr(run, 1, ?) = ? ORDER BY seq DESC LIMIT 1"
        with self._journal.transaction() as db:
            row = db.execute(query, (len(prefix), prefix)).fetchone()
        return str(row[0]) if row else ""

    def totals(self, runs: Sequence[str] = ()) -> list[Line]:
        """Totals by account x role x method x phase, of this run or of the runs named."""
        names = list(runs) or [self.run]
        sums = ", ".join(_sum(column) for column in (*_PAID, *_ALONE))
        group = "account, role, method, phase"
        query = (
            f"SELECT {group}, COUNT(*), SUM(cached), SUM(problem != ''), {sums} FROM entries"
            f" WHERE run IN ({', '.join('?' * len(names))}) GROUP BY {group} ORDER BY {group}"
        )
        with self._journal.transaction() as db:
            rows = db.execute(query, names).fetchall()
        lines = []
        for account, role, method, phase, entries, cached, problems, *numbers in rows:
            paid, alone = Amount(*numbers[: len(NUMBERS)]), Amount(*numbers[len(NUMBERS) :])
            lines.append(Line(account, role, method, phase, paid, alone, entries, cached, problems))
        return lines

    def entries(self) -> Iterator[Entry]:
        """All entries of the run in the order of writing."""
        query = f"SELECT {', '.join(_COLUMNS)} FROM entries WHERE run = ? ORDER BY seq"
        with self._journal.transaction() as db:
            rows = db.execute(query, [self.run]).fetchall()
        for row in rows:
            half, end = 13 + len(NUMBERS), 13 + 2 * len(NUMBERS)
            paid, alone = Amount(*row[13:half]), Amount(*row[half:end])
            yield Entry(Context(*row[3:10]), row[10], row[11], bool(row[12]), paid, alone, row[end], row[end + 1])

    def pace(self, target: str) -> float | None:
        """Seconds per paid call of a target over all runs of this store; None before the first."""
        query = (
            "SELECT SUM(paid_seconds), SUM(paid_calls) FROM entries"
            " WHERE seq > ? AND seq <= ? AND target = ? AND cached = 0 AND problem = ''"
        )
        with self._journal.transaction() as db:
            seen, seconds, calls = self._paces.get(target, (0, 0.0, 0))
            (last,) = db.execute("SELECT MAX(seq) FROM entries").fetchone()
            if last is not None and last > seen:  # a big store is read once, then only what is new
                more = db.execute(query, [seen, last, target]).fetchone()
                seconds, calls = seconds + (more[0] or 0.0), calls + (more[1] or 0)
                self._paces[target] = last, seconds, calls
        return seconds / calls if calls else None

    def render(self, runs: Sequence[str] = ()) -> str:
        """The totals of this run, or of those named, as an aligned table: paid, and uncached."""
        columns = ("rollouts", "calls", "prompt_tokens", "completion_tokens", "seconds", "price")
        rows = [("account", "role", "method", "phase", "", *(c.replace("_", " ") for c in columns))]
        for line in self.totals(runs):
            for name, amount in (("paid", line.paid), ("uncached", line.alone)):
                who = (line.account, line.role, line.method, line.phase)
                rows.append((*who, name, *(show(amount.get(c), c) for c in columns)))
        if (lost := self.lost(runs)).calls:
            rows.append(("", "", "", "", "lost (at most)", *(show(lost.get(c), c) for c in columns)))
        if (forgiven := self.written_off(runs)).calls:
            rows.append(("", "", "", "", "lost, written off", *(show(forgiven.get(c), c) for c in columns)))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        aligned = [
            [c.ljust(w) if i < 5 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True))] for r in rows
        ]
        return "\n".join("  ".join(row).rstrip() for row in aligned)

    def _try(self, account: Account, needs: Sequence[Amount]) -> tuple[list[int], BudgetExhausted | None, bool]:
        with self._journal.transaction() as db:
            self._bury(db)
            limited = account != UNLIMITED
            total, foreign = self._committed(db) if limited else (Amount(), False)
            if self.budget.price is not None and total.picodollars is None:
                raise InputError(
                    f"field price: run {self.run!r} already holds entries of unknown price, so it cannot be limited",
                    where="budget",
                    fix="remove budget.price or start another run",
                )
            ids: list[int] = []
            for need in needs:
                if need == Amount():
                    ids.append(0)
                    continue
                if limited and self.stopped is not None:
                    return ids, self.stopped, False
                if not need.seconds:
                    need += Amount(seconds=need.calls * self._slowest)
                total += need
                over = self.budget.exceeded(total) if limited else None
                if over is not None:
                    unit, allowed, needed = over
                    lost = self._left_behind(db, "", [self.run]) if self.counts == "paid" else Amount()
                    reason = BudgetExhausted(
                        unit, allowed=allowed, needed=needed, account=account, lost=lost.get(unit) or 0.0
                    )
                    return ids, reason, foreign
                ids.append(add_numbered(db, "reservations", (self.run, account, self._owner, *need.numbers)))
            return ids, None, foreign

    def _committed(self, db: sqlite3.Connection) -> tuple[Amount, bool]:
        total = self._spent(db, self.counts, _limited())
        query = f"SELECT owner, {', '.join(NUMBERS)} FROM reservations WHERE run = ? AND account != ? AND owner != ?"
        foreign = False
        for owner, *numbers in db.execute(query, (self.run, UNLIMITED, WRITTEN_OFF)).fetchall():
            if owner or self.counts == "paid":
                total += Amount(*numbers)
            foreign = foreign or owner not in ("", self._owner)
        return total, foreign

    def _spent(self, db: sqlite3.Connection, basis: str, accounts: Sequence[Account]) -> Amount:
        marks = ", ".join("?" * len(accounts))
        query = (
            f"SELECT {', '.join(NUMBERS)} FROM tallies WHERE run = ? AND basis = ? AND account IN ({marks})"
            " ORDER BY account"
        )
        rows = db.execute(query, (self.run, basis, *accounts)).fetchall()
        return sum((Amount(*row) for row in rows), Amount())

    def _append(self, db: sqlite3.Connection, entry: Entry) -> list[tuple[str, Amount]]:
        key, alone, nth = entry.key, entry.alone, 0
        holds = "SELECT COUNT(*) FROM entries WHERE run = ? AND key = ?"
        if nth := db.execute(holds, (self.run, key)).fetchone()[0]:
            if entry.cached:
                return []
            alone = Amount()
        row = (self.run, key, nth, *entry.context.values, entry.purpose, entry.part, int(entry.cached))
        values = (*row, *entry.paid.numbers, *alone.numbers, entry.problem, entry.target)
        add_numbered(db, "entries", values)
        return [("alone", alone), ("paid", entry.paid)]

    def _tally(self, db: sqlite3.Connection, account: str, basis: str, amount: Amount) -> None:
        slot = (self.run, account, basis)
        old = f"SELECT {', '.join(NUMBERS)} FROM tallies WHERE run = ? AND account = ? AND basis = ?"
        row = db.execute(old, slot).fetchone()
        total = amount if row is None else Amount(*row) + amount
        values = seal((*slot, *total.numbers))
        db.execute(f"INSERT OR REPLACE INTO tallies VALUES ({', '.join('?' * len(values))})", values)

    def _left_behind(self, db: sqlite3.Connection, owner: str, runs: Sequence[str]) -> Amount:
        """Sum of the reservations that no process holds any more: `owner` is "" or `WRITTEN_OFF`."""
        marks = ", ".join("?" * len(runs))
        query = f"SELECT {', '.join(NUMBERS)} FROM reservations WHERE owner = ? AND run IN ({marks}) ORDER BY id"
        return sum((Amount(*row) for row in db.execute(query, (owner, *runs)).fetchall()), Amount())

    def _bury(self, db: sqlite3.Connection, run: str = "") -> None:
        """Reservations of a run's dead processes: rollouts are given back, calls in flight become `lost`."""
        run = run or self.run
        query = "SELECT DISTINCT owner FROM reservations WHERE run = ? AND owner NOT IN ('', ?)"
        for (owner,) in db.execute(query, (run, WRITTEN_OFF)).fetchall():
            if owner != self._owner and not is_alive(owner):
                db.execute("DELETE FROM reservations WHERE run = ? AND owner = ? AND calls = 0", (run, owner))
                of_owner = "SELECT id FROM reservations WHERE run = ? AND owner = ?"
                for (number,) in db.execute(of_owner, (run, owner)).fetchall():
                    self._hand_over(db, number, "")

    def _hand_over(self, db: sqlite3.Connection, number: int, owner: str) -> None:
        db.execute("UPDATE reservations SET owner = ? WHERE id = ?", (owner, number))
        seal_again(db, "reservations", number)


def _limited() -> tuple[Account, ...]:
    return tuple(account for account in get_args(Account) if account != UNLIMITED)


def _sum(column: str) -> str:
    """SQL sum that is NULL as soon as one part is unknown."""
    return f"CASE WHEN COUNT({column}) = COUNT(*) THEN SUM({column}) END"
