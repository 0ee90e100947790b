import os
import sys
import time
from pathlib import Path

import pytest

from luthier.owners import is_alive, owner_of
from luthier.processes import run_streamed

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
