"""The newcomer's wait: `make run` in a fresh clone, installs included.

python -m benchmarks.main_job         # under half an hour on two cores
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time

from benchmarks.record import record
from benchmarks.workspace import ROOT

WORK = ROOT / ".cache" / "main-job"


def main() -> int:
    """Clone the last commit, run the one command, record the minutes."""
    shutil.rmtree(WORK, ignore_errors=True)
    subprocess.run(["git", "clone", "-q", str(ROOT), str(WORK)], check=True)
    clean = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    started = time.monotonic()
    subprocess.run(["make", "run"], cwd=WORK, env=clean, check=True)
    record("main_job_minutes", round((time.monotonic() - started) / 60, 1), unit="minutes", n=1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
