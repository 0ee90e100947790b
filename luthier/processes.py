"""Child processes that never outlive their parent's interest: streamed output, and a group that ends as one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

# Between the polite and the firm signal: a stage finishes its batch. Twice this stays under Prefect's 30 s.
GRACE_SECONDS = 8.0


def run_streamed(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    say: Callable[[str], None],
    started: Callable[[int], None] = lambda pid: None,
    grace_seconds: float = GRACE_SECONDS,
    keep_open: Sequence[int] = (),
) -> int:
    """Run a command as its own process group, line by line, and end the whole group on any interruption.

    A first Ctrl-C asks the group for a clean stop and waits for it as long as that takes; the handler of before is
    called afterwards. Any other interruption (a second one, Prefect's cancellation) leaves it `grace_seconds`.

    Args:
        command: Program and arguments.
        cwd: Working folder.
        environment: The child's whole environment.
        say: Receives each line of output and errors, without its newline.
        started: Receives the process id, which is also the group's id.
        grace_seconds: Seconds between the polite and the firm signal on an interruption.
        keep_open: File descriptors that the child inherits, such as a lock that it must hold.

    Returns:
        The exit code; negative is the signal that ended it.
    """
    process = subprocess.Popen(
        list(command),
        cwd=cwd,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        start_new_session=True,
        pass_fds=tuple(keep_open),
    )
    assert process.stdout is not None
    try:
        started(process.pid)
        with _passing_on(process.pid):
            for line in process.stdout:
                say(line.rstrip("\n"))
            _has_ended(process.pid, None)
    finally:
        if not _has_ended(process.pid, 0.0):
            _ask_to_end(process.pid, grace_seconds)
        # The leader is not yet reaped, so its id cannot have passed to somebody else's group.
        end_group(process.pid)
        code = process.wait()
        process.stdout.close()
    return code


@contextmanager
def _passing_on(group: int) -> Iterator[None]:
    """Pass the first Ctrl-C on to a process group, and tell the handler of before when the group has ended."""
    asked: list[FrameType | None] = []

    def pass_on(_number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(frame)
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGINT)

    try:
        before = signal.signal(signal.SIGINT, pass_on)
    except ValueError:  # not the main thread, which alone hears signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked and callable(before):
        before(signal.SIGINT, asked[0])


def end_group(group: int) -> None:
    """Kill what is left of a process group; nothing happens when it is empty."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _ask_to_end(group: int, grace_seconds: float) -> None:
    for polite in (signal.SIGINT, signal.SIGTERM):
        with suppress(ProcessLookupError):
            os.killpg(group, polite)
        if _has_ended(group, grace_seconds):
            return


def _has_ended(pid: int, seconds: float | None) -> bool:
    """Whether a child ends within some seconds (None: wait for it), leaving it to be reaped later."""
    options = os.WEXITED | os.WNOWAIT
    if seconds is None:
        return os.waitid(os.P_PID, pid, options) is not None
    deadline = time.monotonic() + seconds
    while os.waitid(os.P_PID, pid, options | os.WNOHANG) is None:
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return True
