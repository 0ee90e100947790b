"""The ledger's rules for searches, on the real embedded target: repeated, stopped at any limit, killed and resumed.

Each of the five searches runs in clean copies of the project (profile `smoke`) that start with nothing paid:

* twice with other values of PYTHONHASHSEED: logs, results and bills must be equal [search_repeat_identical];
* under limits that end it anywhere: the bill may pass none of them by one call [search_overshoot_calls];
* killed with SIGKILL at random moments, then left to finish: it must end as if it had not been
  [search_resume_identical], and no answered call may be paid twice.

    python -m benchmarks.search_rules           # about ten minutes on two cores
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import yaml

from benchmarks.faults import paid_twice, run_or_kill
from benchmarks.record import record
from benchmarks.workspace import ROOT, copy_project, environment
from luthier.files import digest_folder
from luthier.methods import searches

WORK = ROOT / ".cache" / "search-rules"
LIMITS = (41, 97, 150, 233)
"""Budgets in target calls; none is a multiple of anything in the searches."""


def prepare(name: str, limits: Sequence[int]) -> Path:
    """A copy whose searches have these budgets, with its questions drawn."""
    folder = copy_project(WORK / name, profile="smoke")
    path = folder / "profiles" / "smoke.yaml"
    profile = yaml.safe_load(path.read_text())
    profile["compare"] = {"seeds": [17], "unit": "calls", "budgets": list(limits)}
    path.write_text(yaml.safe_dump(profile, sort_keys=False))
    subprocess.run([sys.executable, "-m", "stages.questions"], cwd=folder, env=environment(folder), check=True)
    return folder


def command(method: str) -> list[str]:
    """The stage's command."""
    return [sys.executable, "-m", "stages.search", "--method", method]


def search(folder: Path, method: str, hash_seed: str = "0") -> float:
    """Run one search to its end; wall seconds."""
    started = time.monotonic()
    with (folder / ".cache" / "search.log").open("ab") as log:
        done = subprocess.run(
            command(method),
            cwd=folder,
            env=environment(folder) | {"PYTHONHASHSEED": hash_seed},
            stdout=log,
            stderr=log,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"{method} failed; see {folder / '.cache' / 'search.log'}")
    return time.monotonic() - started


def search_under_fire(folder: Path, method: str, kills: int, seconds: float, moments: random.Random) -> int:
    """Kill a search at random moments of its expected duration, then let it finish; the kills that hit it."""
    hits = 0
    for _ in range(kills):
        patience = moments.uniform(0.2, 1.0) * seconds
        if run_or_kill(command(method), folder, folder / ".cache" / "search.log", patience) is not None:
            break
        hits += 1
    search(folder, method)
    return hits


def found(folder: Path, method: str) -> str:
    """Digest of everything that a search wrote: log, bill, result, program."""
    return digest_folder(folder / "data" / "search" / method)


def calls_spent(folder: Path, method: str) -> int:
    """Target calls at the end of a search, uncached."""
    log = (folder / "data" / "search" / method / "17" / "log.jsonl").read_text().splitlines()
    return int(json.loads(log[-1])["spent"]["calls"])


def main(argv: Sequence[str] | None = None) -> int:
    """Record the three figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=list(searches()))
    parser.add_argument("--kills", type=int, default=2, help="of each search")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the moments of the kills")
    arguments = parser.parse_args(argv)
    shutil.rmtree(WORK, ignore_errors=True)
    first, second, killed = (prepare(name, LIMITS) for name in ("first", "second", "killed"))
    moments = random.Random(arguments.seed)
    unequal, unresumed, hits = [], [], 0
    for method in arguments.methods:
        seconds = search(first, method, "1")
        search(second, method, "2")
        unequal += [method] if found(first, method) != found(second, method) else []
        hits += search_under_fire(killed, method, arguments.kills, seconds, moments)
        unresumed += [method] if found(first, method) != found(killed, method) else []
    print(f"unequal {unequal}, not resumed {unresumed}, {hits} kills", file=sys.stderr)
    record("search_repeat_identical", float(not unequal), unit="yes/no", n=len(arguments.methods))
    whole = not unresumed and not paid_twice(killed)
    record("search_resume_identical", float(whole), unit="yes/no", n=hits)
    over = [calls_spent(first, method) - max(LIMITS) for method in arguments.methods]
    for limit in LIMITS[:-1]:
        folder = prepare(f"limit-{limit}", [limit])
        for method in arguments.methods:
            search(folder, method)
            over.append(calls_spent(folder, method) - limit)
    record("search_overshoot_calls", max(0, *over), unit="calls, most of all searches and limits", n=len(over))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
