import os
import shutil
import subprocess
from pathlib import Path

import pytest

from luthier.errors import InputError
from luthier.sandbox import SandboxLimits
from luthier.sandboxes import open_sandbox

ROOT = Path(__file__).parents[3]


def test_a_program_runs_with_its_files(sandbox):
    result = sandbox.run("import json\nprint(json.load(open('data.json'))['ä'])", files={"data.json": '{"ä": 7}'})
    assert (result.outcome, result.stdout, result.stderr, result.exit_code) == ("ok", "7\n", "", 0)


def test_a_program_is_the_main_module_and_can_write_beside_itself(sandbox):
    program = "import os\nopen('a', 'w').write('b')\nprint(__name__, open('a').read(), sorted(os.listdir('.')))"
    assert sandbox.run(program).stdout == "__main__ b ['a', 'main.py']\n"


def test_standard_library_extensions_threads_and_event_loops_work(sandbox):
    program = (
        "import asyncio, sqlite3, tempfile, threading\n"
        "asyncio.run(asyncio.sleep(0))\n"
        "tempfile.NamedTemporaryFile().close()\n"
        "thread = threading.Thread(target=print, args=(sqlite3.connect(':memory:').execute('select 6').fetchone(),))\n"
        "thread.start(); thread.join()\n"
    )
    assert sandbox.run(program).stdout == "(6,)\n"


def test_an_exception_is_an_error_with_the_programs_own_traceback(sandbox):
    result = sandbox.run("def f():\n    1 / 0\nf()")
    assert (result.outcome, result.exit_code) == ("error", 1)
    assert result.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert "_run" not in result.stderr


@pytest.mark.parametrize(
    ("program", "exit_code"),
    [("raise SystemExit(3)", 3), ("import os; os._exit(5)", 5), ("import os; os.abort()", 134), ("def f(:", 1)],
)
def test_other_ends_are_errors_with_their_exit_code(sandbox, program, exit_code):
    result = sandbox.run(program)
    assert (result.outcome, result.exit_code) == ("error", exit_code)


def test_a_correct_program_exits_zero_fifty_times():
    sandbox = open_sandbox()
    assert [sandbox.run("print(1)").exit_code for _ in range(50)] == [0] * 50


def test_equal_programs_give_equal_output(sandbox):
    program = "print({'a', 'b', 'c', 'd', 'e', 'f'}, hash('text'))"
    assert sandbox.run(program).stdout == sandbox.run(program).stdout


@pytest.mark.parametrize(
    "program", ["while True: pass", "import time; time.sleep(60)", "import re; re.match('(a+)+b', 'a' * 60)"]
)
def test_time_is_limited(sandbox, program):
    result = sandbox.run(program, limits=SandboxLimits(seconds=0.3))
    assert (result.outcome, result.exit_code) == ("timeout", 137)
    assert 0.3 <= result.seconds < 60


def test_output_before_a_timeout_is_kept(sandbox):
    result = sandbox.run("print('early', flush=True)\nwhile True: pass", limits=SandboxLimits(seconds=0.3))
    assert result.stdout == "early\n"


@pytest.mark.parametrize("program", ["bytearray(200 << 20)", "a = []\nwhile True: a.append(bytearray(1 << 20))"])
def test_memory_is_limited(sandbox, program):
    assert sandbox.run(program, limits=SandboxLimits(memory_bytes=128 << 20)).outcome == "memory"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_is_limited(sandbox, stream):
    program = f"import sys\nwhile True: sys.{stream}.write('x' * 1000)"
    result = sandbox.run(program, limits=SandboxLimits(output_bytes=5000))
    assert result.outcome == "output"
    assert getattr(result, stream) == "x" * 5000


def test_files_are_limited_in_size(sandbox):
    result = sandbox.run("open('big', 'wb').write(bytes(32 << 20))")
    assert result.outcome == "error"


