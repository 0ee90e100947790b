"""An engine that hangs ends its process with a message; one that works, or was stopped, does not."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from luthier.targets.watch import HUNG, Watch


def test_work_that_lasts_too_long_is_told_once():
    said: list[str] = []
    told = threading.Event()

    def end(message: str) -> None:
        said.append(message)
        told.set()

    watch = Watch("engine", seconds=0.05, tick=0.01, end=end)
    with watch.working():
        assert told.wait(10)
    assert len(said) == 1
    assert said[0].startswith("engine: one step of the engine has lasted 0.05 seconds, it hangs. Fix: run")


def test_many_short_pieces_and_idle_time_are_no_hang():
    said: list[str] = []
    watch = Watch("engine", seconds=2.0, tick=0.01, end=said.append)
    for _ in range(50):
        with watch.working():
            time.sleep(0.001)
    time.sleep(0.1)
    assert said == []


def test_the_process_ends_at_once_with_a_status_that_asks_for_another_try():
    code = (
        "import time; from luthier.targets.watch import Watch\n"
        "with Watch('engine', seconds=0.1, tick=0.02).working(): time.sleep(60)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == HUNG
    assert "it hangs. Fix: run the same command again" in done.stderr
