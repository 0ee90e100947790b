"""`ends_when_hung`: ends a process whose engine hangs, because nothing else can.

Measured once: the sampler of OpenVINO GenAI 2026.4 waited for ever on its own thread pool, after hours of use. The
engine holds the interpreter's lock meanwhile, so no Python thread and no signal handler gets a turn; faulthandler's
thread needs none. Everything finished is in the store, so the next start goes on where this one was.
"""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_SECONDS = 600.0


@contextmanager
def ends_when_hung(seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Around one piece of an engine's work: after so long the process prints where it hangs and exits with 1."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__ or 2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
