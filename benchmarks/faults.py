"""Built twice from scratch, and killed ten times: the same files each time, and nothing paid twice.

Three clean copies with profile `smoke`: two are built without disturbance, the third is killed with SIGKILL
(the whole process group) at random moments until ten kills have hit, then left to finish. DVC's digests of all
data sets and checkpoints must be equal, and no call may have been paid twice.

    python -m benchmarks.faults           # about fifteen minutes on two cores
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.record import record
from benchmarks.workspace import ROOT, copy_project, digests, environment, repro

WORK = ROOT / ".cache" / "faults"


def build(name: str, profile: str) -> tuple[Path, float]:
    """Build a clean copy; its folder and the wall seconds."""
    folder = copy_project(WORK / name, profile=profile)
    started = time.monotonic()
    if repro(folder).returncode:
        raise SystemExit(f"the build failed; see {folder / '.cache' / 'repro.log'}")
    return folder, time.monotonic() - started


def kill_and_finish(profile: str, kills: int, seconds: float, seed: int) -> Path:
    """Build a copy while killing it at random moments of its expected duration."""
    folder = copy_project(WORK / "killed", profile=profile)
    moments = random.Random(seed)
    hit = 0
    while hit < kills:
        patience = moments.uniform(2.0, max(8.0, 2.5 * seconds / kills))
        status = run_or_kill(["dvc", "repro"], folder, folder / ".cache" / "repro.log", patience)
        if status is None:
            hit += 1
            print(f"kill {hit} of {kills}", file=sys.stderr, flush=True)
        elif status == 0:
            print(f"finished after {hit} kills", file=sys.stderr)
            break
        else:
            raise SystemExit(f"the build failed by itself; see {folder / '.cache' / 'repro.log'}")
    if repro(folder).returncode:
        raise SystemExit(f"the last build failed; see {folder / '.cache' / 'repro.log'}")
    return folder


def run_or_kill(command: Sequence[str], folder: Path, log: Path, patience: float) -> int | None:
    """A command's exit status, None when it had to be killed because its patience in seconds was over."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(folder), stdout=out, stderr=out, start_new_session=True
        )
        try:
            return process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            kill_tree(process.pid)
            process.wait()  # reaped, as a shell would: DVC takes a zombie for a living owner of its lock
            return None


def kill_tree(root: int) -> None:
    """SIGKILL a process and all its descendants, also those in process groups of their own."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    doomed = [root]
    for pid in doomed:
        doomed += children.get(pid, [])
    for pid in doomed:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def paid_twice(folder: Path) -> int:
    """Answered calls that were paid for more than once."""
    with sqlite3.connect(folder / ".cache" / "store.sqlite") as store:
        paid = "SELECT 1 FROM entries WHERE part = 'answer' AND cached = 0 GROUP BY run, key HAVING COUNT(*) > 1"
        return int(store.execute(f"SELECT COUNT(*) FROM ({paid})").fetchone()[0])


def main(argv: Sequence[str] | None = None) -> int:
    """Build, build again, build under fire; record both figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="smoke")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args(argv)
    shutil.rmtree(WORK, ignore_errors=True)
    first, seconds = build("first", arguments.profile)
    second, _ = build("second", arguments.profile)
    expected = digests(first)
    same = digests(second) == expected
    record("rebuild_identical", float(same), unit="yes/no", n=len(expected))
    killed = kill_and_finish(arguments.profile, arguments.kills, seconds, arguments.seed)
    differing = sorted(path for path, digest in digests(killed).items() if expected.get(path) != digest)
    print(f"differing after the kills: {differing or 'nothing'}; paid twice: {paid_twice(killed)}", file=sys.stderr)
    record("kill_resume", float(not differing and not paid_twice(killed)), unit="yes/no", n=arguments.kills)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
