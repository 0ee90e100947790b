"""Eleven attempts to get through a fence, made before it is trusted.

Each program prints "held" or "breached"; where the outside can see more than the program, the outside
decides. A probe that says neither is a failure too: a fence is trusted on proof alone.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from luthier.errors import SandboxError
from luthier.sandbox import INSTALL_FIX, SandboxLimits, SandboxOutcome

if TYPE_CHECKING:
    from luthier.sandbox import Sandbox

LIMITS = SandboxLimits(seconds=20.0, memory_bytes=512 << 20, output_bytes=1 << 14, processes=8)
_LITTLE_MEMORY = SandboxLimits(seconds=20.0, memory_bytes=128 << 20, output_bytes=1 << 14, processes=8)

_PARENT = "a signal to a process outside"

_ATTEMPT = """\
def attempt():
{body}
try:
    attempt()
except {refused}:
    print("held")
else:
    print("breached")
"""

_READ = 'open("/etc/passwd").read()'
_WRITE = """
import os
path = "/usr/luthier-probe-%d" % os.getpid()
open(path, "w").close()
os.unlink(path)
"""
_CONNECT = """
import socket
socket.create_connection(("127.0.0.1", {port}), timeout=5).close()
"""
_FORK = """
import os, signal
children = []
try:
    while len(children) < 4 * {processes}:
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
finally:
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
"""
_NAMESPACE = """
import ctypes, os
if ctypes.CDLL(None, use_errno=True).unshare(0x10000000) != 0:
    raise OSError(ctypes.get_errno(), "refused")
"""
_ENVIRONMENT = """
import os
if set(os.environ) <= {"LC_CTYPE", "LD_LIBRARY_PATH", "PWD", "PYTHONHASHSEED", "TMPDIR"}:
    raise OSError("nothing there")
"""
_SIGNAL = """
import os, signal
os.kill({pid}, signal.SIGKILL)
"""
_ALLOCATE = "bytearray(1 << 30)"
_TAKE_OVER = """
import os
for pid in {1, os.getppid()}:
    try:
        os.close(os.open("/proc/%d/mem" % pid, os.O_RDWR))
    except OSError:
        continue
    return
raise OSError("refused")
"""
_UNCOUNTED = """
import ctypes, os
for folder in ("/", "/dev", "/dev/shm", "/tmp", "/var/tmp", "/run"):
    path = "%s/luthier-probe-%d" % (folder, os.getpid())
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    except OSError:
        continue
    os.unlink(path)
    return
shmget = ctypes.CDLL(None).shmget
try:
    os.close(os.memfd_create("probe"))
except OSError:
    if shmget(0, 4096, 0o1600) < 0:
        raise
"""
_TOGETHER = """
import os, time
done, end = os.pipe(), os.pipe()
for _ in range(4):
    if os.fork() == 0:
        data = bytearray(60 << 20)
        data[::4096] = bytes(len(data[::4096]))
        os.close(end[1])
        os.write(done[1], b"1")
        os.read(end[0], 1)
        os._exit(0)
for _ in range(4):
    os.read(done[0], 1)
time.sleep(5.0)
"""


@dataclass(frozen=True, slots=True)
class Probe:
    """One attempt.

    Attributes:
        name: What it attempts.
        program: The program that makes it.
        limits: Bounds of its run.
        stopped: The outcome that says it was held, where the program itself cannot.
    """

    name: str
    program: str
    limits: SandboxLimits = LIMITS
    stopped: SandboxOutcome | None = None


def check(sandbox: Sandbox) -> None:
    """Run all probes.

    Raises:
        SandboxError: the fence could not be built, or probes got through or failed to answer; all of
            them are named.
    """
    broken = breaches(sandbox)
    if broken:
        raise SandboxError(
            f"the {sandbox.name} fence does not hold against: {', '.join(broken)}", where="sandbox", fix=INSTALL_FIX
        )


def breaches(sandbox: Sandbox) -> list[str]:
    """Names of the probes that got through, or could not show that they did not."""
    with _listener() as port, _victim() as victim:
        broken = []
        for probe in all_probes(port, victim.pid):
            result = sandbox.run(probe.program, limits=probe.limits)
            held = result.stdout.strip() == "held" or result.outcome == probe.stopped
            # In a process namespace the number may name the program's own process: the victim decides.
            if not held and (probe.name != _PARENT or _dies(victim)):
                broken.append(probe.name)
        return broken


def all_probes(port: int, victim: int) -> list[Probe]:
    """The eleven probes, aimed at a listening TCP port and a process outside the fence."""
    return [
        _probe("reading /etc/passwd", _READ),
        _probe("writing under /usr", _WRITE),
        _probe("a network connection", _CONNECT.replace("{port}", str(port))),
        _probe("a fork bomb", _FORK.replace("{processes}", str(LIMITS.processes))),
        _probe("a user namespace of its own", _NAMESPACE),
        _probe("our environment", _ENVIRONMENT),
        _probe(_PARENT, _SIGNAL.replace("{pid}", str(victim))),
        _probe("a gigabyte of memory", _ALLOCATE, refused="MemoryError"),
        _probe("taking over the first process", _TAKE_OVER),
        _probe("memory that no limit counts", _UNCOUNTED),
        _probe("memory of many processes", _TOGETHER, limits=_LITTLE_MEMORY, stopped="memory"),
    ]


def _probe(
    name: str,
    body: str,
    refused: str = "OSError",
    limits: SandboxLimits = LIMITS,
    stopped: SandboxOutcome | None = None,
) -> Probe:
    indented = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return Probe(name, _ATTEMPT.format(body=indented, refused=refused), limits, stopped)


def _dies(victim: subprocess.Popen[bytes]) -> bool:
    try:
        victim.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextlib.contextmanager
def _listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextlib.contextmanager
def _victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours, outside the fence, that waits to be left alone."""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()
