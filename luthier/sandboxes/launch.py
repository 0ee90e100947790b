"""Starts a fenced process, reads what it writes up to a limit, and ends it with everything it started."""

from __future__ import annotations

import contextlib
import math
import os
import re
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from luthier.errors import InputError, SandboxError
from luthier.sandbox import INSTALL_FIX, SandboxLimits, SandboxOutcome, SandboxResult

PROGRAM_NAME = "main.py"
FILE_BYTES = 16 << 20
"""Largest file that a program may write (ours)."""

ENVIRONMENT = {"PYTHONHASHSEED": "0"}
"""What a program sees beside TMPDIR, PWD and LC_CTYPE. The fixed hash seed makes an answer that prints a
set come out the same each time."""

PYTHON_FLAGS = ("-P", "-s", "-S")
"""No working folder, user folder or site packages on the import path. Not -I, which would ignore the
hash seed; the environment holds nothing else that Python reads."""

_START_SECONDS = 60.0
_DRAIN_SECONDS = 10.0
_CHUNK = 1 << 16
_PLAIN_NAME = re.compile(r"\w[\w.-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start one fenced process.

    Attributes:
        command: Argument list; its start code writes one byte to `status` once the fence stands.
        status: Write end of the status pipe.
        descriptors: What the process inherits beside `status`.
        environment: Its environment, complete.
        user: User and group id to become first; -1 to stay as we are.
        folder: Working folder.
    """

    command: Sequence[str]
    status: int
    descriptors: Sequence[int]
    environment: Mapping[str, str]
    user: int = -1
    folder: str = "/"


def start_settings(
    status: int, seccomp: int, processes: int, files: Mapping[str, int], limits: SandboxLimits
) -> list[str]:
    """The arguments of `luthier.sandboxes.inside`, without the readable paths."""
    numbers = (status, seccomp, limits.memory_bytes, math.ceil(limits.seconds) + 1, FILE_BYTES, processes)
    return [*map(str, numbers), "/".join(f"{descriptor}={name}" for name, descriptor in files.items())]


@contextlib.contextmanager
def in_memory(program: str, files: Mapping[str, str] | None, seccomp: bytes) -> Iterator[tuple[dict[str, int], int]]:
    """Program, files and system call filter as anonymous files, read from their start.

    Yields:
        Descriptors by name, the program first and the others sorted; and the filter's.

    Raises:
        InputError: a name is not a plain file name, or is the program's own.
    """
    texts = {PROGRAM_NAME: program}
    for name in sorted(files or {}):
        if not _PLAIN_NAME.fullmatch(name):
            raise InputError(
                f"files: {name!r} is not a plain file name", where="sandbox", fix="use letters, digits, dots and dashes"
            )
        if name == PROGRAM_NAME:
            raise InputError(f"files: {name!r} is the program's own name", where="sandbox", fix="choose another name")
        texts[name] = (files or {})[name]
    with contextlib.ExitStack() as stack:
        descriptors = {
            name: _anonymous_file(text.encode("utf-8", errors="surrogatepass"), stack) for name, text in texts.items()
        }
        yield descriptors, _anonymous_file(seccomp, stack)


def _anonymous_file(data: bytes, stack: contextlib.ExitStack) -> int:
    file = stack.enter_context(os.fdopen(os.memfd_create("luthier"), "wb", buffering=0))
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
    file.seek(0)
    return file.fileno()


def launch(plan: Launch, status: int, limits: SandboxLimits) -> SandboxResult:
    """Run a plan to its end.

    Args:
        plan: What to start.
        status: Read end of the status pipe. Both ends are closed here.
        limits: Time and output bounds, held from outside; the process itself holds the others.

    Raises:
        SandboxError: the process could not be started, its fence did not stand, or it would not die.
    """
    # Sockets, not pipes: a pipe can be opened anew through /proc/1/fd, by whoever shares the user id with
    # bwrap's reaper, and then be read empty or written to behind the program's back. A socket cannot.
    streams = {name: socket.socketpair() for name in ("stdout", "stderr")}
    try:
        process = _start(plan, {name: ours_theirs[1] for name, ours_theirs in streams.items()})
    except OSError as error:
        os.close(status)
        for ours, _ in streams.values():
            ours.close()
        raise SandboxError(
            f"cannot start {plan.command[0]} ({error.strerror or error})", where="sandbox", fix=INSTALL_FIX
        ) from error
    finally:
        os.close(plan.status)
        for _, theirs in streams.values():
            theirs.close()
    watch = _Watch(process, {name: ours for name, (ours, _) in streams.items()}, status, limits)
    try:
        watch.follow()
    finally:
        _end(process)
        watch.drain()
    return watch.result()


def _start(plan: Launch, streams: Mapping[str, socket.socket]) -> subprocess.Popen[bytes]:
    identity = {"user": plan.user, "group": plan.user, "extra_groups": []} if plan.user >= 0 else {}
    return subprocess.Popen(
        plan.command,
        stdin=subprocess.DEVNULL,
        **streams,
        env=dict(plan.environment),
        cwd=plan.folder,
        pass_fds=[plan.status, *plan.descriptors],
        start_new_session=True,
        **identity,  # type: ignore[call-overload]
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the whole process group while its leader still holds the number, then reap the leader."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class _Watch:
    """What is seen of a running process: its signs of life and its output."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        streams: Mapping[str, socket.socket],
        status: int,
        limits: SandboxLimits,
    ) -> None:
        self._process, self._streams, self._limits = process, streams, limits
        self._status, self._exit = status, os.pidfd_open(process.pid)
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._fence_stood_at: float | None = None
        self._ended_at = 0.0
        self._stopped: SandboxOutcome | None = None
        self._exited = False
        self._selector = selectors.DefaultSelector()
        for name, stream in streams.items():
            self._selector.register(stream, selectors.EVENT_READ, name)
        self._selector.register(self._status, selectors.EVENT_READ, "status")
        self._selector.register(self._exit, selectors.EVENT_READ, "exit")

    def follow(self) -> None:
        """Read until the process exits or reaches a bound."""
        began = time.monotonic()
        while not self._exited and self._stopped is None:
            if self._fence_stood_at is None:
                remaining = began + _START_SECONDS - time.monotonic()
            else:
                remaining = self._fence_stood_at + self._limits.seconds - time.monotonic()
            if remaining <= 0:
                self._stopped = "timeout"
            else:
                self._read_ready(remaining)
        self._ended_at = time.monotonic()

    def drain(self) -> None:
        """Read what is left in the streams; they end when the last process that holds them is dead."""
        deadline = time.monotonic() + _DRAIN_SECONDS
        try:
            while {key.data for key in self._selector.get_map().values()} & {"stdout", "stderr"}:
                if time.monotonic() > deadline:
                    raise SandboxError(
                        "processes of a program outlived it", where="sandbox", fix="look for them with ps and end them"
                    )
                self._read_ready(1.0)
        finally:
            self._selector.close()
            os.close(self._status)
            os.close(self._exit)
            for stream in self._streams.values():
                stream.close()

    def result(self) -> SandboxResult:
        """The outcome of a process that has ended.

        Raises:
            SandboxError: the fence never stood.
        """
        stdout, stderr = (bytes(self._kept[name]).decode("utf-8", errors="replace") for name in ("stdout", "stderr"))
        if self._fence_stood_at is None:
            reason = stderr.strip().rpartition("\n")[2] or f"no sign of life for {_START_SECONDS:g} s"
            raise SandboxError(f"the fence could not be built ({reason})", where="sandbox", fix=INSTALL_FIX)
        code = self._process.returncode
        code = 128 - code if code < 0 else code
        outcome = self._stopped or _outcome(code, stderr)
        return SandboxResult(outcome, stdout, stderr, code, self._ended_at - self._fence_stood_at)

    def _read_ready(self, timeout: float) -> None:
        for key, _ in self._selector.select(timeout):
            if key.data == "exit":
                self._exited = True
                self._selector.unregister(self._exit)
                continue
            chunk = os.read(key.fd, _CHUNK)
            if not chunk:
                self._selector.unregister(key.fileobj)
            elif key.data == "status":
                self._fence_stood_at = time.monotonic()
            else:
                self._keep(key.data, chunk)

    def _keep(self, name: str, chunk: bytes) -> None:
        kept, allowed = self._kept[name], self._limits.output_bytes
        if len(kept) + len(chunk) > allowed and self._stopped is None:
            self._stopped = "output"
        kept += chunk[: allowed - len(kept)]


def _outcome(code: int, stderr: str) -> SandboxOutcome:
    if code == 0:
        return "ok"
    if code == 128 + signal.SIGXCPU:
        return "timeout"
    last = stderr.strip().rpartition("\n")[2]
    if code == 128 + signal.SIGKILL or last.startswith("MemoryError"):
        return "memory"
    return "error"
