import os
import signal
import subprocess
import sys

import pytest

from luthier.errors import StoreError
from luthier.stopping import STOPPED, StopRequested, StopSignal

HEAD = """
import os, subprocess, sys, time
from pathlib import Path
from luthier.stopping import StopSignal
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_interrupts(tmp_path, number):
    before = signal.getsignal(number)
    with StopSignal(tmp_path / "stop") as stop:
        stop.check()
        os.kill(os.getpid(), number)
        with pytest.raises(StopRequested):
            stop.check()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


def test_a_stop_file_from_before_does_not_hold_up_the_next_start(tmp_path):
    path = tmp_path / "stop"
    old = StopSignal(path)
    path.touch()
    assert old.requested()
    assert not StopSignal(path).requested()


def test_a_stop_file_that_cannot_be_looked_for_is_a_clear_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot look for the stop file"):
        StopSignal(tmp_path / "file" / "stop")


def test_under_dvc_a_stop_file_holds_for_every_stage_that_starts_later(tmp_path):
    """The child stands for `dvc`: it starts stages one after the other, and the file is older than the second one."""
    stage = HEAD + "print(int(StopSignal(Path('stop')).requested()))"
    dvc = (
        HEAD
        + f"""
environment = os.environ | {{'DVC_STAGE': 'grid'}}
for _ in range(2):
    subprocess.run([sys.executable, '-c', {stage!r}], env=environment)
    Path('stop').touch()
"""
    )
    for expected in ("0\n1\n", "0\n1\n"):  # and the next `dvc repro` is not held up by it
        done = subprocess.run([sys.executable, "-c", dvc], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout == expected


def test_a_stage_stops_when_dvc_was_killed(tmp_path):
    stage = (
        HEAD
        + """
stop = StopSignal(Path('stop'))
print(int(stop.requested()), flush=True)
while not stop.requested():
    time.sleep(0.02)
print('stopped', flush=True)
"""
    )
    dvc = HEAD + f"subprocess.run([sys.executable, '-c', {stage!r}], env=os.environ | {{'DVC_STAGE': 'grid'}})"
    process = subprocess.Popen([sys.executable, "-c", dvc], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "0\n"
    process.kill()
    assert process.stdout.readline() == "stopped\n"
    process.wait()


def test_a_request_that_came_too_late_for_a_stage_is_left_to_the_next_one(tmp_path):
    stage = (
        HEAD
        + """
import signal
with StopSignal(Path('stop')) as stop:
    os.kill(os.getpid(), signal.SIGTERM)
    stop.pass_on()
"""
    )
    for environment, left in ((os.environ, False), (os.environ | {"DVC_STAGE": "sft"}, True)):
        subprocess.run([sys.executable, "-c", stage], cwd=tmp_path, env=environment, check=True)
        assert (tmp_path / "stop").exists() is left


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_command_imports_ends_it_with_one_line(tmp_path, number):
    """The import that takes long is a stage's own; `time` is read by it at once."""
    slow = "import time\nprint('importing', flush=True)\ntime.sleep(30)\n"
    (tmp_path / "slow.py").write_text(slow)
    command = "from luthier.stopping import end_while_starting\nend_while_starting()\nimport slow"
    process = subprocess.Popen(
        [sys.executable, "-c", command], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    process.send_signal(number)
    _, told = process.communicate(timeout=25)
    assert (process.returncode, told.strip()) == (
        STOPPED,
        "stopped on request before the work began; run again to start it",
    )
