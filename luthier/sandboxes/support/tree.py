"""The processes of one run, seen and ended from outside the fence."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
import warnings
from typing import Protocol

_END_SECONDS = 30.0
_LOOK_SECONDS = 0.01


class Tree(Protocol):
    """All processes of one run."""

    def members(self) -> list[int]:
        """Process ids, ours of numbering; empty before the fence stands."""
        ...

    def end(self) -> None:
        """Kill all of them and wait until they are gone; nothing is raised."""
        ...


class NamespaceTree:
    """The processes of a process namespace: when its first process dies, the kernel kills all others.

    The first process is held by a file descriptor of its own. So it ends even where it no longer listens to
    its parent's death, and the descriptor tells when the last process of the namespace is gone.

    Args:
        leader: The process that we started (bwrap, outside the namespace), leader of its group.
    """

    def __init__(self, leader: subprocess.Popen[bytes]) -> None:
        self._leader = leader
        self._first = self._handle = -1

    def hold(self, first: int) -> None:
        """Name the first process, by its id outside the namespace, while it waits to be let go."""
        self._handle = os.pidfd_open(first)
        self._first = first

    def members(self) -> list[int]:
        """See `Tree.members`."""
        return descendants(self._first) if self._first > 0 else []

    def end(self) -> None:
        """See `Tree.end`."""
        if self._handle >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # bwrap reaps it, then ends
                self._leader.wait(_END_SECONDS)
        _end_group(self._leader)
        if self._handle >= 0:
            poll = select.poll()
            poll.register(self._handle, select.POLLIN)
            if not poll.poll(1000 * _END_SECONDS):
                _warn(self._first)
            os.close(self._handle)


class GroupTree:
    """The processes of a group that none of them can leave, under a first process that none can signal.

    Args:
        leader: The first process, which reaps what the others leave and ends after them.
    """

    def __init__(self, leader: subprocess.Popen[bytes]) -> None:
        self._leader = leader
        self._group = 0

    def hold(self, group: int) -> None:
        """Name the group, once it exists."""
        self._group = group

    def members(self) -> list[int]:
        """See `Tree.members`."""
        return descendants(self._leader.pid) if self._group else []

    def end(self) -> None:
        """See `Tree.end`."""
        # As long as the first process lives, or died by a signal, it has not reaped the group's leader.
        if self._group and not _ended_by_itself(self._leader.pid):
            members = self.members()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._group, signal.SIGKILL)
            try:
                self._leader.wait(_END_SECONDS)  # it reaps the others, then ends
            except subprocess.TimeoutExpired:
                _end_group(self._leader)
                _wait_until_dead(members)
        _end_group(self._leader)


def descendants(first: int) -> list[int]:
    """A process and everything below it now; what starts meanwhile may be missed."""
    found, unseen = [], [first]
    while unseen:
        pid = unseen.pop()
        found.append(pid)
        with contextlib.suppress(OSError):  # it ended between the two looks
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                    unseen += map(int, file.read().split())
    return found


def _ended_by_itself(pid: int) -> bool:
    """Whether a child of ours has exited, other than by a signal; it is not reaped."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    return ended is not None and ended.si_code == os.CLD_EXITED


def _end_group(leader: subprocess.Popen[bytes]) -> None:
    """Kill a group while its leader still holds the number, then reap the leader."""
    if leader.returncode is None:
        os.killpg(leader.pid, signal.SIGKILL)
        leader.wait()


def _wait_until_dead(pids: list[int]) -> None:
    deadline = time.monotonic() + _END_SECONDS
    while living := [pid for pid in pids if _lives(pid)]:
        if time.monotonic() > deadline:
            _warn(living[0])
            return
        time.sleep(_LOOK_SECONDS)


def _lives(pid: int) -> bool:
    """Whether a process is there and not just waiting to be reaped."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _warn(pid: int) -> None:
    warnings.warn(
        f"process {pid} of a fenced program has been killed but does not end (it waits within the kernel)",
        RuntimeWarning,
        stacklevel=4,
    )
