"""What lineage writes on an MLflow run or model, and reads back: plain names and texts, no MLflow in here."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from luthier.files import md5_file
from luthier.ledger.budget import UNITS, Amount
from luthier.ledger.entries import Line
from luthier.lineage.checkpoint import Checkpoint
from luthier.lineage.sources import (
    LOCK_FILE,
    PARAMS_FILE,
    StageFacts,
    packages_digest,
    params_digest,
    read_code,
    related,
)
from luthier.reading import shaped

SCORED_TAG = "evaluate.digest"
MD5_TAG = "md5."
"""Before the name of each file of a checkpoint: its MD5, under which DVC's cache keeps it."""
DVC_FOLDER_TAG = "dvc.md5"
"""DVC's digest of the whole folder, as `dvc.lock` names it."""
IMPORTED_TAG = "luthier.imported"
"""Set on what was recorded from `dvc.lock` and git, not by the process that trained it."""


@dataclass(frozen=True, slots=True)
class Revision:
    """What a run starts from: code, settings, packages.

    Attributes:
        tags: As they stand on the run; what is empty is left out.
        params: Text of `params.yaml`.
        settings: `params.yaml` and its profile, nested, as written there.
    """

    tags: Mapping[str, str]
    params: str
    settings: Mapping[str, Any]


def read_revision(root: Path, commit: str = "") -> Revision:
    """The revision of a project's folder.

    Args:
        root: The project's folder, or a copy of its settings.
        commit: The commit that the copy is of; "" for a git repository, which is asked.
    """
    params = (root / PARAMS_FILE).read_text(encoding="utf-8")
    settings = yaml.safe_load(params) or {}
    profile = root / "profiles" / f"{settings.get('profile')}.yaml"
    if profile.is_file():
        settings |= yaml.safe_load(profile.read_text(encoding="utf-8")) or {}
    changed = () if commit else (code := read_code(root)).changed
    tags = {
        "git.commit": commit or code.commit,
        "git.dirty": str(bool(changed)).lower(),
        "git.changed": "\n".join(changed)[:4000],
        "params.sha": params_digest(root),
        "lock.sha": packages_digest(root),
        "dvc.lock.md5": _lock_md5(root),
        "dvc.experiment": os.environ.get("DVC_EXP_NAME", ""),
    }
    return Revision({tag: value for tag, value in tags.items() if value}, params, settings)


def _lock_md5(root: Path) -> str:
    path = root / LOCK_FILE
    return md5_file(path) if path.is_file() else ""


def pedigree_tags(stage: StageFacts, sources: Sequence[StageFacts]) -> dict[str, str]:
    """DVC digests of everything upstream by path, and each stage as it ran.

    Code that a stage depends on is left out: the commit holds it, and MLflow cuts a tag at 8,000 characters.
    """
    written = {out.path for source in sources for out in source.outs}
    tags: dict[str, str] = {}
    for source in sources:
        tags |= {f"dvc.{out.path}.md5": out.md5 for out in source.outs}
    for facts in (stage, *sources):
        deps = {path: md5 for path, md5 in facts.deps.items() if any(related(path, out) for out in written)}
        data = StageFacts(facts.name, deps, facts.outs)
        tags[f"stage.{facts.name.replace('@', '/')}"] = data.to_json()
    return tags


def data_read(stage: StageFacts, sources: Sequence[StageFacts]) -> list[tuple[str, str]]:
    """Path and DVC digest of what the stage read from other stages, code files left out."""
    written = {out.path for source in sources for out in source.outs}
    return [(path, md5) for path, md5 in sorted(stage.deps.items()) if path in written]


def ledger_totals(lines: Sequence[Line]) -> dict[str, float | None]:
    """Ledger lines as flat names: `train.target.calls` is paid, `train.target.alone.calls` is uncached.

    Phases of the same account and role are summed. An unknown price stays None.
    """
    sums: dict[str, Amount] = {}
    for line in lines:
        for name, amount in (("", line.paid), ("alone.", line.alone)):
            key = f"{line.account}.{line.role}.{name}"
            sums[key] = sums.get(key, Amount()) + amount
    return {f"{key}{unit}": amount.get(unit) for key, amount in sums.items() for unit in UNITS}


def flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as dotted names."""
    flat: dict[str, str] = {}
    for key, item in sorted(value.items()):
        if isinstance(item, Mapping):
            flat |= flatten(item, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = str(item)
    return flat


def tags_to_checkpoint(
    tags: Mapping[str, str],
    *,
    model_id: str,
    run_id: str,
    experiment_id: str,
    aliases: tuple[str, ...],
    parent: Checkpoint | None,
    scores: Mapping[str, float],
) -> Checkpoint:
    """A checkpoint from the tags of its MLflow model, and what MLflow keeps apart from tags."""
    with shaped("not the tags of a checkpoint", where=f"MLflow model {model_id}", fix="train it again"):
        stages = [StageFacts.from_json(value) for tag, value in sorted(tags.items()) if tag.startswith("stage.")]
        return Checkpoint(
            model_id=model_id,
            run_id=run_id,
            experiment_id=experiment_id,
            method=tags["method"],
            phase=tags["phase"],
            stage=tags["dvc.stage"],
            aliases=aliases,
            path=tags["path"],
            digest=tags["folder.digest"],
            files={tag.removeprefix("file."): value for tag, value in sorted(tags.items()) if tag.startswith("file.")},
            parent=parent,
            parent_digest=tags["parent.digest"],
            stages={facts.name: facts for facts in stages},
            commit=tags["git.commit"],
            changed=tuple(line for line in tags.get("git.changed", "").splitlines() if line),
            params_digest=tags["params.sha"],
            packages_digest=tags["lock.sha"],
            target=tags["target.fingerprint"],
            seed=int(tags["seed"]),
            ledger=json.loads(tags["ledger"]),
            scores=scores,
            scores_digest=tags.get(SCORED_TAG, ""),
            md5s={tag.removeprefix(MD5_TAG): value for tag, value in sorted(tags.items()) if tag.startswith(MD5_TAG)},
            imported=IMPORTED_TAG in tags,
        )
