"""Stopped twenty times on request: the exit status says so each time, and the files are those of an undisturbed build.

Clean copies with profile `smoke` are built by `dvc repro report` while Ctrl-C, SIGTERM (both to the whole process
group, as a terminal and a cluster's scheduler send them) or the stop file come at random moments. Each time the stage
must end with status 3, or 130 or 143 where no stage ran; the next run continues. Status 0 is right only where the stop
came too late: DVC must find nothing left to build. Digests must equal those of an undisturbed copy.

    python -m benchmarks.stop_resume           # about fifteen minutes on two cores
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.record import record
from benchmarks.workspace import ROOT, copy_project, digests, environment, repro
from luthier.stopping import STOP_FILE, STOPPED

WORK = ROOT / ".cache" / "stop-resume"
WAYS = ("SIGINT", "SIGTERM", "stop file")
TARGET = "report"
PATIENCE_SECONDS = 120.0
"""What a step of the scheduler may take until a stop is seen; more on a busy machine."""
_STATUS = re.compile(r"exited with (-?\d+)")
# DVC's own status for Ctrl-C between two stages; a shell shows a signal's number plus 128.
_INTERRUPTED = {252, 130, 143, -signal.SIGINT, -signal.SIGTERM}


def stop_once(folder: Path, way: str, seconds: float, patience: float) -> str:
    """Start the build and stop it after some seconds.

    Returns:
        "built" when it was faster, "stopped" when it ended as it should, else what was wrong.
    """
    log = folder / ".cache" / "stopped.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["dvc", "repro", TARGET],
            cwd=folder,
            env=environment(folder),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            return "built" if process.wait(timeout=seconds) == 0 else f"failed by itself: {log.read_text()[-500:]}"
        except subprocess.TimeoutExpired:
            asked = time.monotonic()
        if way == "stop file":
            (folder / STOP_FILE).touch()
        else:
            os.killpg(process.pid, signal.Signals[way])
        try:
            status = process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"not stopped within {patience:g} s"
    while still_running(folder) and time.monotonic() - asked < patience:
        time.sleep(0.2)
    told = log.read_text(errors="replace")
    stages = [int(found) for found in _STATUS.findall(told)]
    if "Traceback (most recent call last)" in told and stages:
        return f"a traceback: {told[-1500:]}"
    if status == 0:
        return "built" if complete(folder) else "ended well, though stopped"
    good = stages[-1] in {STOPPED, *_INTERRUPTED} if stages else status in _INTERRUPTED
    return "stopped" if good else f"status {status}, stages {stages}: {told[-500:]}"


def complete(folder: Path) -> bool:
    """Whether DVC finds nothing left to build."""
    asked = ["dvc", "status", "--json", TARGET, "--with-deps"]
    found = subprocess.run(asked, cwd=folder, env=environment(folder), capture_output=True, text=True, check=True)
    return not json.loads(found.stdout)


def still_running(folder: Path) -> bool:
    """Whether a process works in the folder."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").readlink() == folder:
                    return True
            except OSError:
                continue
    return False


def main(argv: Sequence[str] | None = None) -> int:
    """Build undisturbed, then stop other builds at random moments; record whether all went well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="smoke")
    parser.add_argument("--stops", type=int, default=20)
    parser.add_argument("--longest", type=float, default=45.0, help="seconds until a stop, at most")
    parser.add_argument("--patience", type=float, default=PATIENCE_SECONDS, help="seconds that a stop may take")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--expected", type=Path, help="digests of an undisturbed build, as JSON; built when left out")
    arguments = parser.parse_args(argv)
    shutil.rmtree(WORK, ignore_errors=True)
    expected = json.loads(arguments.expected.read_text()) if arguments.expected else undisturbed(arguments.profile)
    moments, problems, stops, number = random.Random(arguments.seed), list[str](), 0, 0
    while stops < arguments.stops:
        folder = copy_project(WORK / str(number), profile=arguments.profile)
        number += 1
        ended = ""
        while ended != "built" and stops < arguments.stops:
            ended = stop_once(
                folder, WAYS[stops % len(WAYS)], moments.uniform(1.0, arguments.longest), arguments.patience
            )
            if ended != "built":
                stops += 1
                print(f"stop {stops} of {arguments.stops}: {ended}", file=sys.stderr, flush=True)
            if ended not in ("built", "stopped"):
                problems.append(ended)
        if repro(folder, TARGET).returncode:
            problems.append(f"the last build failed; see {folder / '.cache' / 'repro.log'}")
        elif differing := sorted(path for path, digest in digests(folder).items() if expected.get(path) != digest):
            problems.append(f"{', '.join(differing)} differ from an undisturbed build")
    print(f"problems: {problems or 'none'}", file=sys.stderr)
    record("stop_resume", float(not problems), unit="yes/no", n=stops)
    return int(bool(problems))


def undisturbed(profile: str) -> dict[str, str]:
    """Digests of a build that nobody stops."""
    folder = copy_project(WORK / "undisturbed", profile=profile)
    if repro(folder, TARGET).returncode:
        raise SystemExit(f"the build failed; see {folder / '.cache' / 'repro.log'}")
    return digests(folder)


if __name__ == "__main__":
    raise SystemExit(main())
