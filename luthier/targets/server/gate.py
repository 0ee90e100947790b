"""`Gate`: whether a server can be asked at all. One look at it serves all requests that are in flight.

A server that is away is waited for, up to a limit, by one thread while the others stand behind it. A server that is
there but fails request after request is asked no more: the rest of the batch fails unasked, the next batch begins
with a single request, and if that fails, too, the gate closes. So a dead server costs the tries of the requests that
were in flight, not those of a whole grid.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

from luthier.errors import TargetError
from luthier.stopping import stop_asked

OUTAGE_SECONDS = 300.0
FAILURES_IN_A_ROW = 8
"""Ours. Requests that a working machine fails after all their tries do not come eight in a row."""
_POLL_SECONDS, _LINE_SECONDS = 2.0, 15.0


class ClosedError(Exception):
    """The gate lets nobody through.

    Args:
        error: Why.
    """

    def __init__(self, error: TargetError) -> None:
        super().__init__(str(error))
        self.error = error


class Gate:
    """What all requests to one server share about its state. Threads may use it at once.

    Args:
        probe: Looks at the server, "" when it is there, else what is wrong.
        where: Names the server in errors and lines.
        outage_seconds: How long to wait for a server that is away.
        say: Takes the lines printed meanwhile, standard error by default.
    """

    def __init__(
        self, probe: Callable[[], str], where: str, outage_seconds: float, say: Callable[[str], None] | None = None
    ) -> None:
        self._probe, self._where, self._limit, self._say = probe, where, outage_seconds, say or print_line
        self._waiting, self._state = threading.Lock(), threading.Lock()
        self._ended = threading.Event()
        self._suspicion = ""
        self._in_a_row, self._answers = 0, 0
        self._tripped: TargetError | None = None
        self._closed: TargetError | None = None

    @property
    def closed(self) -> TargetError | None:
        """Why nothing can be served for good; None while the server may be asked."""
        return self._closed

    @property
    def tripped(self) -> bool:
        """Whether so many requests failed in a row that no other is asked."""
        return self._tripped is not None

    def enter(self) -> None:
        """Before every try: go on at once when all is well, after the outage when the server was away.

        Raises:
            ClosedError: nothing can be served.
        """
        with self._waiting:
            if (shut := self._closed or self._tripped) is not None:
                raise ClosedError(shut)
            if self._suspicion:
                self._wait_out()

    def suspect(self, problem: str) -> None:
        """A try met nobody: look at the server before the next one."""
        with self._state:
            self._suspicion = problem

    def answered(self) -> None:
        """A request has its answer."""
        with self._state:
            self._in_a_row, self._answers = 0, self._answers + 1

    def opened(self) -> None:
        """What comes now are requests for answers."""
        with self._state:
            self._in_a_row, self._answers = 0, 0

    def gave_up(self, error: TargetError, kind: str, status: int = 0) -> None:
        """A request got no answer; `kind` as in `luthier.targets.support.attempts.FaultKind`."""
        with self._state:
            # A server that took the key before speaks of this request alone.
            if kind == "denied" and not (status == 403 and self._answers):
                self._closed = self._closed or error
            elif kind in ("fault", "down"):
                self._in_a_row += 1
                if self._in_a_row >= FAILURES_IN_A_ROW and self._tripped is None:
                    problem = f"the last {self._in_a_row} requests failed: {error.problem}"
                    self._tripped = TargetError(problem, where=self._where, fix=error.fix)

    def try_again(self, ask: Callable[[], None]) -> None:
        """After it tripped: ask for one thing, and close for good when the machine fails that, too."""
        with self._state:
            reason, self._tripped, self._in_a_row = self._tripped, None, 0
        ask()
        with self._state:
            if self._in_a_row:
                self._closed = self._closed or reason

    def sleep(self, seconds: float) -> None:
        """Wait; ends early when the target is closed."""
        self._ended.wait(seconds)

    def end(self) -> None:
        """The target is being closed: nobody waits any longer."""
        self._closed = self._closed or TargetError("the target is closed", where=self._where)
        self._ended.set()

    def _wait_out(self) -> None:
        started = time.monotonic()
        problem, said = self._probe(), float("-inf")
        while problem:
            waited = time.monotonic() - started
            asked = stop_asked()
            if waited >= self._limit or asked or self._ended.is_set():
                over = f"the server does not answer ({problem})"
                if asked:
                    over += ", and a stop was asked for while waiting for it"
                elif self._limit:
                    over += f" and did not come back within {self._limit:g} s (target.outage_seconds)"
                self._closed = self._closed or TargetError(
                    over, where=self._where, fix="start the server, then run the same command again"
                )
                raise ClosedError(self._closed)
            if waited - said >= _LINE_SECONDS:
                said = waited
                self._say(f"{self._where}: {problem}; waiting for it, {waited:.0f} of at most {self._limit:g} s")
            self._ended.wait(min(_POLL_SECONDS, self._limit - waited))
            problem = self._probe()
        if said >= 0:
            self._say(f"{self._where}: back after {time.monotonic() - started:.0f} s")
        with self._state:
            self._suspicion = ""


def print_line(line: str) -> None:
    """One line on standard error."""
    # On a terminal a progress bar may stand in the line.
    start = "\r\033[K" if sys.stderr.isatty() else ""
    print(f"{start}{line}", file=sys.stderr, flush=True)
