"""What a person reads on a run's or model's page in MLflow: parameters, source and description."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import Any

from luthier.lineage.checkpoint import Training
from luthier.lineage.tags import Revision, flatten

# Longest setting that a person reads in MLflow's tables; the files hold the whole.
LONGEST_TEXT = 500
# Sections of a profile that decide a learned method's build; those of searches and comparisons do not.
_SECTIONS = ("target", "limits", "questions", "grid", "evaluate")


def source_tags(revision: Revision, command: str) -> dict[str, str]:
    """Who ran what, where MLflow's tables show it."""
    return {
        "mlflow.user": getpass.getuser(),
        "mlflow.source.name": command,
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": revision.tags["git.commit"],
    }


def pipeline_parameters(revision: Revision, method: str) -> dict[str, str]:
    """Parameters of a pipeline's run: everything that `params.yaml` and its profile say for the method."""
    settings = revision.settings
    chosen = {section: settings[section] for section in (*_SECTIONS, method) if settings.get(section) is not None}
    return _cut({**common_parameters(revision, method), **flatten(chosen)})


def common_parameters(revision: Revision, method: str) -> dict[str, str]:
    """Parameters of every run: method, task, profile and seed, where the settings name them."""
    settings = revision.settings
    task = settings.get("task")
    named: dict[str, Any] = {
        "method": method,
        "task": task.get("name") if isinstance(task, Mapping) else task,
        "profile": settings.get("profile"),
        "seed": settings.get("seed"),
    }
    return {name: str(value) for name, value in named.items() if value is not None}


def training_parameters(training: Training) -> dict[str, str]:
    """Parameters of a training run and of its checkpoint: every setting that the phase used, and its seed."""
    return _cut({**flatten(training.settings), "seed": str(training.seed)})


def pipeline_name(revision: Revision, method: str) -> str:
    """Name of a pipeline's run."""
    seed = f", seed {revision.settings['seed']}" if "seed" in revision.settings else ""
    return f"{method}{seed}"


def about_pipeline(revision: Revision, method: str) -> str:
    """Description of a pipeline's run."""
    lines = [
        f"One build of **{method}**: its runs of training and evaluation are nested below, its scores are those of the"
        " last checkpoint.",
        "",
        f"* code: commit `{revision.tags['git.commit'][:12]}`{_dirty(revision)}",
        "* the report is under *Artifacts*, once `dvc repro report` has drawn it",
    ]
    return "\n".join(lines)


def about_checkpoint(method: str, phase: str, path: str, digest: str, revision: Revision, *, imported: bool) -> str:
    """Description of a checkpoint and of the run that trained it."""
    trained = f"Trained by `dvc repro {phase}@{method}`."
    how = "Not recorded when it was trained: read from `dvc.lock` and git." if imported else trained
    lines = [
        f"Generator of **{method}** after *{phase}*. {how}",
        "",
        f"* weights: `{path}` (kept by DVC, not copied into MLflow), sha256 `{digest[:12]}`",
        f"* code: commit `{revision.tags['git.commit'][:12]}`{_dirty(revision)}",
        f"* pedigree: `luthier lineage {method}/{phase}`; built again and compared: `luthier verify {method}/{phase}`",
        f'* use, in the project\'s folder: `luthier ask --with {method}/{phase} "..."`, or in Python'
        " `mlflow.pyfunc.load_model(...).predict([...])`",
    ]
    return "\n".join(lines)


def about_evaluation(method: str, phase: str, path: str) -> str:
    """Description of the evaluation of one checkpoint."""
    return (
        f"Scores of **{method}** after *{phase}* alone (`{path}`): mean of the questions' scores with a bootstrap"
        " interval, and the mean of each family."
    )


def about_method(method: str) -> str:
    """Description of a method's name in the registry."""
    return (
        f"Generators that **{method}** trained. `candidate` is the newest, `champion` the best so far on validation"
        " (a candidate must beat it on the same questions with the same target). Each version's weights stay under"
        " `models/`, kept by DVC."
    )


def _dirty(revision: Revision) -> str:
    changed = revision.tags.get("git.changed", "").splitlines()
    return f", with uncommitted changes in {', '.join(changed[:5])}" if changed else ""


def _cut(parameters: Mapping[str, str]) -> dict[str, str]:
    return {name: value[:LONGEST_TEXT] for name, value in parameters.items()}
