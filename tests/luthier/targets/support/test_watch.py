"""An engine that hangs with the interpreter's lock in hand ends its process; one that works does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

HANGS = "ctypes.PyDLL(None).sleep(60)"
"""Sleeps in C without giving up the interpreter's lock, as the engine does."""


def run(body: str) -> subprocess.CompletedProcess[str]:
    code = f"import ctypes; from luthier.targets.support.watch import ends_when_hung\n{body}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False)


def test_a_hang_ends_the_process_and_shows_its_place() -> None:
    done = run(f"def step():\n  with ends_when_hung(0.2): {HANGS}\nstep()")
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert "in step" in done.stderr


@pytest.mark.parametrize("work", ["pass", "sum(range(1000))"])
def test_work_that_ends_in_time_is_left_alone(work: str) -> None:
    done = run(f"import time\nfor _ in range(20):\n  with ends_when_hung(0.3): {work}\ntime.sleep(0.5)\nprint('done')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
