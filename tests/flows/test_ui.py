"""`make ui`: three services answer, and one Ctrl-C ends all of them."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from benchmarks.workspace import environment

PATIENCE_SECONDS = 240


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@pytest.mark.slow
def test_all_three_answer_and_end_together(tmp_path):
    ports = {"MLflow": free_port(), "Prefect": free_port(), "report": free_port()}
    root = Path(__file__).resolve().parents[2]
    for name in ("params.yaml", "dvc.yaml"):
        (tmp_path / name).write_text((root / name).read_text())
    (tmp_path / "mlruns").mkdir()
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "index.html").write_text("<p>the report</p>")
    code = f"import flows.ui as ui; ui.PORTS.update({ports!r}); raise SystemExit(ui.main())"
    served = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=environment(root))
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        waiting = set(ports)
        while waiting and time.monotonic() < deadline and served.poll() is None:
            waiting = {name for name in waiting if not answers(ports[name])}
            time.sleep(1)
        assert not waiting, f"no answer from {sorted(waiting)}"
        served.send_signal(signal.SIGINT)
        assert served.wait(timeout=30) == 0
        assert not any(answers(port) for port in ports.values())
    finally:
        served.kill()
