"""Which Python runs behind a fence, and as whom."""

from __future__ import annotations

import itertools
import os
import stat
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from luthier.errors import SandboxError

NOBODY = 65534
START_CODE = Path(__file__).with_name("inside.py").read_text(encoding="utf-8")
_SYSTEM = Path("/usr/bin/python3")
_OWN_USER_BASE = 1 << 30
_runs = itertools.count()


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A CPython installation.

    Attributes:
        prefix: Its root folder. executable: The binary, below `prefix`.
        shared_library: Whether the binary needs `prefix/lib` on the library path once the prefix is moved.
    """

    prefix: Path
    executable: Path
    shared_library: bool


def own_interpreter() -> Interpreter:
    """The installation under this process's virtual environment."""
    prefix = Path(sys.base_prefix).resolve()
    executable = prefix / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    return Interpreter(
        prefix, executable, bool(sysconfig.get_config_var("Py_ENABLE_SHARED")) and prefix != Path("/usr")
    )


def interpreter_for_everybody() -> Interpreter:
    """Our own installation if every user may reach it, else the system's.

    Raises:
        SandboxError: neither can be reached by an unprivileged user.
    """
    own = own_interpreter()
    if _open_to_all(own.executable):
        return own
    if _open_to_all(_SYSTEM):
        return Interpreter(Path("/usr"), _SYSTEM.resolve(), False)
    raise SandboxError(
        f"an unprivileged user cannot read {own.prefix}, and there is no {_SYSTEM}",
        where="sandbox",
        fix="install Python where every user may read it (or bubblewrap), or work as an ordinary user",
    )


def user_of_one_run() -> int:
    """A user id that nobody else has, so that a run's processes are counted and signalled apart.

    Falls back to nobody (65534) where this process may not use high ids (a user namespace of a
    container); runs at the same time then share their process limit.
    """
    user = _OWN_USER_BASE | (os.getpid() & 0x3FFFFF) << 8 | next(_runs) & 0xFF
    for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines():
        first, _, length = map(int, line.split())
        if first <= user < first + length:
            return user
    return NOBODY


def process_count(user: int) -> int:
    """Processes and threads of a user now, as RLIMIT_NPROC counts them."""
    total = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == user:
                    total += len(os.listdir(f"/proc/{entry.name}/task"))
            except OSError:  # it ended between the two looks
                continue
    return total


def _open_to_all(path: Path) -> bool:
    try:
        real = path.resolve(strict=True)
        return all(folder.stat().st_mode & stat.S_IXOTH for folder in (real, *real.parents))
    except OSError:
        return False
