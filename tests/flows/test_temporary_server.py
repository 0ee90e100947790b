"""The server that Prefect starts for one flow, when a terminal's Ctrl-C reaches the whole process group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from luthier.stopping import STOPPED

ROOT = Path(__file__).resolve().parents[2]
FLOW = """
import sys, time
from flows.launch import StageError, exit_status
from luthier.stopping import STOPPED, stop_asked
from prefect import flow

@flow
def wait():
    print("begun", flush=True)
    while not stop_asked():
        time.sleep(0.05)
    raise StageError("stage", STOPPED)

if __name__ == "__main__":
    sys.exit(exit_status("wait", wait))
"""


@pytest.mark.slow
def test_a_stop_of_the_group_leaves_the_server_until_the_flow_has_reported(tmp_path):
    (tmp_path / "wait.py").write_text(FLOW)
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment = settings | {"PYTHONPATH": str(ROOT), "PREFECT_HOME": str(tmp_path / "prefect")}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "wait.py"],
            cwd=tmp_path,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    told = tmp_path / "log"
    deadline = time.monotonic() + 300
    while "begun" not in told.read_text() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=120) == STOPPED, told.read_text()
    assert "wait: stage: " in told.read_text()
    for complaint in ("Traceback", "connect", "Error logging to API"):
        assert complaint not in told.read_text()
    mine = f"PREFECT_HOME={tmp_path / 'prefect'}".encode()
    assert not [entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and mine in environment_of(entry)]


def environment_of(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""
