"""What the processes of one run use in sum, looked at from outside while they run.

The kernel's own limits (`setrlimit`) hold for each process. Their sum is looked at many times a second,
which needs no privilege, unlike a control group; between two looks a program can go past a bound.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable

FOLDER_BYTES = 64 << 20
FOLDER_ENTRIES = 4096
"""What the working folder may hold (ours)."""

_PAGE = os.sysconf("SC_PAGE_SIZE")

FolderCheck = Callable[[list[int]], bool]
"""Whether the working folder holds more than it may, given the run's processes."""


def memory_of(pids: Iterable[int], enough: int) -> int:
    """Resident bytes of some processes together; pages that they share count once if it matters.

    Args:
        pids: The processes.
        enough: Below this sum of resident sizes, that sum (which counts shared pages each time) is returned.
    """
    resident = {pid: _resident(pid) for pid in pids}
    total = sum(resident.values())
    return total if total <= enough else sum(_proportional(pid, size) for pid, size in resident.items())


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb", 0) as file:
            return int(file.read().split()[1]) * _PAGE
    except OSError:  # it ended
        return 0


def _proportional(pid: int, otherwise: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) << 10
    except PermissionError:  # it made itself unreadable
        return otherwise
    except OSError:
        return 0
    return otherwise


def mount_is_full(pids: list[int], path: str) -> bool:
    """Whether a file system of the run's own holds too many entries; its bytes are bounded by its size.

    Args:
        pids: The run's processes, its first process first.
        path: Where the file system is mounted, as the run sees it.
    """
    try:
        seen = os.statvfs(f"/proc/{pids[0]}/root{path}")
    except PermissionError:  # nobody could count what lies there
        return True
    except OSError:  # it ended
        return False
    return seen.f_files - seen.f_ffree > FOLDER_ENTRIES


def folder_is_full(pids: list[int], path: str) -> bool:
    """Whether a folder, with the deleted files that processes hold open, is past its bounds."""
    found: dict[int, int] = {}
    unseen, entries = [os.fsencode(path)], 0
    while unseen:
        try:
            with os.scandir(unseen.pop()) as folder:
                for entry in folder:
                    entries += 1
                    if entries > FOLDER_ENTRIES:
                        return True
                    status = entry.stat(follow_symlinks=False)
                    found[status.st_ino] = status.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        unseen.append(entry.path)
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.EACCES):  # nobody could count what lies there
                return True
    for pid in pids:
        found.update(_deleted_files(pid))
    return sum(found.values()) > FOLDER_BYTES


def _deleted_files(pid: int) -> dict[int, int]:
    found: dict[int, int] = {}
    with contextlib.suppress(OSError):  # it ended, or made itself unreadable
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                status = os.stat(f"/proc/{pid}/fd/{number}")
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                    found[status.st_ino] = status.st_blocks * 512
    return found
