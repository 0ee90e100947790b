"""A clean stop on request: Ctrl-C, SIGTERM or a stop file, obeyed between waves and steps, so that nothing is lost.

Under DVC the request holds for the whole `dvc repro`: a stop file that was touched after DVC began stops the stage
that runs and every one that DVC starts afterwards.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

from luthier.errors import StoreError
from luthier.process_owner import is_alive, owner_of

STOP_FILE = Path(".cache/stop")
STOPPED: Final = 3
"""Exit status of a command that was asked to stop: not a success, so that DVC does not take a stage as built."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_Handler = Callable[[int, FrameType | None], object] | int | None
_BEFORE: dict[int, _Handler] = {}
_IN_USE: list[StopSignal] = []


class StopRequested(BaseException):
    """The user asked for a clean stop: everything finished is stored, the next start continues.

    Not an `Exception`, for the same reason as `BudgetExhausted`. A stage says so and exits with `STOPPED`.
    """


class StopSignal:
    """Ctrl-C, SIGTERM or a stop file. Use as a context manager around a whole stage, and `check` between its steps.

    The first signal asks for a clean stop, the second one interrupts at once. A stop file counts when it is newer
    than this object (under DVC: than the `dvc` process), so every running process obeys it and the next start is not
    held up by it. Under DVC a stage also stops when `dvc` has been killed.

    Args:
        path: The stop file, `touch .cache/stop` by default.
    """

    def __init__(self, path: Path = STOP_FILE) -> None:
        self.path = path
        self._dvc = _dvc() if "DVC_STAGE" in os.environ else None
        self._since = self._stamp() if self._dvc is None else self._dvc[1]
        self._asked = False
        self._previous: dict[int, _Handler] = {}

    def __enter__(self) -> StopSignal:
        # Only the main thread may set handlers; elsewhere (a Prefect worker) the stop file still works.
        try:
            self._previous = {number: signal.signal(number, self._ask) for number in _SIGNALS}
        except ValueError:
            self._previous = {}
        _IN_USE.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _IN_USE.remove(self)
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def requested(self) -> bool:
        """Whether to stop now."""
        orphaned = self._dvc is not None and not is_alive(self._dvc[0])
        return self._asked or orphaned or self._stamp() > self._since

    def check(self) -> None:
        """Stop when asked to.

        Raises:
            StopRequested: by a signal or the stop file.
        """
        if self.requested():
            raise StopRequested("stopped on request")

    def pass_on(self) -> bool:
        """Leave a request that came too late for this stage to the ones that DVC starts after it.

        Returns:
            Whether DVC is there to start some.
        """
        if self._asked and self._dvc is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
        return self._dvc is not None

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        # Not `print`: a handler may run in the middle of another write to the same stream.
        os.write(2, b"\nstopping after this wave; press Ctrl-C again to stop at once\n")

    def _stamp(self) -> int:
        try:
            return self.path.stat().st_mtime_ns
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise StoreError(f"cannot look for the stop file ({error})", where=str(self.path)) from error


def stop_asked() -> bool:
    """Whether the command that runs in this process was asked to stop: for waits that have no step in which to ask."""
    return any(stop.requested() for stop in tuple(_IN_USE))


def end_while_starting() -> None:
    """Until a `StopSignal` takes over, a signal ends this process with one line: nothing has begun, nothing is lost.

    For the first lines of a command whose imports take seconds.
    """
    for number in _SIGNALS:
        _BEFORE[number] = signal.signal(number, _end)


def started() -> None:
    """Undo `end_while_starting`, for a command that has begun and uses no `StopSignal`."""
    while _BEFORE:
        signal.signal(*_BEFORE.popitem())


def _end(_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"\nstopped on request before the work began; run again to start it\n")
    # No exception: libraries catch it in the middle of their own imports.
    os._exit(STOPPED)


def _dvc() -> tuple[str, int] | None:
    """The `dvc` process above this one, the first ancestor outside of a stage: name and start (ns since the epoch)."""
    pid = os.getppid()
    while pid > 1:
        try:
            inside = b"DVC_STAGE=" in Path(f"/proc/{pid}/environ").read_bytes()
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            up = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
        except OSError:
            return None
        if not inside:
            age = up - int(fields[19]) / os.sysconf("SC_CLK_TCK")
            return owner_of(pid), time.time_ns() - int(age * 1e9)
        pid = int(fields[1])
    return None
