"""`Watch`: ends a process whose engine hangs, because nothing else can: a thread inside the engine cannot be stopped.

Measured once: OpenVINO GenAI 2026.4's sampler waited for ever on its own thread pool, after hours of use. Everything
finished is in the store, so the next start goes on where this one was.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

HUNG = 75
"""Exit status: a machine failed and a second try will help (EX_TEMPFAIL, as `stages.entry.TRY_AGAIN`)."""


def give_up(message: str) -> None:
    """Print the message and end the process at once; it must not wait for the thread that hangs."""
    sys.stderr.write(f"\n{message}\n")
    sys.stderr.flush()
    os._exit(HUNG)


class Watch:
    """Counts how long one piece of work lasts, in ticks of a thread of its own.

    Ticks, not a clock: a process that was stopped and goes on later has not ticked meanwhile.

    Args:
        name: What hangs, for the message.
        seconds: Patience for one piece of work.
        tick: Seconds between two looks.
        end: Called with the message when patience ends.
    """

    def __init__(
        self, name: str, *, seconds: float = 300.0, tick: float = 5.0, end: Callable[[str], None] = give_up
    ) -> None:
        self._name, self._seconds, self._tick, self._end = name, seconds, tick, end
        self._work, self._ticks = 0, 0
        self._busy = False
        self._thread: threading.Thread | None = None

    @contextmanager
    def working(self) -> Iterator[None]:
        """Around one piece of work."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, daemon=True, name=f"watch {self._name}")
            self._thread.start()
        self._work += 1
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    def _look(self) -> None:
        seen, pause = 0, threading.Event()
        while True:
            pause.wait(self._tick)
            if not self._busy or self._work != seen:
                seen, self._ticks = self._work, 0
                continue
            self._ticks += 1
            if self._ticks * self._tick >= self._seconds:
                self._end(
                    f"{self._name}: one step of the engine has lasted {self._seconds:g} seconds, it hangs."
                    " Fix: run the same command again; what was finished is kept and paid"
                )
                return
