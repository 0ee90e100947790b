"""The first code that runs inside a fence: it sets the limits, closes the fence, then runs the program.

It is started as `python -I -S -c <this text> <settings>`, never imported by Luthier, and knows the
standard library alone. Behind bubblewrap the fence already stands; behind Landlock this code closes it.
"""

from __future__ import annotations

import os
import resource
import sys
import traceback
import types

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_FILE, _WRITE_FILE, _READ_DIR = 1 << 2, 1 << 1, 1 << 3
_EXECUTE, _MAKE_CHARACTER_DEVICE, _MAKE_BLOCK_DEVICE = 1 << 0, 1 << 6, 1 << 11
_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER_MODE = 38, 22, 2


def main() -> None:
    """Settings: status fd, filter fd (-1: none), memory, cpu, file size, processes, files, readable paths.

    Files are "fd=name" joined by "/"; the first is the program.
    """
    status, seccomp, memory, cpu, file_bytes, processes = map(int, sys.argv[1:7])
    files = [entry.split("=", 1) for entry in sys.argv[7].split("/")]
    readable = sys.argv[8:]
    for descriptor, name in files:
        _lay_down(int(descriptor), name)
    if readable:
        _close_landlock(readable, os.getcwd())
    _set_limits(memory, cpu, file_bytes, processes)
    if seccomp >= 0:
        _load_filter(seccomp)
    program = os.path.join(os.getcwd(), files[0][1])
    with open(program, encoding="utf-8", errors="surrogatepass") as file:
        source = file.read()
    os.write(status, b"1")
    os.close(status)
    _run(source, program)


def _lay_down(source: int, name: str) -> None:
    """Copy in the kernel alone: what passes through a process's memory can be found there later."""
    target = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    left = os.fstat(source).st_size
    while left:
        left -= os.sendfile(target, source, None, left)
    os.close(target)
    os.close(source)


def _set_limits(memory: int, cpu: int, file_bytes: int, processes: int) -> None:
    for kind, soft, hard in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_FSIZE, file_bytes, file_bytes),
        (resource.RLIMIT_NOFILE, 64, 64),
        (resource.RLIMIT_NPROC, processes, processes),
        (resource.RLIMIT_CPU, cpu, cpu + 1),
        (resource.RLIMIT_AS, memory, memory),
    ):
        resource.setrlimit(kind, (soft, hard))


def _run(source: str, path: str) -> None:
    module = types.ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    sys.argv = [path]
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except Exception as error:
        frames = error.__traceback__.tb_next if error.__traceback__ else None
        traceback.print_exception(type(error), error, frames)
        sys.exit(1)


def _close_landlock(readable: list[str], writable: str) -> None:
    import ctypes

    call = ctypes.CDLL(None, use_errno=True).syscall

    def checked(*arguments: object) -> int:
        result: int = call(*arguments)
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"Landlock is not usable: {os.strerror(number)}")
        return result

    version = checked(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    rights = (1 << 13) - 1
    rights |= (1 << 13 if version >= 2 else 0) | (1 << 14 if version >= 3 else 0) | (1 << 15 if version >= 5 else 0)
    handled = (ctypes.c_uint64 * 3)(rights, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = checked(_CREATE_RULESET, ctypes.byref(handled), ctypes.c_size_t(size), 0)

    def allow(path: str, access: int) -> None:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = (access & rights).to_bytes(8, sys.byteorder) + folder.to_bytes(4, sys.byteorder)
        checked(_ADD_RULE, ruleset, 1, rule, 0)
        os.close(folder)

    for path in readable:
        allow(path, _READ_FILE | _READ_DIR)
    allow("/dev/null", _READ_FILE | _WRITE_FILE)
    allow(writable, rights & ~(_EXECUTE | _MAKE_CHARACTER_DEVICE | _MAKE_BLOCK_DEVICE))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs was refused")
    checked(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _load_filter(descriptor: int) -> None:
    import ctypes

    class FilterProgram(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]

    with os.fdopen(descriptor, "rb") as file:
        instructions = file.read()
    program = FilterProgram(len(instructions) // 8, instructions)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_SET_SECCOMP, _FILTER_MODE, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the system call filter was refused")


if __name__ == "__main__":
    main()
