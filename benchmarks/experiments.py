"""DVC experiments beside the workspace: two from the queue and one in a temporary folder, each with a seed of its own.

A clean copy of the project is built and committed; then three experiments train in folders of their own, two of them
at a time. Each must end in a checkpoint of its own seed with a pedigree of its own, and the workspace must be as it
was: files, `dvc.lock`, and the checkpoints behind `candidate` and `champion`.

    python -m benchmarks.experiments      # profile smoke: about a quarter of an hour on two cores
"""

from __future__ import annotations

import argparse
import csv
import io
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.record import record
from benchmarks.workspace import ROOT, copy_project, environment, repro
from luthier.files import digest_folder, digest_text
from luthier.lineage import CANDIDATE, CHAMPION, ensure_store

WORK = ROOT / ".cache" / "experiments"
METHOD = "mas_architect"
QUEUED, APART = {"queued-18": 18, "queued-19": 19}, {"apart-20": 20}
PATIENCE_SECONDS = 3600


def dvc(folder: Path, *arguments: str) -> str:
    """What `dvc` prints in a folder.

    Raises:
        SystemExit: it failed.
    """
    done = subprocess.run(["dvc", *arguments], cwd=folder, env=environment(folder), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"dvc {' '.join(arguments)} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def build(profile: str, target: str) -> Path:
    """A built and committed copy."""
    shutil.rmtree(WORK, ignore_errors=True)
    folder = copy_project(WORK, profile=profile)
    if repro(folder, target).returncode:
        raise SystemExit(f"the build failed; see {folder / '.cache' / 'repro.log'}")
    commit = ["git", "-c", "user.name=luthier", "-c", "user.email=luthier@localhost", "commit", "-qam", "Build"]
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    subprocess.run(commit, cwd=folder, check=True)
    return folder


def run_experiments(folder: Path, target: str) -> None:
    """All three, the queued ones at the same time."""
    for name, seed in QUEUED.items():
        dvc(folder, "exp", "run", "--queue", "-n", name, "-S", f"seed={seed}", target)
    dvc(folder, "queue", "start", "-j", str(len(QUEUED)))
    for name, seed in APART.items():
        dvc(folder, "exp", "run", "--temp", "-n", name, "-S", f"seed={seed}", target)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while "Running" in (status := dvc(folder, "queue", "status")) or "Queued" in status:
        if time.monotonic() > deadline:
            raise SystemExit(f"the queue does not end:\n{status}")
        time.sleep(5)
    print(status, file=sys.stderr)


def state(folder: Path) -> dict[str, str]:
    """Digests of what an experiment must leave alone, and the checkpoints behind both aliases."""
    found = {name: digest_folder(folder / name) for name in ("data", "models")}
    found |= {name: digest_text((folder / name).read_text()) for name in ("dvc.lock", "params.yaml")}
    client = ensure_store(folder)
    registered = {model.name: model.aliases for model in client.search_registered_models()}
    return found | {alias: str(registered.get(METHOD, {}).get(alias)) for alias in (CANDIDATE, CHAMPION)}


def checkpoints(folder: Path, phase: str) -> dict[str, Any]:
    """MLflow's models of a phase by the experiment that made them."""
    client = ensure_store(folder)
    places = [item.experiment_id for item in client.search_experiments()]
    models = client.search_logged_models(places)
    return {
        model.tags["dvc.experiment"]: model
        for model in models
        if model.tags.get("phase") == phase and model.tags.get("dvc.experiment")
    }


def faults(folder: Path, before: dict[str, str]) -> list[str]:
    """What is not as it should be, in words."""
    after = state(folder)
    found = [f"{name} of the workspace changed" for name in before if after[name] != before[name]]
    shown = {row["Experiment"]: row for row in csv.DictReader(io.StringIO(dvc(folder, "exp", "show", "--csv")))}
    for phase in ("sft", "reinforce"):
        made = checkpoints(folder, phase)
        digests = {model.tags["folder.digest"] for model in made.values()}
        if len(digests) < len(QUEUED | APART):
            found.append(f"only {len(digests)} checkpoints of {phase}")
        for name, seed in (QUEUED | APART).items():
            if name not in made or made[name].tags["seed"] != str(seed) or shown.get(name, {}).get("seed") != str(seed):
                found.append(f"{phase} of {name} is not recorded with seed {seed}")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Build, run three experiments, record whether each is its own and the workspace untouched."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="smoke")
    parser.add_argument("--target", default=f"evaluate@{METHOD}")
    arguments = parser.parse_args(argv)
    folder = build(arguments.profile, arguments.target)
    before = state(folder)
    run_experiments(folder, arguments.target)
    found = faults(folder, before)
    print("\n".join(found) or "each experiment is its own, the workspace untouched", file=sys.stderr)
    record("seams_exp", float(not found), unit="yes/no", n=len(QUEUED | APART), seeds=[*(QUEUED | APART).values()])
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
