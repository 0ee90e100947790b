"""A clean copy of the project in a folder of its own, where a build with another seed or profile disturbs nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import yaml

from luthier.errors import StoreError

COPIES = Path(".cache/replicas")


def project_and_copies(root: Path) -> list[Path]:
    """The project's folder, then the copies in which its replicas are built."""
    return [root, *sorted(folder for folder in (root / COPIES).glob("*") if folder.is_dir())]


def copy_project(root: Path, folder: Path, *, profile: str, seed: int | None = None, store: Path | None = None) -> Path:
    """Copy every file that git knows or would take, choose profile and seed, share the prepared weights.

    A folder that is already such a copy gets the files that changed since and loses those that are gone, so that DVC
    builds again what they concern and nothing else.

    Args:
        root: The project's folder.
        folder: Where to.
        profile: Written into its params.yaml.
        seed: Likewise, unless None.
        store: A store whose answers a new copy starts with; None starts with nothing paid.

    Returns:
        `folder`, a git checkout of its own with one commit for each time that something changed.

    Raises:
        StoreError: the store cannot be read.
    """
    names = _files(root)
    if (folder / ".git").exists():
        for name in sorted({*_files(folder)} - {*names}):
            (folder / name).unlink()
    for name in names:
        source, copy = root / name, folder / name
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
    params = yaml.safe_load((folder / "params.yaml").read_text())
    params["profile"] = profile
    params["seed"] = params["seed"] if seed is None else seed
    (folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    if not (folder / ".cache").exists():
        (folder / ".cache").mkdir()
        weights = root / ".cache" / "weights"
        weights.mkdir(parents=True, exist_ok=True)
        (folder / ".cache" / "weights").symlink_to(weights)
        if store is not None:
            _copy_store(store, folder / ".cache" / "store.sqlite")
    _commit(folder)
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
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": str(folder),
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
    }
    # What an outer DVC or Prefect tells its stage would tie the copy to the project it came from.
    ties = ("DVC_", "PREFECT_", "MLFLOW_", "GIT_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ties)} | quiet


def _files(root: Path) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\n")
    return [name for name in listed if name and (root / name).is_file() and name not in ("dvc.lock", "params.yaml")] + [
        "params.yaml"
    ]


def _copy_store(store: Path, copy: Path) -> None:
    """Through SQLite: the newest answers of a store in use are not in its file yet."""
    try:
        with closing(sqlite3.connect(store)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
    except sqlite3.Error as error:
        raise StoreError(
            f"cannot copy the store ({error})", where=str(store), fix="run `luthier store repair`, or move it away"
        ) from error


def _commit(folder: Path) -> None:
    if not (folder / ".git").exists():
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    changed = subprocess.run(["git", "diff", "--cached", "--quiet"], cwd=folder, check=False).returncode
    if changed:
        identity = ["-c", "user.name=luthier", "-c", "user.email=luthier@localhost"]
        subprocess.run(["git", *identity, "commit", "-q", "-m", "Copy"], cwd=folder, check=True)
