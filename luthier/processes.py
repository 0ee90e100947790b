"""Child processes that never outlive their parent's interest: streamed output, and descendants that end together.

A child carries the name of its launch in its environment, and so does all that it starts, also in process groups of
their own and after those in between have died. So every descendant is found and ended (Linux: /proc).
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from uuid import uuid4

# Between one signal and the next: a stage finishes its batch. Twice this stays under Prefect's 30 s.
GRACE_SECONDS = 8.0
# What a killed process may need until it is gone.
_KILL_SECONDS = 5.0

STARTED_BY = "LUTHIER_STARTED_BY"
"""Environment variable: names of the launches that a process descends from, the outermost first."""


def run_streamed(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    say: Callable[[str], None],
    name: str = "",
    started: Callable[[int], None] = lambda pid: None,
    grace_seconds: float = GRACE_SECONDS,
    keep_open: Sequence[int] = (),
) -> int:
    """Run a command as its own process group, line by line, and end all its descendants on any interruption.

    A first Ctrl-C asks the group for a clean stop and waits for it as long as that takes; the handler of before is
    called afterwards. Any other interruption (a second one, Prefect's cancellation) leaves it `grace_seconds`.

    Args:
        command: Program and arguments.
        cwd: Working folder.
        environment: The child's whole environment; the name of this launch is added.
        say: Receives each line of output and errors, without its newline.
        name: Name of this launch for `end_all`, without spaces; a unique one if not given.
        started: Receives the process id, which is also the group's id.
        grace_seconds: Seconds between one signal and the next on an interruption.
        keep_open: File descriptors that the child inherits, such as a lock that it must hold.

    Returns:
        The exit code; negative is the signal that ended it.
    """
    name = name or uuid4().hex
    process = subprocess.Popen(
        list(command),
        cwd=cwd,
        env={**environment, STARTED_BY: " ".join([*ancestors(environment), name])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        start_new_session=True,
        pass_fds=tuple(keep_open),
        preexec_fn=_hear_interrupts if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else None,
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
            _ask_to_end(process.pid, name, grace_seconds)
        # The leader is not yet reaped, so its id cannot have passed to somebody else's group.
        end_group(process.pid)
        end_all(name)
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


def ancestors(environment: Mapping[str, str]) -> list[str]:
    """Names of the launches that a process with this environment descends from, the outermost first."""
    return environment.get(STARTED_BY, "").split()


def descendants(name: str) -> list[int]:
    """Ids of the living processes that descend from a launch, in the order of /proc."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and name in _launches(entry)]


def end_all(name: str, patience_seconds: float = _KILL_SECONDS) -> None:
    """Kill every descendant of a launch and wait until they are gone; nothing happens when there is none."""
    deadline = time.monotonic() + patience_seconds
    while (found := descendants(name)) and time.monotonic() < deadline:
        _signal(found, signal.SIGKILL)
        time.sleep(0.05)


def end_group(group: int) -> None:
    """Kill what is left of a process group; nothing happens when it is empty."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _ask_to_end(group: int, name: str, grace_seconds: float) -> None:
    """The group is asked first and passes it on; then everybody is."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGINT)
    if not _are_gone(name, grace_seconds):
        _signal(descendants(name), signal.SIGTERM)
        _are_gone(name, grace_seconds)


def _are_gone(name: str, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while descendants(name):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.1)
    return True


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _launches(process: Path) -> list[str]:
    """The launches in the environment of an entry of /proc; none when it is gone or somebody else's."""
    try:
        variables = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []
    found = dict(item.decode(errors="replace").partition("=")[::2] for item in variables)
    return ancestors(found)


def _hear_interrupts() -> None:
    """A shell starts what runs in its background deaf to Ctrl-C; a stage must hear it to stop cleanly."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


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
