"""Scores of an evaluation in MLflow: a run for each checkpoint, and the same figures on the run that trained it.

A metric of a run has one value for a name and step, so two checkpoints never share a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luthier.files import digest_file, digest_folder
from luthier.lineage import pages
from luthier.lineage.figures import metric_name
from luthier.lineage.record import PhaseRun, datasets, start_phase
from luthier.lineage.registry import model_by_digest
from luthier.lineage.store import DATABASE, ensure_store, open_client, store_of
from luthier.lineage.tags import SCORED_TAG, Revision
from luthier.method import TRAINING
from luthier.methods import card
from luthier.reading import read_object, shaped

if TYPE_CHECKING:
    from mlflow.entities.logged_model import LoggedModel

PHASE = "evaluate"
SPLITS = ("test", "validation")
# What a person wants to read in a list of runs; means of families stay with the evaluation.
_HEADLINE = ("score", "score.low", "score.high")


@dataclass(frozen=True, slots=True)
class Scored:
    """A checkpoint's mean score with its interval on one split."""

    model_id: str
    phase: str
    split: str
    score: float
    low: float
    high: float

    def to_row(self) -> dict[str, Any]:
        """A row of a table for a person."""
        interval = f"[{self.low:.1%}, {self.high:.1%}]"
        return {"checkpoint": self.phase, "split": self.split, "score": f"{self.score:.1%}", "interval": interval}


def scores_file(root: Path, method: str) -> Path:
    """Where the stage `evaluate` writes a method's scores."""
    return root / "data" / PHASE / method / "scores.json"


def read_scores(path: Path) -> Mapping[str, Any]:
    """The evaluation's `scores.json`: by split and phase, a table with `pooled` mean, low and high.

    Raises:
        InputError: the file is missing or broken, or lacks a field.
    """
    fix = "run the stage evaluate again"
    scores = read_object(path, fix=fix)
    with shaped("not a table of scores", where=str(path), fix=fix):
        for split in SPLITS:
            for phase in trained_phases(scores):
                _pooled(scores[split][phase])
    return scores


def trained_phases(scores: Mapping[str, Any]) -> list[str]:
    """The phases whose checkpoints a table of scores holds, in the order of training."""
    found: list[str] = [phase for phase in TRAINING if phase in scores["test"]]
    if not found:
        raise KeyError(f"test.{TRAINING[0]}")
    return found


def record_scores(
    method: str, *, root: Path, say: Callable[[str], None], tags: Mapping[str, str] | None = None
) -> list[Scored]:
    """Attach the scores in `data/evaluate/<method>/scores.json` to the checkpoints on disk, once per file content.

    Args:
        method: Whose checkpoints.
        root: The project's folder.
        say: Told of a checkpoint on disk that MLflow does not know.
        tags: Further tags of the runs, such as `prefect.flow_run_id`.

    Raises:
        InputError: the scores are missing or broken.
    """
    scores = read_scores(scores_file(root, method))
    client = ensure_store(root)
    models = {}
    for phase in trained_phases(scores):
        model = model_by_digest(client, digest_folder(root / "models" / phase / method))
        if model is None:
            say(f"models/{phase}/{method} is not in MLflow and not in dvc.lock: its scores are not recorded")
        else:
            models[phase] = model
    score_models(method, models, root=root, tags=tags)
    return [
        Scored(model.model_id, phase, split, *_pooled(scores[split][phase]))
        for phase, model in models.items()
        for split in SPLITS
    ]


def score_models(
    method: str,
    models: Mapping[str, LoggedModel],
    *,
    root: Path,
    tags: Mapping[str, str] | None = None,
    revision: Revision | None = None,
) -> None:
    """Record the evaluation of these checkpoints by phase, each in a run of its own, unless it stands there already."""
    path = scores_file(root, method)
    scores, digest = read_scores(path), digest_file(path)
    for phase, model in models.items():
        if model.tags.get(SCORED_TAG) == digest:
            continue
        with start_phase(PHASE, method, root=root, tags=tags, revision=revision, name=f"{PHASE} {phase}") as run:
            open_client(store_of(root)).log_artifact(run.run_id, str(path))
            parts = [(split, part(scores[split][phase])) for part in (_headline, _families) for split in SPLITS]
            for split, numbers in parts:  # MLflow's page lists metrics in this order
                log_scores(
                    run,
                    model.model_id,
                    split,
                    numbers,
                    questions=root / "data" / "questions" / f"{split}.jsonl",
                    target=str(scores.get("target", "")) or model.tags.get("target.fingerprint", ""),
                    last=phase == trained_phases(scores)[-1],
                )
            _mark(run, model, phase, digest)


