"""Builds in a clean copy of the project, for measurements that start from scratch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

from flows import copies
from flows.copies import environment

__all__ = ["ROOT", "copy_project", "digests", "environment", "repro"]

ROOT = Path(__file__).resolve().parent.parent


def copy_project(folder: Path, *, profile: str, seed: int | None = None, store: Path | None = None) -> Path:
    """`flows.copies.copy_project` of this project."""
    return copies.copy_project(ROOT, folder, profile=profile, seed=seed, store=store)


def repro(folder: Path, *targets: str) -> subprocess.CompletedProcess[bytes]:
    """Run `dvc repro` in a copy and wait; its output goes to repro.log beside the copy's files."""
    with (folder / ".cache" / "repro.log").open("ab") as log:
        return subprocess.run(
            ["dvc", "repro", *targets],
            cwd=folder,
            env=environment(folder),
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )


def digests(folder: Path) -> dict[str, str]:
    """DVC's digest of every data set, checkpoint and search of a built copy.

    Reports, and the files of the comparison that hold what was paid and how long it took, are left out.
    """
    lock = yaml.safe_load((folder / "dvc.lock").read_text())
    return {
        out["path"]: out["md5"]
        for stage in lock["stages"].values()
        for out in stage.get("outs", [])
        if not out["path"].startswith(("reports/", "data/replicas/", "data/compare"))
    }
