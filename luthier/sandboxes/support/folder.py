"""A working folder on disk that goes away whatever a program has left in it."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import stat
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from luthier.process_owner import is_alive, owner_of

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNER_ALL = 0o700
_PREFIX = "luthier-sandbox-"
_NAME = re.compile(rf"{_PREFIX}(\d+)-(\d+)-")
"""Process id and start time of the process that made it."""


@contextlib.contextmanager
def working_folder(user: int) -> Iterator[str]:
    """A new folder, removed at the end; what cannot be removed is a warning, never an error.

    The first one of a process removes those that killed processes of the same user left behind.

    Args:
        user: Who is to own it.
    """
    _sweep(tempfile.gettempdir())
    _, pid, started = owner_of(os.getpid()).rsplit(":", 2)
    path = tempfile.mkdtemp(prefix=f"{_PREFIX}{pid}-{started}-")
    # Its group tells whose it is when its owner has become the user of the run.
    os.chown(path, user, os.getegid())
    try:
        yield path
    finally:
        try:
            remove_folder(path)
        except OSError as error:
            warnings.warn(f"cannot remove {path} ({error.strerror or error})", RuntimeWarning, stacklevel=3)


@functools.cache
def _sweep(place: str) -> None:
    """Remove the folders of dead processes, once in a process; what cannot be removed stays."""
    here = owner_of(os.getpid()).rsplit(":", 2)[0]
    for path in Path(place).glob(f"{_PREFIX}*"):
        maker = _NAME.match(path.name)
        if maker is None or is_alive(f"{here}:{maker[1]}:{maker[2]}"):
            continue
        with contextlib.suppress(OSError):
            found = path.lstat()  # a link, or what is somebody else's, is left alone
            if stat.S_ISDIR(found.st_mode) and os.getegid() == found.st_gid:
                remove_folder(str(path))


def remove_folder(path: str) -> None:
    """Remove a folder in which nobody writes any more, however deep, and whatever its parts' modes.

    One folder is open at a time and each step goes one level down or up, so neither the depth of the calls
    nor the length of a path nor the number of open files grows with the nesting.

    Args:
        path: A folder of ours. Symbolic links in it are removed, not followed.

    Raises:
        OSError: a part cannot be removed.
    """
    os.chmod(path, _OWNER_ALL)
    here = os.open(path, _OPEN)
    names: list[bytes] = []  # from the top to here
    try:
        left = [_without_files(here)]
        while left[-1] or names:
            if left[-1]:
                names.append(left[-1].pop())
                here = _moved(here, names[-1])
                left.append(_without_files(here))
            else:
                here = _moved(here, b"..")
                left.pop()
                os.rmdir(names.pop(), dir_fd=here)
    finally:
        os.close(here)
    os.rmdir(path)


def _moved(here: int, name: bytes) -> int:
    there = os.open(name, _OPEN, dir_fd=here)
    os.close(here)
    return there


def _without_files(folder: int) -> list[bytes]:
    """Remove what is no folder; make the folders accessible and name them."""
    inner = []
    for name in map(os.fsencode, os.listdir(folder)):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.chmod(name, _OWNER_ALL, dir_fd=folder)
            inner.append(name)
        else:
            os.unlink(name, dir_fd=folder)
    return inner
