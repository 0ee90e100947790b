"""Everything to look at in one go: MLflow, Prefect and the report, on this machine only. `make ui`.

MLflow shows checkpoints and curves (port 5000), Prefect shows runs and schedules (port 4200), and the report is
served as a plain page (port 8080). Ctrl-C ends all three.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from luthier.lineage import ensure_store
from luthier.lineage.sources import find_root
from luthier.processes import end_group
from luthier.stopping import started

HOST = "127.0.0.1"
PORTS = {"MLflow": 5000, "Prefect": 4200, "report": 8080}


def commands(root: Path) -> dict[str, list[str]]:
    """The command line of each service."""
    python = sys.executable
    bin_folder = Path(python).parent
    store = root / "mlruns" / "mlflow.db"
    return {
        "MLflow": [
            str(bin_folder / "mlflow"), "server", "--host", HOST, "--port", str(PORTS["MLflow"]), "--workers", "1",
            "--backend-store-uri", f"sqlite:///{store}", "--artifacts-destination", str(root / "mlruns" / "artifacts"),
        ],
        "Prefect": [str(bin_folder / "prefect"), "server", "start", "--host", HOST, "--port", str(PORTS["Prefect"])],
        "report": [
            python, "-m", "http.server", str(PORTS["report"]), "--bind", HOST, "--directory", str(root / "reports"),
        ],
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Start all three, say where they are, wait for Ctrl-C or for one of them to end."""
    started()
    root = find_root()
    (root / "reports").mkdir(exist_ok=True)
    ensure_store(root)
    running = {
        name: subprocess.Popen(command, cwd=root, start_new_session=True, stdout=subprocess.DEVNULL)
        for name, command in commands(root).items()
    }
    for name, port in PORTS.items():
        print(f"{name:8} http://{HOST}:{port}", flush=True)
    print("Ctrl-C ends all three.", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while all(process.poll() is None for process in running.values()):
            time.sleep(0.5)
    except KeyboardInterrupt:
        return 0
    finally:
        for process in running.values():
            end_group(process.pid)
    ended = next(name for name, process in running.items() if process.poll() is not None)
    print(f"{ended} ended by itself; is port {PORTS[ended]} in use?", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
