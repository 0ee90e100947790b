"""Follows a run from outside: its signs of life, what it writes, and what it uses in sum."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from luthier.errors import SandboxError
from luthier.sandbox import INSTALL_FIX, SandboxLimits, SandboxOutcome, SandboxResult
from luthier.sandboxes.support.tree import GroupTree, NamespaceTree
from luthier.sandboxes.support.usage import FolderCheck, memory_of

if TYPE_CHECKING:
    from luthier.sandboxes.support.launch import Channels

START_SECONDS = 60.0
_DRAIN_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_LOOK_SHARE = 0.1  # of the time, at most, is spent on looking
_CHUNK = 1 << 16


class Watch:
    """What is seen of a running process.

    Args:
        leader: The process that we started.
        tree: All processes of the run; it learns here whom to hold.
        streams: Our ends of stdout and stderr; closed here.
        channels: The run's pipes.
        limits: Wall time, output and memory in sum are held here.
        folder_is_full: See `FolderCheck`.
    """

    def __init__(
        self,
        leader: int,
        tree: NamespaceTree | GroupTree,
        streams: Mapping[str, socket.socket],
        channels: Channels,
        limits: SandboxLimits,
        folder_is_full: FolderCheck,
    ) -> None:
        self._tree, self._streams, self._channels = tree, streams, channels
        self._limits, self._folder_is_full = limits, folder_is_full
        self._exit = os.pidfd_open(leader)
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._info = b""
        self._fence_stood_at: float | None = None
        self._ended_at = self._next_look = 0.0
        self._stopped: SandboxOutcome | None = None
        self._exited = False
        self._selector = selectors.DefaultSelector()
        for name, stream in streams.items():
            stream.setblocking(False)
            self._selector.register(stream, selectors.EVENT_READ, name)
        self._selector.register(channels.status[0], selectors.EVENT_READ, "status")
        self._selector.register(self._exit, selectors.EVENT_READ, "exit")
        if isinstance(tree, NamespaceTree):
            self._selector.register(channels.info[0], selectors.EVENT_READ, "info")

    def follow(self) -> None:
        """Read until the process exits or reaches a bound."""
        began = time.monotonic()
        while not self._exited and self._stopped is None:
            now = time.monotonic()
            if self._fence_stood_at is None:
                deadline = wake = began + START_SECONDS
            else:
                deadline = self._fence_stood_at + self._limits.seconds
                if now >= self._next_look:
                    self._look()
                wake = min(deadline, self._next_look)
            if now >= deadline:
                self._stopped = self._stopped or "timeout"
            elif self._stopped is None:
                self._read_ready(max(0.0, wake - time.monotonic()))
        self._ended_at = time.monotonic()

    def drain(self) -> None:
        """Read what is left in the streams; they end when the last process that holds them is dead."""
        deadline = time.monotonic() + _DRAIN_SECONDS
        while {key.data for key in self._selector.get_map().values()} & {"stdout", "stderr"}:
            if time.monotonic() > deadline:  # a process is stuck within the kernel; the tree has warned of it
                break
            self._read_ready(1.0)
        self._selector.close()
        os.close(self._exit)
        for stream in self._streams.values():
            stream.close()

    def result(self, code: int) -> SandboxResult:
        """The outcome of a run that has ended.

        Args:
            code: As `subprocess` reports it: -n for signal n.

        Raises:
            SandboxError: the fence never stood.
        """
        stdout, stderr = (bytes(self._kept[name]).decode("utf-8", errors="replace") for name in ("stdout", "stderr"))
        if self._fence_stood_at is None:
            reason = stderr.strip().rpartition("\n")[2] or f"no sign of life for {START_SECONDS:g} s"
            raise SandboxError(f"the fence could not be built ({reason})", where="sandbox", fix=INSTALL_FIX)
        code = 128 - code if code < 0 else code
        if self._stopped is not None:
            code = 128 + signal.SIGKILL  # whatever the first process made of being ended
        outcome = self._stopped or _outcome(code, stderr)
        return SandboxResult(outcome, stdout, stderr, code, self._ended_at - self._fence_stood_at)

    def _read_ready(self, timeout: float) -> None:
        for key, _ in self._selector.select(timeout):
            if key.data == "exit":
                self._exited = True
                self._selector.unregister(self._exit)
                continue
            try:
                chunk = os.read(key.fd, _CHUNK)
            except OSError:  # a peer that was killed with our data unread
                chunk = b""
            if not chunk:
                self._selector.unregister(key.fileobj)
            elif key.data == "status":
                self._stands(int(chunk))
            elif key.data == "info":
                self._informed(chunk)
            else:
                self._keep(key.data, chunk)

    def _informed(self, chunk: bytes) -> None:
        """Hold the namespace's first process before it is let go: nobody else can have its number yet."""
        self._info += chunk
        with contextlib.suppress(ValueError):
            self._tree.hold(json.loads(self._info)["child-pid"])
            self._channels.go[1].close()

    def _stands(self, program: int) -> None:
        self._fence_stood_at = self._next_look = time.monotonic()
        if isinstance(self._tree, GroupTree):
            self._tree.hold(program)

    def _look(self) -> None:
        """Hold the bounds of the whole run that no process can be given."""
        began = time.monotonic()
        members, allowed = self._tree.members(), self._limits.memory_bytes
        if memory_of(members, allowed) > allowed:
            self._stopped = "memory"
        elif self._folder_is_full(members):
            self._stopped = "output"
        after = time.monotonic()
        self._next_look = after + max(_LOOK_SECONDS, (after - began) / _LOOK_SHARE)

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
