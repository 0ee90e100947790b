"""`SearchLog`: the append-only record of a search, and the script of its replay.

A killed search is started again from its beginning with the same run name. Proposals are read from the log
(a step that the machine failed is not logged, so it is asked again), evaluations from the store (free, and
entered once); each step is compared with its row, and the first step beyond the log goes on for real. So the
state of a search is a pure function of log and store, and nothing is pickled. As durable as the store: a killed
process loses at most the row of the step in flight. After a power cut more may be gone; those rows are made
again, and then carry the spend that the ledger has reached meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from luthier.errors import InputError, StoreError
from luthier.files import to_json, write_atomically
from luthier.ledger.budget import Amount
from luthier.reading import parse_object, read_text, shaped
from luthier.search.contracts import LogRow


class SearchLog:
    """One JSON Lines file.

    Args:
        path: The file; a missing one is an empty log. A half-written last line (the process was killed) is
            cut off, and so is a final stop row: a stop is no step, and a larger budget goes on from there.

    Attributes:
        rows: The steps of this process so far, replayed ones included.

    Raises:
        InputError: a line that is no row of a search log.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[LogRow] = []
        self._old = list(self._read())
        if self._old and self._old[-1].event == "stop":
            self._old.pop()
        if path.exists():
            write_atomically(path, "".join(_line(row) for row in self._old))

    @property
    def replayed(self) -> LogRow | None:
        """The row that the next step must equal, None when the log is at its end."""
        return self._old[len(self.rows)] if len(self.rows) < len(self._old) else None

    @property
    def spent(self) -> Amount:
        """As if alone, after the last step."""
        return self.rows[-1].spent if self.rows else Amount()

    def add(self, row: LogRow) -> LogRow:
        """Record a step, or check it against the log when it is a replay (then the logged spend holds).

        Raises:
            InputError: the replay differs from the log.
            StoreError: the file cannot be written.
        """
        old = self.replayed
        row = LogRow.from_row(json.loads(_line(row)))
        if old is None:
            self._append(row)
        else:
            if replace(row, spent=old.spent) != old:
                raise InputError(
                    f"step {row.step} ({row.event} {row.phase} {row.outcome}) differs from the logged one"
                    f" ({old.event} {old.phase} {old.outcome})",
                    where=f"{self.path}:{len(self.rows) + 1}",
                    fix="resume with the settings, questions and code that wrote the log, or start another run",
                )
            row = old
        self.rows.append(row)
        return row

    def _append(self, row: LogRow) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_line(row))
        except OSError as error:
            raise StoreError(
                f"cannot write the search log ({error.strerror or error})",
                where=str(self.path),
                fix="free disk space or correct the rights, then run again; finished work is kept",
            ) from error

    def _read(self) -> Iterator[LogRow]:
        if not self.path.exists():
            return
        fix = "give the log of a search, or move the file away and start another run"
        lines = read_text(self.path, fix=fix).split("\n")
        for number, line in enumerate(lines[:-1], start=1):
            where = f"{self.path}:{number}"
            with shaped("no row of a search log", where=where, fix=fix):
                row = LogRow.from_row(parse_object(line, where=where, fix=fix))
            yield row


def _line(row: LogRow) -> str:
    return to_json(row.to_row()) + "\n"
