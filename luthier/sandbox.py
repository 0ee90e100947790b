"""`Sandbox`: runs a Python program that a model wrote, behind a fence that has been probed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from luthier.errors import InputError

SandboxOutcome = Literal["ok", "error", "timeout", "memory", "output"]
"""ok: exit code 0. error: any other exit code, or a signal. timeout: wall or processor time ran out.
memory: the program ended on a MemoryError, or the kernel killed it. output: it wrote too much."""

INSTALL_FIX = (
    "on Debian or Ubuntu: apt-get install -y bubblewrap; where user namespaces are blocked, use Linux 6.12 or newer "
    "with Landlock (and a Python that every user may read, when you work as the superuser)"
)


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Bounds of one run (the values are ours).

    Attributes:
        seconds: Wall time of the program, counted from its first instruction; start-up is not in it.
        memory_bytes: Address space of each process; and resident memory of all processes of a run together,
            which is looked at twenty times a second, so that a burst can go past it until the next look.
        output_bytes: Kept and allowed bytes of stdout and of stderr, each.
        processes: Processes and threads alive at once, the program itself included.
    """

    seconds: float = 10.0
    memory_bytes: int = 1 << 30
    output_bytes: int = 1 << 20
    processes: int = 16

    def __post_init__(self) -> None:
        """Refuse limits that cannot hold.

        Raises:
            InputError: a limit is zero or negative.
        """
        for name in ("seconds", "memory_bytes", "output_bytes", "processes"):
            if getattr(self, name) <= 0:
                raise InputError(
                    f"field {name}: {getattr(self, name)!r} is not positive",
                    where="SandboxLimits",
                    fix="give a positive number",
                )


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """What one run left behind.

    Attributes:
        outcome: See `SandboxOutcome`.
        stdout: Text written to standard output, cut at the limit; undecodable bytes become U+FFFD.
        stderr: The same for standard error.
        exit_code: As a shell reports it: 128 + n for signal n.
        seconds: Wall seconds of the program, start-up not included.
    """

    outcome: SandboxOutcome
    stdout: str
    stderr: str
    exit_code: int
    seconds: float


class Sandbox(Protocol):
    """Runs CPython programs without network, without the user's files, and within limits.

    Attributes:
        name: Which fence this is ("bubblewrap", "landlock"); reports print it.
    """

    name: str

    def run(
        self, program: str, *, files: Mapping[str, str] | None = None, limits: SandboxLimits | None = None
    ) -> SandboxResult:
        """Run a program as `__main__`, with the standard library and nothing else.

        Args:
            program: Python source text.
            files: Name -> text, laid into the program's working folder; plain names only.
            limits: Bounds; `SandboxLimits()` when left out.

        Raises:
            InputError: a file name is not a plain name.
            SandboxError: the fence could not be built. A program's own failure is never raised.
        """
        ...

    def self_check(self) -> None:
        """Run the probes of `luthier.sandboxes.support.probes` behind this fence.

        Raises:
            SandboxError: a probe got through, or could not be run.
        """
        ...