def log_scores(
    run: PhaseRun,
    model_id: str,
    split: str,
    scores: Mapping[str, float],
    *,
    questions: Path,
    target: str = "",
    last: bool = False,
) -> None:
    """Attach scores on one split to a checkpoint, to its evaluation's run and to the run that trained it.

    Args:
        run: The evaluation's run, of this checkpoint alone.
        model_id: The checkpoint.
        split: "validation" or "test"; scores are named `<split>/<name>`.
        scores: Numbers by name; `score` is the mean of the questions' scores, in [0, 1].
        questions: The file of that split; its digest says on which questions the score was earned.
        target: Fingerprint of the frozen target that answered.
        last: Whether it is the pipeline's last checkpoint, so that its scores are the pipeline's, too.
    """
    client = open_client(store_of(run.root))
    digest = digest_file(questions)
    path = questions.resolve().relative_to(run.root).as_posix()
    read = datasets([(path, digest)], run.revision.tags["git.commit"], "evaluation")
    client.log_inputs(run.run_id, read)
    trained_by = client.get_logged_model(model_id).source_run_id
    for name, value in scores.items():
        key = metric_name(f"{split}.{name}")
        client.log_metric(run.run_id, key, value, model_id=model_id, dataset_name=path, dataset_digest=digest[:32])
        if name in _HEADLINE:
            for run_id in (trained_by, run.pipeline_run_id if last else None):
                if run_id:
                    client.log_metric(run_id, key, value)
    client.set_logged_model_tags(model_id, {f"{split}.questions": digest, f"{split}.target": target})


def log_report(page: Path, method: str, *, root: Path) -> None:
    """Put the report on the page of the pipeline that trained the method's last checkpoint on disk.

    Nothing happens where MLflow does not know that checkpoint: a stage that was run by hand needs no store.
    """
    folder = root / "models" / card(method).checkpoints[-1] / method
    if not (store_of(root) / DATABASE).is_file() or not folder.is_dir():
        return
    client = ensure_store(root)
    model = model_by_digest(client, digest_folder(folder))
    if model is None or not model.source_run_id:
        return
    pipeline_id = client.get_run(model.source_run_id).data.tags.get("mlflow.parentRunId")
    if pipeline_id:
        client.log_artifact(pipeline_id, str(page), "report")


def _mark(run: PhaseRun, model: LoggedModel, phase: str, digest: str) -> None:
    """Note which file the scores came from, so that they are not recorded twice, and describe the run."""
    from mlflow.entities import LoggedModelInput

    client = open_client(store_of(run.root))
    about = pages.about_evaluation(run.method, phase, model.tags["path"])
    client.set_tag(run.run_id, "mlflow.note.content", about)
    client.log_inputs(run.run_id, models=[LoggedModelInput(model.model_id)])
    client.set_tag(run.run_id, "checkpoint", phase)
    client.log_param(run.run_id, "checkpoint", phase)
    client.set_logged_model_tags(model.model_id, {SCORED_TAG: digest})


def _headline(table: Mapping[str, Any]) -> dict[str, float]:
    return dict(zip(_HEADLINE, _pooled(table), strict=True))


def _families(table: Mapping[str, Any]) -> dict[str, float]:
    return {f"family.{family}": float(value) for family, value in table.get("by_family", {}).items()}


def _pooled(table: Mapping[str, Any]) -> tuple[float, float, float]:
    pooled = table["pooled"]
    return float(pooled["mean"]), float(pooled["low"]), float(pooled["high"])
