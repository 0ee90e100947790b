"""How long a user waits for nothing: `luthier --help`, and `dvc repro` when nothing has changed.

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


def median_seconds(command: list[str], folder: Path) -> float:
    """Median wall time of a command over several runs, after one that warms the disk."""
    times = []
    for _ in range(RUNS + 1):
        started = time.monotonic()
        subprocess.run(command, cwd=folder, env=environment(folder), check=True, stdout=subprocess.DEVNULL)
        times.append(time.monotonic() - started)
    return statistics.median(times[1:])


def main() -> int:
    """Record both figures; the pipeline must be up to date."""
    record("cli_help_seconds", round(median_seconds(["luthier", "--help"], ROOT), 3), unit="s, median", n=RUNS)
    status = subprocess.run(
        ["dvc", "status"], cwd=ROOT, env=environment(ROOT), capture_output=True, text=True, check=True
    )
    if "up to date" not in status.stdout:
        print("dvc repro has work to do: run it first, then measure the no-op")
        return 1
    record("noop_repro_seconds", round(median_seconds(["dvc", "repro"], ROOT), 3), unit="s, median", n=RUNS)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
