"""DVC experiments that run in a folder of their own (`dvc exp run --temp`, the queue): their name, what they share.

DVC copies the code into `.dvc/tmp/exps/`, runs the stages there, keeps their outputs in its cache, and deletes the
folder. So whatever must outlive it belongs to the workspace, the folder that the experiment was started from: paid
answers, prepared weights, unfinished training, MLflow's records. Code, settings, data and models are its own.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

SHARED = ("weights", "training", "searches")
"""Folders of `.cache/` that an experiment shares; each of their users holds a lock of its own while it writes."""
STORE = "store.sqlite"


@dataclass(frozen=True, slots=True)
class Experiment:
    """A running DVC experiment.

    Attributes:
        name: As `dvc exp show` and `dvc exp apply` know it.
        baseline: The git commit that it starts from.
        workspace: The project's folder from which it was started.
        apart: Whether it runs in a folder of its own, and not in the workspace.
    """

    name: str
    baseline: str
    workspace: Path
    apart: bool


def running_experiment(root: Path) -> Experiment | None:
    """The experiment that runs in this project's folder now; None outside experiments.

    Args:
        root: The project's folder.
    """
    baseline, workspace = os.environ.get("DVC_EXP_BASELINE_REV"), os.environ.get("DVC_ROOT")
    if not baseline or not workspace:
        return None
    home = Path(workspace).resolve()
    return Experiment(os.environ.get("DVC_EXP_NAME", ""), baseline, home, apart=home != root.resolve())


def workspace_of(root: Path) -> Path:
    """The folder whose caches and records `root` uses: itself, or the workspace that started its experiment."""
    experiment = running_experiment(root)
    return root.resolve() if experiment is None else experiment.workspace


def share_cache(root: Path) -> None:
    """Link what an experiment in a folder of its own shares into its `.cache/`; nothing to do elsewhere."""
    home = workspace_of(root) / ".cache"
    own = root.resolve() / ".cache"
    if home == own:
        return
    own.mkdir(exist_ok=True)
    for name in SHARED:
        (home / name).mkdir(parents=True, exist_ok=True)
    for name in (*SHARED, STORE):
        if not (own / name).is_symlink():
            (own / name).symlink_to(home / name)
