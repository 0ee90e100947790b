"""Files that are either whole or absent: atomic writes, digests, JSON Lines; and a lock between processes."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from luthier.errors import StoreError
from luthier.reading import HALF_CHARACTER, parse_object, read_text, shaped

RowT = TypeVar("RowT")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader sees the old or the new content, never a part.

    Raises:
        StoreError: the disk is full or the folder is not writable; the old file is untouched.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
        raise StoreError(
            f"cannot write the file ({error.strerror or error})",
            where=str(path),
            fix="free disk space or correct the folder's rights, then run again; finished work is kept",
        ) from error


def to_json(value: Any, *, indent: int | None = None, compact: bool = False) -> str:
    """JSON text that UTF-8 can hold: characters as they are, but half characters (lone surrogates) escaped."""
    separators = (",", ":") if compact else None
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return HALF_CHARACTER.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def write_json(path: Path, value: Any) -> None:
    """Write one JSON document, indented, keys in the order given."""
    write_atomically(path, to_json(value, indent=2) + "\n")


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write JSON Lines, atomically."""
    write_atomically(path, "".join(to_json(row) + "\n" for row in rows))


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON Lines file.

    Raises:
        InputError: missing file, or a line that is not a JSON object (file and line are named).
    """
    yield from read_rows_as(path, lambda row: row)


def read_rows_as(
    path: Path, make: Callable[[dict[str, Any]], RowT], *, fix: str = "run the stage that writes it"
) -> Iterator[RowT]:
    """Yield what is made of each object of a JSON Lines file.

    Args:
        path: The file.
        make: Takes a row apart; a field that is missing or has another type may raise what it wants.
        fix: What to do about a broken file.

    Raises:
        InputError: missing file, or a line that is not such a row (file and line are named).
    """
    # Not splitlines: JSON leaves U+2028 and its like unescaped, and they would cut a row in two.
    for number, line in enumerate(read_text(path, fix=fix).split("\n"), start=1):
        if line.strip():
            where = f"{path}:{number}"
            with shaped("not a row of this version", where=where, fix=fix):
                row = make(parse_object(line, where=where, fix="restore the file"))
            yield row


def digest_text(text: str) -> str:
    """SHA-256 of a text, 64 hex digits; of any text, also of one with half characters."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def digest_file(path: Path) -> str:
    """SHA-256 of a file's bytes, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def md5_file(path: Path) -> str:
    """MD5 of a file's bytes, 32 hex digits: DVC's name for its content, no protection against forgery."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def digest_folder(path: Path) -> str:
    """SHA-256 over the sorted relative names and digests of a folder's files."""
    lines = [f"{digest_file(p)}  {p.relative_to(path).as_posix()}" for p in sorted(path.rglob("*")) if p.is_file()]
    return digest_text("\n".join(lines))


@contextmanager
def locked(path: Path, waiting: Callable[[str], None] = lambda holder: None) -> Iterator[int]:
    """Hold an exclusive lock on a file; the operating system drops it when its last holder ends.

    Args:
        path: The lock file, made with its folder if absent. It holds the process id of the holder.
        waiting: Called once with the holder's process id if the lock is taken, before waiting for it.

    Yields:
        The lock's file descriptor; a child process that inherits it keeps the lock while it lives.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting(path.read_text().strip())
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield file.fileno()
