"""`Checkpoint`: a trained model with everything recorded about where it comes from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from luthier.files import digest_file, md5_file
from luthier.lineage.sources import StageFacts
from luthier.reading import read_object, shaped

TRAINING_FILE = "training.json"


@dataclass(frozen=True, slots=True)
class Training:
    """What a training stage reports beside its weights, in `training.json`.

    Attributes:
        settings: Every setting that the phase used.
        seed: Seed of the training.
        parent: Digest of the parent model's folder.
        inputs: Digest of each input by name; "target" is the frozen target's fingerprint where one was asked.
        curve: One row per logged step: `step` and named numbers (reward, validity, KL, length, loss).
    """

    settings: Mapping[str, Any]
    seed: int
    parent: str
    inputs: Mapping[str, str]
    curve: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A trained model and everything recorded about where it comes from.

    Attributes:
        model_id, run_id, experiment_id: MLflow's ids of the checkpoint, its run and its experiment.
        method, phase, stage: "mas_architect", "sft", "sft@mas_architect".
        aliases: Aliases that point here now.
        path: Its folder, relative to the project.
        digest, files: SHA-256 of the folder, and of each file by name.
        parent, parent_digest: The checkpoint it was trained from; None for a base model, which has a digest only.
        stages: Every DVC stage it was made from, by name, itself included, as recorded at training.
        commit, changed: Code revision, and the paths that differed from it.
        params_digest, packages_digest: SHA-256 of the settings and of the package locks.
        target: Fingerprint of the frozen target ("" where the phase asked none).
        seed: Seed of the training.
        ledger: What the phase spent, by name; None is unknown.
        scores: Scores by name.
        scores_digest: Digest of the evaluation file that they came from ("" before the first).
        md5s: MD5 of each file by name, under which DVC's cache keeps it; empty in old records.
        imported: Whether it was recorded from `dvc.lock` and git; the commit is then the first that holds it.
    """

    model_id: str
    run_id: str
    experiment_id: str
    method: str
    phase: str
    stage: str
    aliases: tuple[str, ...]
    path: str
    digest: str
    files: Mapping[str, str]
    parent: Checkpoint | None
    parent_digest: str
    stages: Mapping[str, StageFacts]
    commit: str
    changed: tuple[str, ...]
    params_digest: str
    packages_digest: str
    target: str
    seed: int
    ledger: Mapping[str, float | None]
    scores: Mapping[str, float]
    scores_digest: str
    md5s: Mapping[str, str]
    imported: bool


def read_training(folder: Path) -> Training:
    """Read a model folder's `training.json`.

    Raises:
        InputError: the file is missing, is not JSON, or lacks a field.
    """
    path = folder / TRAINING_FILE
    fix = "run the training stage again"
    row = read_object(path, fix=fix)
    with shaped("not a training record", where=str(path), fix=fix):
        return Training(row["settings"], row["seed"], row["parent"], row["inputs"], row["curve"])


def file_digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file of a folder by its name in it; empty when there is no folder."""
    return {p.relative_to(folder).as_posix(): digest_file(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def file_md5s(folder: Path) -> dict[str, str]:
    """MD5 of each file of a folder by its name in it, which is how DVC's cache names it."""
    return {p.relative_to(folder).as_posix(): md5_file(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def dvc_digest(md5s: Mapping[str, str]) -> str:
    """DVC's digest of a folder with these files, as `dvc.lock` names it."""
    listed = [{"md5": md5, "relpath": name} for name, md5 in sorted(md5s.items())]
    return hashlib.md5(json.dumps(listed).encode(), usedforsecurity=False).hexdigest() + ".dir"


def shorten(digest: str) -> str:
    """The first digits of a digest, enough for a person to compare."""
    return digest[:12]


def show_number(value: float | None) -> str:
    """A number for a person; what is not known is "unknown", never 0."""
    return "unknown" if value is None else f"{value:,.6g}"
