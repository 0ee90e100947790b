"""Starts a fenced process, follows it, and ends it with everything it started."""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from luthier.errors import InputError, SandboxError
from luthier.sandbox import INSTALL_FIX, SandboxLimits, SandboxResult
from luthier.sandboxes.support.tree import GroupTree, NamespaceTree
from luthier.sandboxes.support.usage import FolderCheck
from luthier.sandboxes.support.watch import Watch

PROGRAM_NAME = "main.py"
FILE_BYTES = 16 << 20
"""Largest file that a program may write (ours)."""

ENVIRONMENT = {"PYTHONHASHSEED": "0"}
"""What a program sees beside TMPDIR, PWD and LC_CTYPE. The fixed hash seed makes an answer that prints a
set come out the same each time."""

PYTHON_FLAGS = ("-P", "-s", "-S")
"""No working folder, user folder or site packages on the import path. Not -I, which would ignore the
hash seed; the environment holds nothing else that Python reads."""

OWN_PROCESSES = 1
"""The first process of a run, which waits for the program and reaps what it leaves."""

_PLAIN_NAME = re.compile(r"\w[\w.-]*", re.ASCII)


class Channels:
    """The pipes between us and a run. An end may be closed more than once.

    Attributes:
        status: From the start code: the program's process id, as it sees it, once the fence stands.
        info: From bwrap: what it knows of the run, before it does anything.
        go: To bwrap, which waits until our end is closed.
        life: To the first process, which ends the run when our end is closed.
    """

    def __init__(self) -> None:
        self.status, self.info, self.go, self.life = (_pipe() for _ in range(4))

    @property
    def theirs(self) -> tuple[io.FileIO, ...]:
        """The ends that a run inherits."""
        return self.status[1], self.info[1], self.go[0], self.life[0]

    def close(self) -> None:
        """Close all ends."""
        for ends in (self.status, self.info, self.go, self.life):
            for end in ends:
                end.close()


def _pipe() -> tuple[io.FileIO, io.FileIO]:
    read, write = os.pipe()
    return io.FileIO(read, "rb"), io.FileIO(write, "wb")


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start one fenced process.

    Attributes:
        command: Argument list; its start code writes to the status pipe once the fence stands.
        descriptors: What the process inherits beside its ends of the channels.
        environment: Its environment, complete.
        folder_is_full: See `FolderCheck`.
        namespace: Whether bwrap makes a process namespace; if not, our start code is the process itself.
        user: User and group id to become first; -1 to stay as we are.
        folder: Working folder.
    """

    command: Sequence[str]
    descriptors: Sequence[int]
    environment: Mapping[str, str]
    folder_is_full: FolderCheck
    namespace: bool
    user: int = -1
    folder: str = "/"


def start_settings(
    channels: Channels, seccomp: int, processes: int, files: Mapping[str, int], limits: SandboxLimits
) -> list[str]:
    """The arguments of `luthier.sandboxes.support.inside`, without the readable paths."""
    status, life = channels.status[1].fileno(), channels.life[0].fileno()
    numbers = (status, life, seccomp, limits.memory_bytes, math.ceil(limits.seconds) + 1, FILE_BYTES, processes)
    return [*map(str, numbers), "/".join(f"{descriptor}={name}" for name, descriptor in files.items())]


@contextlib.contextmanager
def open_channels() -> Iterator[Channels]:
    """Channels that are closed at the end."""
    channels = Channels()
    try:
        yield channels
    finally:
        channels.close()


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


def launch(plan: Launch, channels: Channels, limits: SandboxLimits) -> SandboxResult:
    """Run a plan to its end.

    Args:
        plan: What to start.
        channels: Its pipes.
        limits: Time, output and memory in sum, held from outside; the process itself holds the others.

    Raises:
        SandboxError: the process could not be started, or its fence did not stand.
    """
    # Sockets, not pipes: whoever may open a process's descriptors through /proc can open a pipe anew, and
    # then read it empty or write to it behind the program's back. A socket cannot be opened.
    streams = {name: socket.socketpair() for name in ("stdout", "stderr")}
    ours = {name: pair[0] for name, pair in streams.items()}
    try:
        process = _start(plan, channels, {name: pair[1] for name, pair in streams.items()})
    except OSError as error:
        for stream in ours.values():
            stream.close()
        raise SandboxError(
            f"cannot start {plan.command[0]} ({error.strerror or error})", where="sandbox", fix=INSTALL_FIX
        ) from error
    finally:
        for _, theirs in streams.values():
            theirs.close()
        for end in channels.theirs:
            end.close()
    tree = NamespaceTree(process) if plan.namespace else GroupTree(process)
    watch = Watch(process.pid, tree, ours, channels, limits, plan.folder_is_full)
    try:
        watch.follow()
    finally:
        tree.end()
        watch.drain()
    return watch.result(process.returncode)


def _start(plan: Launch, channels: Channels, streams: Mapping[str, socket.socket]) -> subprocess.Popen[bytes]:
    identity = {"user": plan.user, "group": plan.user, "extra_groups": []} if plan.user >= 0 else {}
    return subprocess.Popen(
        plan.command,
        stdin=subprocess.DEVNULL,
        **streams,
        env=dict(plan.environment),
        cwd=plan.folder,
        # Our end of `info` too: without it bwrap would die of writing there after us, and leave a child that waits.
        pass_fds=[*(end.fileno() for end in (*channels.theirs, channels.info[0])), *plan.descriptors],
        start_new_session=True,
        **identity,  # type: ignore[call-overload]
    )