def alive(name: str) -> list[str]:
    """States of the processes of this name that are still running, zombies left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            own_name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if own_name == name and rest.split()[0] != "Z":
            found.append(rest.split()[0])
    return found


def test_processes_left_behind_are_killed(sandbox):
    name = f"orphan-{os.getpid()}"
    program = (
        "import ctypes, os, time\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0:\n"
        f"        ctypes.CDLL(None).prctl(15, {name.encode()!r})\n"
        "        try: os.setsid()\n"
        "        except OSError: pass\n"
        "        print('named', flush=True)\n"
        "        time.sleep(600)\n"
        "time.sleep(0.2)\n"
    )
    result = sandbox.run(program)
    assert (result.outcome, result.stdout) == ("ok", "named\n" * 3)
    assert result.seconds < 300
    assert alive(name) == []


@pytest.mark.parametrize(
    "attempt",
    [
        "import os; os.listdir('/root')",
        "import os; os.listdir('/home')",
        "open('/etc/shadow').read()",
        "open('/py/owned', 'w')",
        "import sys; open(sys.prefix + '/owned', 'w')",
        "import os; os.chmod('/usr', 0o777)",
        "import os; os.chroot('.')",
        "import os, signal; os.kill(1, signal.SIGKILL) or print(open('/proc/1/status').read()[99999])",
        "import socket; socket.create_connection(('1.1.1.1', 53), timeout=1)",
        "import socket; socket.socket(40, socket.SOCK_STREAM)",
        "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
        "import ctypes; assert ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0",
        "import ctypes; assert ctypes.CDLL(None).syscall(425, 1, ctypes.create_string_buffer(256)) >= 0",
        "import ctypes; assert ctypes.CDLL(None).syscall(56, 0x10000011, 0, 0, 0, 0) >= 0",
        "import ctypes; assert ctypes.CDLL(None).mount(b'none', b'/', b'tmpfs', 0, None) == 0",
    ],
)
def test_what_reaches_out_is_refused(sandbox, attempt):
    assert sandbox.run(attempt).outcome == "error"


def test_landlock_starts_no_other_program_and_changes_no_metadata(tmp_path):
    sandbox = open_sandbox("landlock")
    assert "PermissionError" in sandbox.run("import os; os.execv('/usr/bin/true', ['true'])").stderr
    victim = tmp_path / "file"
    victim.write_text("mine")
    before = victim.stat()
    assert "PermissionError" in sandbox.run(f"import os; os.chmod({str(victim)!r}, 0o777)").stderr
    assert "PermissionError" in sandbox.run(f"import os; os.utime({str(victim)!r}, (1, 1))").stderr
    assert (victim.stat().st_mode, victim.stat().st_mtime) == (before.st_mode, before.st_mtime)


def test_bubblewrap_shows_nothing_but_the_interpreter_and_the_system():
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    program = "import os\nprint(sorted(os.listdir('/')), os.getpid(), os.getppid(), os.getuid())"
    shown = open_sandbox("bubblewrap").run(program).stdout
    assert shown == "['bin', 'dev', 'job', 'lib', 'lib64', 'py', 'usr'] 2 1 65534\n"


def test_bubblewrap_lets_nothing_be_written_but_the_working_folder():
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    program = (
        "for folder in ('/', '/dev', '/dev/shm', '/usr', '/py', '/job'):\n"
        "    try: open(folder + '/file', 'w').close()\n"
        "    except OSError as error: print(folder, error.strerror)\n"
    )
    shown = open_sandbox("bubblewrap").run(program).stdout
    assert shown == "".join(f"{name} Read-only file system\n" for name in ("/", "/dev", "/dev/shm", "/usr", "/py"))


def test_nothing_of_our_environment_is_found_in_any_process(sandbox, monkeypatch):
    monkeypatch.setenv("LUTHIER_TEST_SECRET", "do-not-find-me")
    program = (
        "import glob, os\n"
        "found = [os.environ.get('LUTHIER_TEST_SECRET', '')]\n"
        "for path in glob.glob('/proc/[0-9]*/environ'):\n"
        "    try: found.append(open(path).read())\n"
        "    except OSError: pass\n"
        "print('do-not-find-me' in ''.join(found))\n"
    )
    assert sandbox.run(program).stdout == "False\n"


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "main.py", "a=b"])
def test_files_have_plain_names(sandbox, name):
    with pytest.raises(InputError, match="files: "):
        sandbox.run("", files={name: ""})


def test_an_ordinary_user_is_fenced_in_as_well():
    """The same probes as nobody, with the system's Python: ours may lie where only its owner reads."""
    if os.geteuid() != 0:
        pytest.skip("only the superuser can become another user; the other tests run as an ordinary one")
    if not Path("/usr/bin/python3").exists() or not shutil.which("setpriv"):
        pytest.skip("needs /usr/bin/python3 and setpriv")
    program = (
        "import sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from luthier.sandboxes import open_sandbox\n"
        "for name in ('bubblewrap', 'landlock'):\n"
        "    print(open_sandbox(name).run('import os; print(os.getuid())').outcome)\n"
    )
    command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "/usr/bin/python3", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
    assert done.stdout == "ok\nok\n", done.stderr
