"""A clean copy of the project in a folder of its own, for measurements that build it from scratch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent


def copy_project(folder: Path, *, profile: str, seed: int | None = None, store: Path | None = None) -> Path:
    """Copy every file that git knows or would take, choose profile and seed, share the prepared weights.

    Args:
        folder: Where to; must not exist.
        profile: Written into its params.yaml.
        seed: Likewise, unless None.
        store: A store whose answers the copy starts with; None starts with nothing paid.

    Returns:
        `folder`, a git checkout of its own with one commit.
    """
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\n")
    for name in filter(None, listed):
        if (ROOT / name).is_file() and name != "dvc.lock":
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    params = yaml.safe_load((folder / "params.yaml").read_text())
    params["profile"] = profile
    params["seed"] = params["seed"] if seed is None else seed
    (folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    (folder / ".cache").mkdir()
    weights = ROOT / ".cache" / "weights"
    weights.mkdir(parents=True, exist_ok=True)
    (folder / ".cache" / "weights").symlink_to(weights)
    if store is not None:
        shutil.copy2(store, folder / ".cache" / "store.sqlite")
    identity = ["-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost"]
    for command in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "-m", "Copy"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Environment in which the copy's own code runs, quiet and offline, with this interpreter's packages."""
    bin_folder = str(Path(sys.executable).parent)
    quiet = {
        "DVC_NO_ANALYTICS": "1",
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(folder),
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
    }
    return {**os.environ, **quiet}


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
    """DVC's digest of every data set and checkpoint of a built copy; reports hold costs and are left out."""
    lock = yaml.safe_load((folder / "dvc.lock").read_text())
    return {
        out["path"]: out["md5"]
        for stage in lock["stages"].values()
        for out in stage.get("outs", [])
        if not out["path"].startswith("reports/")
    }
