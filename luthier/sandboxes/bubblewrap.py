"""`BubblewrapSandbox`: Linux namespaces through bwrap, the first choice."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from luthier.errors import SandboxError
from luthier.sandbox import INSTALL_FIX, SandboxLimits, SandboxResult
from luthier.sandboxes.support import probes
from luthier.sandboxes.support.interpreter import NOBODY, START_CODE, own_interpreter
from luthier.sandboxes.support.launch import (
    ENVIRONMENT,
    OWN_PROCESSES,
    PYTHON_FLAGS,
    Channels,
    Launch,
    in_memory,
    launch,
    open_channels,
    start_settings,
)
from luthier.sandboxes.support.seccomp import filter_program
from luthier.sandboxes.support.usage import FOLDER_BYTES, mount_is_full

_FOLDER = "/job"


class BubblewrapSandbox:
    """Runs a program in namespaces of its own, behind a system call filter.

    When we are the superuser, bwrap is started as nobody: the kernel does not hold a superuser's
    processes to RLIMIT_NPROC, not even inside a user namespace. An outer bwrap, which only makes a
    private interpreter reachable for nobody, and setpriv come first then (ours; about 12 ms more).

    Covered:
        * files: only /usr and the interpreter, a minimal /dev (all read-only) and an empty working folder in
          memory (64 MiB, 4,096 entries) exist; there is no /proc;
        * network: none; sockets beyond the Unix family are refused;
        * processes: own process ids, no signals or tracing outwards, a limit on their number; the first
          process has the same limits, cannot be read or written, is held from outside, and all others end
          with it; no new namespaces, mounts, modules, keys, io_uring, BPF, ptrace, no shared objects of
          System V or POSIX, no anonymous files;
        * environment: cleared. Capabilities: none. New privileges: none.
        * wall time, processor time, address space of a process, size of a file, size of the output;
        * resident memory and entries of the folder in sum, by looks from outside, twenty a second.

    Not covered:
        * the kernel is shared: for hostile programs of strangers take gVisor or a virtual machine;
        * between two looks memory in sum can pass its limit (never processes x memory_bytes), and the
          folder's memory and the kernel's buffers (64 descriptors a process, about 0.4 MiB each) come on top:
          there is no control group, which few users may make;
        * side channels, and the load that a program puts on processor and memory while it runs;
        * the versions of the system's libraries and programs, which can be read under /usr;
        * programs that need /proc, Internet sockets, setsockopt, or locks and memory of `multiprocessing` fail here.

    Raises:
        SandboxError: bwrap (or, for the superuser, setpriv) is not installed, or the architecture has
            no filter.
    """

    name = "bubblewrap"

    def __init__(self) -> None:
        self._bwrap = _found("bwrap")
        self._setpriv = _found("setpriv") if os.geteuid() == 0 else ""
        self._python = own_interpreter()
        self._filter = filter_program(namespaces=True)

    def run(
        self, program: str, *, files: Mapping[str, str] | None = None, limits: SandboxLimits | None = None
    ) -> SandboxResult:
        """See `luthier.sandbox.Sandbox.run`."""
        limits = limits or SandboxLimits()
        with in_memory(program, files, self._filter) as (descriptors, seccomp), open_channels() as channels:
            settings = start_settings(channels, -1, limits.processes + OWN_PROCESSES, descriptors, limits)
            plan = Launch(
                self._command(channels, seccomp, settings),
                [*descriptors.values(), seccomp],
                {},
                functools.partial(mount_is_full, path=_FOLDER),
                namespace=True,
            )
            return launch(plan, channels, limits)

    def self_check(self) -> None:
        """See `luthier.sandbox.Sandbox.self_check`."""
        probes.check(self)

    def _command(self, channels: Channels, seccomp: int, settings: Sequence[str]) -> list[str]:
        python = self._python
        prefix, first = str(python.prefix), []
        if self._setpriv:
            prefix = "/tmp/python"
            first = [self._bwrap, "--dev-bind", "/", "/", "--tmpfs", "/tmp"]
            first += ["--ro-bind", str(python.prefix), prefix, "--die-with-parent"]
            first += [self._setpriv, "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        variables = {**ENVIRONMENT, "TMPDIR": _FOLDER}
        if python.shared_library:
            variables["LD_LIBRARY_PATH"] = "/py/lib"
        inner = [self._bwrap, "--unshare-all", "--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
        inner += ["--disable-userns", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"]
        inner += ["--info-fd", str(channels.info[1].fileno()), "--block-fd", str(channels.go[0].fileno())]
        for name, value in sorted(variables.items()):
            inner += ["--setenv", name, value]
        inner += ["--ro-bind", "/usr", "/usr", "--ro-bind", prefix, "/py", *_system_folders()]
        inner += ["--dev", "/dev", "--size", str(FOLDER_BYTES), "--tmpfs", _FOLDER]
        inner += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", _FOLDER, "--seccomp", str(seccomp)]
        executable = f"/py/{python.executable.relative_to(python.prefix)}"
        return [*first, *inner, executable, *PYTHON_FLAGS, "-c", START_CODE, *settings]


def _found(tool: str) -> str:
    path = shutil.which(tool, path="/usr/bin:/bin:/usr/local/bin") or shutil.which(tool)
    if path is None:
        raise SandboxError(f"{tool} is not installed", where="sandbox", fix=INSTALL_FIX)
    return path


def _system_folders() -> list[str]:
    """The top-level names that programs need, as links into /usr where the system has them so."""
    arguments: list[str] = []
    for name in ("bin", "lib", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            arguments += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    return arguments
