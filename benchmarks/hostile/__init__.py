"""Hostile programs, one file for each kind of attack.

A program that got through writes `THROUGH`; what it leaves behind is looked for from outside. Each begins with
`PRELUDE`, and says that it began, so that a program which is merely broken cannot pass for one that was held.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass, field

from luthier.sandbox import SandboxLimits
from luthier.sandboxes.support.syscalls import (
    AARCH64,
    ALWAYS_REFUSED,
    CLONE,
    PRLIMIT64,
    REFUSED_WITHOUT_NAMESPACES,
    X86_64,
)

LIMITS = SandboxLimits(seconds=1.5, memory_bytes=128 << 20, output_bytes=1 << 16, processes=8)
BEGAN, THROUGH = "began", "THROUGH"

_COLUMN = AARCH64 if platform.machine() == "aarch64" else X86_64
_NUMBERS = {
    name: columns[_COLUMN]
    for name, columns in {
        **ALWAYS_REFUSED, **REFUSED_WITHOUT_NAMESPACES, "clone": CLONE, "prlimit64": PRLIMIT64, "pidfd_open": (434, 434)
    }.items()
}  # fmt: skip

PRELUDE = f"""
import ctypes, errno, os, signal, socket, sys, time
NUMBERS = {_NUMBERS!r}
libc = ctypes.CDLL(None, use_errno=True)
BEGAN = os.write(1, b"{BEGAN}\\n")
def through(what=""):
    os.write(1, b"{THROUGH} " + str(what).encode(errors="replace") + b"\\n")
def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def call(name, *arguments):
    if NUMBERS[name] is None:
        raise OSError(errno.ENOSYS, name)
    return checked(libc.syscall(NUMBERS[name], *[
        ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]))
def attempt(function, *arguments):
    try:
        through((function, arguments, function(*arguments)))
    except (OSError, MemoryError, OverflowError):
        return
def others():
    return sorted({{1, os.getppid()}} - {{0, os.getpid()}})
def children(count, work):
    for number in range(count):
        if os.fork() == 0:
            try:
                work(number)
            finally:
                os._exit(0)
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """Attacks of one kind.

    Attributes:
        name: What they try.
        programs: Name -> source text, without the prelude.
        limits: Bounds of each run.
    """

    name: str
    programs: dict[str, str]
    limits: SandboxLimits = field(default=LIMITS)


def all_kinds() -> tuple[Kind, ...]:
    """Every kind that is a whole program; hostile answers are in `answers`."""
    from benchmarks.hostile import first_process, folders, memory, outliving, output, reaching

    return tuple(module.KIND for module in (first_process, outliving, memory, folders, output, reaching))
