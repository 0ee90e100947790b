"""The system call filter: a small classic BPF program, built here, loaded by bwrap or by our own start code."""

from __future__ import annotations

import errno
import platform
import struct

from luthier.errors import SandboxError
from luthier.sandboxes.support.syscalls import (
    AARCH64,
    ALWAYS_REFUSED,
    CLONE,
    CLONE3,
    PRLIMIT64,
    REFUSED_WITHOUT_NAMESPACES,
    SOCKET,
    X86_64,
)

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_KILL, _REFUSE, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_X32_BIT = 0x40000000
_REFUSED_CLONE_FLAGS = 0x7E028000  # CLONE_NEW{CGROUP,UTS,IPC,USER,PID,NET}, CLONE_NEWNS, CLONE_PARENT
_UNIX = 1
_ARCHITECTURES = {"x86_64": (X86_64, 0xC000003E), "aarch64": (AARCH64, 0xC00000B7)}


def filter_program(*, namespaces: bool, machine: str = "") -> bytes:
    """The filter as an array of `struct sock_filter`, ready for `bwrap --seccomp` or `prctl`.

    Refused calls fail with EPERM, so that a program sees an ordinary error. `clone` is refused only with
    flags that make namespaces or a sibling instead of a child; `clone3` hides its flags in memory, so it
    fails with ENOSYS and the C library falls back to `clone`. `prlimit64` is allowed on oneself alone.
    Another architecture's calls, and x32 ones, kill the process.

    Args:
        namespaces: Whether namespaces already isolate network, processes and files. If not, sockets,
            `execve` and what Landlock does not guard are refused too. If so, sockets are still limited to
            the Unix family: a network namespace does not confine all others (vsock), and Internet
            sockets hold megabytes that no limit counts.
        machine: Architecture as `uname -m` names it; this machine's when "".

    Raises:
        SandboxError: the architecture is neither x86_64 nor aarch64.
    """
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        raise SandboxError(
            f"no system call filter is known for the architecture {machine!r}",
            where="sandbox",
            fix="run on x86_64 or aarch64",
        )
    column, audit = _ARCHITECTURES[machine]
    refused = dict(ALWAYS_REFUSED) if namespaces else {**ALWAYS_REFUSED, **REFUSED_WITHOUT_NAMESPACES}
    program = _check_architecture(audit, x32=machine == "x86_64")
    for name in sorted(refused):
        number = refused[name][column]
        if number is not None:
            program += _refuse(number, errno.EPERM)
    program += _refuse(CLONE3[column], errno.ENOSYS)
    program += _refuse_clone_flags(CLONE[column])
    program += _only_own_limits(PRLIMIT64[column])
    program += _only_unix(SOCKET[column]) if namespaces else _refuse(SOCKET[column], errno.EPERM)
    return program + _instruction(_RETURN, _ALLOW)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _check_architecture(audit: int, *, x32: bool) -> bytes:
    kill = _instruction(_RETURN, _KILL)
    program = _instruction(_LOAD, _ARCHITECTURE_AT) + _instruction(_EQUAL, audit, 1, 0) + kill
    program += _instruction(_LOAD, _NUMBER_AT)
    return program + _instruction(_AT_LEAST, _X32_BIT, 0, 1) + kill if x32 else program


def _refuse(number: int, error: int) -> bytes:
    return _instruction(_EQUAL, number, 0, 1) + _instruction(_RETURN, _REFUSE | error)


def _refuse_clone_flags(number: int) -> bytes:
    return (
        _instruction(_EQUAL, number, 0, 4)
        + _instruction(_LOAD, _FIRST_ARGUMENT_AT)
        + _instruction(_ANY_BIT, _REFUSED_CLONE_FLAGS, 0, 1)
        + _instruction(_RETURN, _REFUSE | errno.EPERM)
        + _instruction(_RETURN, _ALLOW)
    )


def _only_unix(number: int) -> bytes:
    return (
        _instruction(_EQUAL, number, 0, 4)
        + _instruction(_LOAD, _FIRST_ARGUMENT_AT)
        + _instruction(_EQUAL, _UNIX, 1, 0)
        + _instruction(_RETURN, _REFUSE | errno.EAFNOSUPPORT)
        + _instruction(_RETURN, _ALLOW)
    )


def _only_own_limits(number: int) -> bytes:
    return (
        _instruction(_EQUAL, number, 0, 4)
        + _instruction(_LOAD, _FIRST_ARGUMENT_AT)
        + _instruction(_EQUAL, 0, 1, 0)
        + _instruction(_RETURN, _REFUSE | errno.EPERM)
        + _instruction(_RETURN, _ALLOW)
    )
