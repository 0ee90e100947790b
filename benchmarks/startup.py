"""How long a user waits for nothing: `luthier --help`, and the main job when nothing has changed.

python -m benchmarks.startup
"""

from __future__ import annotations

import statistics
import subprocess
import time
from pathlib import Path

from benchmarks.record import record
from benchmarks.workspace import ROOT, environment

RUNS = 7
MAIN_JOB = ["report"]
"""The target that `make run` builds."""


def median_seconds(command: list[str], folder: Path) -> float:
    """Median wall time of a command over several runs, after one that warms the disk."""
    times = []
    for _ in range(RUNS + 1):
        started = time.monotonic()
        subprocess.run(command, cwd=folder, env=environment(folder), check=True, stdout=subprocess.DEVNULL)
        times.append(time.monotonic() - started)
    return statistics.median(times[1:])


def main() -> int:
    """Record both figures; the main job must be up to date."""
    record("cli_help_seconds", round(median_seconds(["luthier", "--help"], ROOT), 3), unit="s, median", n=RUNS)
    status = subprocess.run(
        ["dvc", "status", "--with-deps", *MAIN_JOB],
        cwd=ROOT,
        env=environment(ROOT),
        capture_output=True,
        text=True,
        check=True,
    )
    if "up to date" not in status.stdout:
        print("the main job is out of date: `make run` first, then measure the no-op")
        return 1
    record("noop_repro_seconds", round(median_seconds(["dvc", "repro", *MAIN_JOB], ROOT), 3), unit="s, median", n=RUNS)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
