"""A working folder on disk that goes away whatever a program has left in it."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import warnings
from collections.abc import Iterator

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNER_ALL = 0o700


@contextlib.contextmanager
def working_folder() -> Iterator[str]:
    """A new folder, removed at the end; what cannot be removed is a warning, never an error."""
    path = tempfile.mkdtemp(prefix="luthier-sandbox-")
    try:
        yield path
    finally:
        try:
            remove_folder(path)
        except OSError as error:
            warnings.warn(f"cannot remove {path} ({error.strerror or error})", RuntimeWarning, stacklevel=3)


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
