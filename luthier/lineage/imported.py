"""Checkpoints that DVC brought: recorded in this folder's MLflow from `dvc.lock`, git and their own `training.json`.

A clone that ran `dvc pull` holds the weights, but the MLflow store of whoever trained them stays there. Everything
that a pedigree needs lies in the clone all the same: what each stage read and wrote (`dvc.lock`), the code and the
settings (the first commit whose `dvc.lock` names the checkpoint), settings, seed, parent and curve (`training.json`),
scores and bill (outputs of the stage `evaluate`). Nothing here depends on when or where it is recorded.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from luthier.evaluation.method_run import Spend
from luthier.files import digest_folder
from luthier.ledger.entries import Line
from luthier.lineage.checkpoint import TRAINING_FILE, dvc_digest, file_md5s
from luthier.lineage.record import log_checkpoint, start_phase
from luthier.lineage.registry import all_models
from luthier.lineage.scores import PHASE, score_models, scores_file
from luthier.lineage.sources import LOCK_FILE, PARAMS_FILE, Output, StageFacts, commit_of, read_stages, restore
from luthier.lineage.store import ensure_store
from luthier.lineage.tags import DVC_FOLDER_TAG, IMPORTED_TAG, Revision, ledger_totals, read_revision
from luthier.method import TRAINING
from luthier.reading import parse_json, read_text, shaped
from luthier.settings.load import PHASES_FILE

if TYPE_CHECKING:
    from mlflow.entities.logged_model import LoggedModel

_MODELS = "models/"
# Where the stage `evaluate` writes bills: first with what was paid, then uncached.
_BILLS = ("reports/paid", "reports/spending")
# What the revision of a run is read from.
_SETTINGS = (PARAMS_FILE, PHASES_FILE, LOCK_FILE, "profiles", "requirements")


def import_checkpoints(root: Path) -> list[str]:
    """Record every checkpoint of `dvc.lock` that lies on disk and that MLflow does not know, parents first.

    A folder that differs from `dvc.lock` (a training is writing it, or somebody changed it) is left alone. What is
    imported becomes its method's candidate, as if it had been trained here; it is never made champion.

    Returns:
        MLflow's ids of what was recorded.

    Raises:
        InputError: a checkpoint's `training.json` is missing or broken.
    """
    stages = read_stages(root)
    missing = list(_missing(root, stages))
    if not missing:
        return []
    models: dict[str, dict[str, LoggedModel]] = {}
    revisions: dict[str, Revision] = {}
    client = ensure_store(root)
    ids = []
    for stage, out in missing:
        phase, _, method = stage.name.partition("@")
        revision = _revision(root, out)
        ledger = _bill(root, method, phase)
        with start_phase(phase, method, root=root, revision=revision, tags={IMPORTED_TAG: LOCK_FILE}) as run:
            model_id = log_checkpoint(run, root / out.path, ledger, imported=stage)
        models.setdefault(method, {})[phase] = client.get_logged_model(model_id)
        revisions[method] = revision
        ids.append(model_id)
    for method, found in models.items():
        evaluated = _evaluated(root, stages, method)
        scored = {phase: model for phase, model in found.items() if phase in evaluated}
        score_models(method, scored, root=root, revision=revisions[method], tags={IMPORTED_TAG: LOCK_FILE})
    return ids


def _missing(root: Path, stages: dict[str, StageFacts]) -> Iterator[tuple[StageFacts, Output]]:
    """Stages with their checkpoint, in the order of training."""
    outs = [
        (stages[name], out)
        for phase in TRAINING
        for name in stages
        if name.partition("@")[0] == phase
        for out in stages[name].outs
        if out.path.startswith(_MODELS) and (root / out.path / TRAINING_FILE).is_file()
    ]
    if not outs:
        return
    models = all_models(ensure_store(root))
    known = {model.tags.get(tag) for model in models for tag in (DVC_FOLDER_TAG, "folder.digest")}
    for stage, out in outs:
        folder = root / out.path
        if out.md5 in known or digest_folder(folder) in known or dvc_digest(file_md5s(folder)) != out.md5:
            continue
        yield stage, out


def _revision(root: Path, out: Output) -> Revision:
    """Of the first commit whose `dvc.lock` names this output; of the folder as it is when none does yet."""
    commit = commit_of(root, out.md5)
    if not commit:
        return read_revision(root)
    with tempfile.TemporaryDirectory(prefix="luthier-settings-") as folder:
        restore(root, commit, _SETTINGS, Path(folder))
        return read_revision(Path(folder), commit)


def _evaluated(root: Path, stages: dict[str, StageFacts], method: str) -> set[str]:
    """Phases whose checkpoint in `dvc.lock` the evaluation on disk has read, or what it read was made from."""
    evaluation = stages.get(f"{PHASE}@{method}")
    if evaluation is None or not scores_file(root, method).is_file():
        return set()
    read, found = dict(evaluation.deps), set[str]()
    for phase in reversed(TRAINING):
        stage = stages.get(f"{phase}@{method}")
        if stage is not None and any(read.get(out.path) == out.md5 for out in stage.outs):
            found.add(phase)
            read |= stage.deps
    return found


def _bill(root: Path, method: str, phase: str) -> dict[str, float | None]:
    """What a phase's training spent, from the method's bill; empty when there is none.

    The bill tells what had been spent when each checkpoint was done, so a phase is the difference of two.
    """
    path = next((p for folder in _BILLS if (p := root / folder / f"{method}.json").is_file()), None)
    if path is None:
        return {}
    fix = "run the stage evaluate again"
    bill = parse_json(read_text(path, fix=fix), where=str(path), fix=fix)
    with shaped("not a bill", where=str(path), fix=fix):
        until = {row["stage"]: [Spend.from_row(spend) for spend in row["spent"]] for row in bill}
    earlier = [before for before in TRAINING[: TRAINING.index(phase)] if before in until][-1:]
    before = _totals([spend for name in earlier for spend in until.get(name, [])])
    return {
        name: None if value is None or (spent := before.get(name, 0.0)) is None else value - spent
        for name, value in _totals(until.get(phase, [])).items()
    }


def _totals(spends: Sequence[Spend]) -> dict[str, float | None]:
    return ledger_totals(
        [Line(s.account, s.role, "", "", s.paid or s.alone, s.alone, 0, 0, 0) for s in spends if s.account == "train"]
    )
