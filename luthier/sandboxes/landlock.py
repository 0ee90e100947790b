"""`LandlockSandbox`: Landlock and a system call filter, where bubblewrap cannot be used."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Mapping

from luthier.errors import SandboxError
from luthier.sandbox import INSTALL_FIX, SandboxLimits, SandboxResult
from luthier.sandboxes.support import probes
from luthier.sandboxes.support.folder import working_folder
from luthier.sandboxes.support.interpreter import (
    NOBODY,
    START_CODE,
    Interpreter,
    interpreter_for_everybody,
    own_interpreter,
    process_count,
    user_of_one_run,
)
from luthier.sandboxes.support.launch import (
    ENVIRONMENT,
    OWN_PROCESSES,
    PYTHON_FLAGS,
    Launch,
    in_memory,
    launch,
    open_channels,
    start_settings,
)
from luthier.sandboxes.support.seccomp import filter_program
from luthier.sandboxes.support.usage import folder_is_full

# The kernel counts all processes of a user together: two runs of one user would use up each other's.
_count_of_processes = threading.Lock()


class LandlockSandbox:
    """Runs a program that has locked itself in: Landlock rules first, then a system call filter.

    Needs Linux 6.12 or newer for an ordinary user (signals are fenced from there on); the superuser's
    runs also become a user of their own, who has nothing else. No package, no user namespaces.

    Covered:
        * files: contents can be read under /usr, the system's libraries and the interpreter alone, and
          written in a working folder that is deleted afterwards, whatever lies in it; owners, modes, times
          and extended attributes cannot be changed, and folders not be watched, anywhere;
        * network: no socket can be made, no port bound or reached;
        * processes: no signals outwards, no tracing, no other program can be started, no leaving of
          the process group, which a first process outside the fence ends and reaps; no namespaces, mounts,
          keys, io_uring, BPF, no shared objects of System V or POSIX, no anonymous files;
        * environment: cleared; /proc cannot be read. New privileges: none.
        * wall time, processor time, address space of a process, size of a file, size of the output;
        * resident memory, and bytes and entries of the folder (64 MiB, 4,096) in sum, by looks from outside,
          twenty a second.

    Not covered:
        * the kernel is shared: for hostile programs of strangers take gVisor or a virtual machine;
        * names, sizes and times of hidden files can be looked up (stat), and process ids be guessed;
        * between two looks memory in sum can pass its limit (never processes x memory_bytes), and so can
          the folder's bytes; the kernel's buffers (64 descriptors a process, about 0.4 MiB each) come on top;
        * the limit on processes counts all of an ordinary user's processes: what the user starts
          meanwhile counts too, and such runs follow one another (the superuser's are counted apart);
        * programs that need chmod, shutil.copy, a subprocess, or locks and memory of `multiprocessing`
          fail here.

    Raises:
        SandboxError: this is not Linux, the architecture has no filter, or (as the superuser) no
            interpreter can be read by every user.
    """

    name = "landlock"

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise SandboxError(f"Landlock needs Linux, this is {sys.platform}", where="sandbox", fix=INSTALL_FIX)
        self._superuser = os.geteuid() == 0
        self._python = interpreter_for_everybody() if self._superuser else own_interpreter()
        self._filter = filter_program(namespaces=False)

    def run(
        self, program: str, *, files: Mapping[str, str] | None = None, limits: SandboxLimits | None = None
    ) -> SandboxResult:
        """See `luthier.sandbox.Sandbox.run`."""
        limits = limits or SandboxLimits()
        user = user_of_one_run() if self._superuser else os.geteuid()
        with (
            _count_of_processes if user in (NOBODY, os.geteuid()) else contextlib.nullcontext(),
            in_memory(program, files, self._filter) as (descriptors, seccomp),
            open_channels() as channels,
            working_folder(user) as folder,
        ):
            processes = limits.processes + OWN_PROCESSES + process_count(user)
            settings = start_settings(channels, seccomp, processes, descriptors, limits)
            command = [str(self._python.executable), *PYTHON_FLAGS, "-c", START_CODE, *settings]
            plan = Launch(
                [*command, *_readable(self._python)],
                [*descriptors.values(), seccomp],
                {**ENVIRONMENT, "TMPDIR": folder},
                functools.partial(folder_is_full, path=folder),
                namespace=False,
                user=user if self._superuser else -1,
                folder=folder,
            )
            return launch(plan, channels, limits)

    def self_check(self) -> None:
        """See `luthier.sandbox.Sandbox.self_check`."""
        probes.check(self)


def _readable(python: Interpreter) -> list[str]:
    """Folders whose files a program may read: the system's libraries and the interpreter."""
    folders = {os.path.realpath(path) for path in ("/usr", "/lib", "/lib64", python.prefix) if os.path.isdir(path)}
    return sorted(folders)
