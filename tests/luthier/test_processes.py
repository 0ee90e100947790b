import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from luthier.process_owner import is_alive, owner_of
from luthier.processes import descendants, run_streamed

CHILD = """
import subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
print(grandchild.pid, flush=True)
time.sleep(300)
"""
STUBBORN = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
)


def wait_for_end(pid: int) -> bool:
    for _ in range(200):
        if not is_alive(owner_of(pid)):
            return True
        time.sleep(0.02)
    return False


def test_streams_lines_and_returns_the_exit_code(tmp_path: Path) -> None:
    lines: list[str] = []
    code = run_streamed(
        [sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"],
        cwd=tmp_path,
        environment=os.environ | {"PYTHONUNBUFFERED": "1"},
        say=lines.append,
    )
    assert (code, lines) == (7, ["out", "err"])


@pytest.mark.parametrize("prelude", ["", STUBBORN], ids=["polite", "stubborn"])
def test_an_interruption_ends_the_child_and_its_children(tmp_path: Path, prelude: str) -> None:
    pids: list[int] = []

    def interrupt(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_streamed(
            [sys.executable, "-c", prelude + CHILD],
            cwd=tmp_path,
            environment=os.environ,
            say=interrupt,
            started=pids.append,
            grace_seconds=0.3,
        )
    assert len(pids) == 2
    assert all(wait_for_end(pid) for pid in pids)


NESTED = """
import subprocess, sys, time
if len(sys.argv) == 1:
    subprocess.run([sys.executable, __file__, "between"])  # ends at once and leaves its child to nobody
elif sys.argv[1] == "between":
    child = subprocess.Popen([sys.executable, __file__, "child"], start_new_session=True)
    print(child.pid, flush=True)
    sys.exit()
time.sleep(300)
"""


def test_descendants_in_groups_of_their_own_end_too_when_those_between_are_gone(tmp_path: Path) -> None:
    pids: list[int] = []
    script = tmp_path / "nested.py"
    script.write_text(STUBBORN + NESTED)

    def interrupt(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_streamed(
            [sys.executable, str(script)],
            cwd=tmp_path,
            environment=os.environ,
            say=interrupt,
            name="nested",
            grace_seconds=0.3,
        )
    assert not descendants("nested")
    assert not is_alive(owner_of(pids[0]))


def test_a_child_of_a_process_that_is_deaf_to_ctrl_c_hears_it(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); from pathlib import Path\n"
        "from luthier.processes import run_streamed\n"
        "child = 'import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)'\n"
        "run_streamed([sys.executable, '-c', child], cwd=Path('.'), environment=os.environ, say=print)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
