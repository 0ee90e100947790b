"""The first code that runs inside a fence: it sets the limits, closes the fence, then runs the program.

It is started as `python -I -S -c <this text> <settings>`, never imported by Luthier, and knows the
standard library alone. Behind bubblewrap the fence already stands; behind Landlock this code closes it.

The program runs in a child. The first process, held to the same limits, makes itself unreadable, waits for
the program and reaps what it leaves: behind bubblewrap it is process 1, behind Landlock it stays outside
the program's fence.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import traceback
import types

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_FILE, _WRITE_FILE, _READ_DIR = 1 << 2, 1 << 1, 1 << 3
_EXECUTE, _MAKE_CHARACTER_DEVICE, _MAKE_BLOCK_DEVICE = 1 << 0, 1 << 6, 1 << 11
_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER_MODE = 38, 22, 2
_SET_DUMPABLE, _SET_CHILD_SUBREAPER = 4, 36
_REAP_MILLISECONDS = 50
_OPEN_FILES, _EVERY_DESCRIPTOR = 64, 1 << 16


def main() -> None:
    """Settings: status fd, life fd, filter fd (-1: none), memory, cpu, file size, processes, files, readable paths.

    Files are "fd=name" joined by "/"; the first is the program.
    """
    status, life, seccomp, memory, cpu, file_bytes, processes = map(int, sys.argv[1:8])
    files = [entry.split("=", 1) for entry in sys.argv[8].split("/")]
    readable = sys.argv[9:]
    for descriptor, name in files:
        _lay_down(int(descriptor), name)
    _set_limits(memory, cpu, file_bytes, processes)
    _process_control(_SET_DUMPABLE, 0)
    program = os.fork()
    if program:
        _wait_for(program, life, namespace=not readable)
    if readable:
        _process_control(_SET_DUMPABLE, 1)  # what a run uses in sum is read from outside
        os.setpgid(0, 0)
        _close_landlock(readable, os.getcwd())
    if seccomp >= 0:
        _load_filter(seccomp)
    path = os.path.join(os.getcwd(), files[0][1])
    with open(path, encoding="utf-8", errors="surrogatepass") as file:
        source = file.read()
    os.write(status, b"%d" % os.getpid())
    os.closerange(3, _EVERY_DESCRIPTOR)
    _run(source, path)


def _wait_for(program: int, life: int, *, namespace: bool) -> None:
    """The first process: it exits as the program does, after everything that the program left.

    Should the process that asked for the run die, its end of the life pipe closes, and the run ends. A
    parent-death signal would not do: between us and bwrap stand processes that may not signal each other.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(life, 3)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.closerange(4, _EVERY_DESCRIPTOR)
    if not namespace:
        _process_control(_SET_CHILD_SUBREAPER, 1)
    events = select.poll()
    events.register(3, select.POLLHUP)
    events.register(os.pidfd_open(program), select.POLLIN)
    while not events.poll(_REAP_MILLISECONDS):
        _reap_others(program)
    if namespace:
        os.kill(program, signal.SIGKILL)
    else:
        _end_group(program)  # before it is reaped: the number is still its own
    _, status = os.waitpid(program, 0)
    if not namespace:
        _reap_all()
    code = os.waitstatus_to_exitcode(status)
    os._exit(128 - code if code < 0 else code)


def _reap_others(program: int) -> None:
    while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)) and ended.si_pid != program:
        os.waitpid(ended.si_pid, 0)


def _end_group(program: int) -> None:
    for end in (os.killpg, os.kill):  # it may not have made its group yet
        try:
            end(program, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _reap_all() -> None:
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return


def _process_control(option: int, value: int) -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value}) was refused")


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
        (resource.RLIMIT_NOFILE, _OPEN_FILES, _OPEN_FILES),
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
    _process_control(_NO_NEW_PRIVS, 1)
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
