"""Each layer of the fence around a run's first process by itself, with the others taken away."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from luthier.errors import SandboxError
from luthier.sandbox import SandboxLimits
from luthier.sandboxes import bubblewrap, landlock, open_sandbox
from luthier.sandboxes.support.interpreter import START_CODE
from luthier.sandboxes.support.tree import descendants

UNREADABLE = "_process_control(_SET_DUMPABLE, 0)"
ROOT = Path(__file__).parents[3]
OPEN_MEMORY = "os.open(f'/proc/{os.getppid()}/mem', os.O_RDWR)"


@pytest.fixture(autouse=True)
def orphans_are_ours():
    """Whatever a run leaves behind becomes a child of this process, where it is found."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    before = set(descendants(os.getpid()))
    yield before
    _reap()
    assert set(descendants(os.getpid())) <= before
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)


class WithProc(bubblewrap.BubblewrapSandbox):
    """Bubblewrap's fence as it was: with a /proc of the run's own processes."""

    def _command(self, channels, seccomp, settings):
        command = super()._command(channels, seccomp, settings)
        place = command.index("--remount-ro")
        return [*command[:place], "--proc", "/proc", *command[place:]]


@pytest.fixture
def with_proc():
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    return WithProc()


def test_no_proc_is_there(sandbox):
    program = "import os\nfor pid in ('self', 1, os.getppid()):\n    print(os.access(f'/proc/{pid}/mem', os.R_OK))"
    if sandbox.name == "bubblewrap":
        assert sandbox.run(program).stdout == "False\n" * 3
    assert sandbox.run("import os; os.listdir('/proc')").outcome == "error"


def test_the_first_process_is_unreadable_even_where_proc_is(with_proc):
    result = with_proc.run(f"import os\n{OPEN_MEMORY}")
    assert "PermissionError" in result.stderr


def test_without_that_layer_it_would_be_open(with_proc, monkeypatch):
    assert UNREADABLE in START_CODE
    monkeypatch.setattr(bubblewrap, "START_CODE", START_CODE.replace(UNREADABLE, "pass"))
    assert with_proc.run(f"import os\n{OPEN_MEMORY}").outcome == "ok"


def test_the_filter_alone_keeps_the_first_process(with_proc, monkeypatch):
    monkeypatch.setattr(bubblewrap, "START_CODE", START_CODE.replace(UNREADABLE, "pass"))
    program = (
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "for call in (lambda: libc.ptrace(16, 1, 0, 0), lambda: libc.process_vm_writev(1, 0, 0, 0, 0, 0),\n"
        "             lambda: libc.process_vm_readv(1, 0, 0, 0, 0, 0)):\n"
        "    print(call(), ctypes.get_errno())\n"
    )
    assert with_proc.run(program).stdout == "-1 1\n" * 3


def test_the_first_process_has_the_same_limits(with_proc):
    program = "print(open('/proc/1/limits').read() == open('/proc/self/limits').read())"
    assert with_proc.run(program).stdout == "True\n"


STUBBORN = "    _process_control(1, 0)\n    os.closerange(0, 64)\n    while True: signal.pause()\n"


@pytest.mark.parametrize("module", [bubblewrap, landlock])
def test_a_first_process_that_was_taken_over_does_not_outlive_the_run(module, monkeypatch):
    """It ignores the death of its parent and of the program, and does not end by itself."""
    name = module.__name__.rpartition(".")[2]
    try:
        sandbox = open_sandbox(name)
    except SandboxError as error:
        pytest.skip(f"{name} is not usable here: {error.problem}")
    place = "    events = select.poll()"
    assert place in START_CODE
    monkeypatch.setattr(module, "START_CODE", START_CODE.replace(place, STUBBORN + place))
    monkeypatch.setattr("luthier.sandboxes.support.tree._END_SECONDS", 0.5)
    result = sandbox.run("print('done')", limits=SandboxLimits(seconds=0.5))
    assert (result.outcome, result.stdout) == ("timeout", "done\n")


@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.3])
def test_a_run_ends_with_the_process_that_asked_for_it(sandbox, orphans_are_ours, seconds):
    program = (
        "from luthier.sandboxes import open_sandbox\n"
        f"print('open', open_sandbox({sandbox.name!r}).name, flush=True)\n"
        f"open_sandbox({sandbox.name!r}).run('import os, time\\nos.fork()\\nwhile True: time.sleep(1)')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE
    ) as caller:
        assert caller.stdout is not None
        caller.stdout.readline()
        time.sleep(seconds)
        caller.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while set(descendants(os.getpid())) - orphans_are_ours and time.monotonic() < deadline:
        _reap()
        time.sleep(0.02)


def _reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def test_memory_is_limited_in_sum(sandbox):
    program = (
        "import os, time\n"
        "for _ in range(6):\n"
        "    if os.fork() == 0:\n"
        "        data = bytearray(80 << 20)\n"
        "        time.sleep(30)\n"
        "time.sleep(30)\n"
    )
    result = sandbox.run(program, limits=SandboxLimits(seconds=20.0, memory_bytes=160 << 20))
    assert (result.outcome, result.exit_code) == ("memory", 137)


def test_memory_that_processes_share_counts_once(sandbox):
    program = (
        "import os, time\n"
        "data = bytearray(100 << 20)\n"
        "data[::4096] = b'x' * len(data[::4096])\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(0.4)\n"
        "        os._exit(0)\n"
        "time.sleep(0.4)\n"
        "print('done')\n"
    )
    result = sandbox.run(program, limits=SandboxLimits(memory_bytes=160 << 20))
    assert (result.outcome, result.stdout) == ("ok", "done\n")
