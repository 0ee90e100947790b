"""Lineage: every phase, checkpoint and score is recorded in MLflow, with its pedigree.

MLflow owns checkpoints and their scores, DVC owns data; a tag links the two. What is recorded is opened, found and
printed by `luthier.registry`, whose functions are also reached from here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luthier.errors import BudgetExhausted, LuthierError
from luthier.files import digest_file, digest_folder, digest_text, locked
from luthier.owners import owner_of
from luthier.pedigree import file_digests, read_training
from luthier.registry import (
    CANDIDATE,
    CHAMPION,
    PIPELINE_EXPERIMENT,
    STORE_FOLDER,
    Promotion,
    challenge,
    checkpoint_of,
    ensure_store,
    experiment_id_of,
    find,
    model_by_digest,
    open_client,
    promote,
    tree,
    verify,
)
from luthier.revision import (
    PARAMS_FILE,
    find_root,
    read_stages,
    running_stage,
    upstream,
)
from luthier.tags import SCORED_TAG, data_read, flatten, pedigree_tags, revision_tags

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.logged_model import LoggedModel

__all__ = [
    "CANDIDATE",
    "CHAMPION",
    "STORE_FOLDER",
    "PhaseRun",
    "Promotion",
    "challenge",
    "checkpoint_of",
    "ensure_store",
    "find",
    "log_checkpoint",
    "log_curves",
    "log_scores",
    "mark_scored",
    "promote",
    "start_phase",
    "tree",
    "verify",
]

# Longest setting or problem text that a person reads in MLflow's tables; the files hold the whole.
_PARAM_LENGTH = 500


@dataclass(frozen=True, slots=True)
class PhaseRun:
    """An open MLflow run of one phase of one method.

    Attributes:
        root: The project's folder.
        run_id, pipeline_run_id, experiment_id: MLflow's ids of the run, its parent run and its experiment.
        phase, method: "sft", "mas_architect".
    """

    root: Path
    run_id: str
    pipeline_run_id: str
    experiment_id: str
    phase: str
    method: str


@contextmanager
def start_phase(
    phase: str, method: str, *, root: Path | None = None, tags: Mapping[str, str] | None = None
) -> Iterator[PhaseRun]:
    """Open a run of one phase under its pipeline's run, and close both whatever happens.

    The experiment is named after the phase, which is the DVC stage's name. There is one pipeline run per code
    revision and parameters; it is linked by `mlflow.parentRunId`.

    Args:
        phase: "sft", "reinforce", "evaluate", ...
        method: "mas_architect".
        root: The project's folder; found from the working directory if not given.
        tags: Further tags, such as `prefect.flow_run_id`.

    Yields:
        The run; it ends FINISHED, KILLED (interrupted or cancelled) or FAILED, with the problem as a tag.
    """
    root = (root or find_root()).resolve()
    client = ensure_store(root)
    store = root / STORE_FOLDER
    facts = (
        revision_tags(root)
        | {"luthier.owner": owner_of(os.getpid())}
        | dict(tags or {})
        | {"phase": phase, "method": method}
    )
    with locked(store / ".lock"):
        pipeline_id = _pipeline_run(client, store, facts)
        experiment_id = experiment_id_of(client, store, phase)
    run = client.create_run(
        experiment_id,
        run_name=f"{phase} {method}",
        tags=facts | {"mlflow.parentRunId": pipeline_id, "dvc.stage": os.environ.get("DVC_STAGE", f"{phase}@{method}")},
    )
    status, problem = "FAILED", ""
    try:
        client.log_text(run.info.run_id, (root / PARAMS_FILE).read_text(encoding="utf-8"), PARAMS_FILE)
        yield PhaseRun(root, run.info.run_id, pipeline_id, experiment_id, phase, method)
        status = "FINISHED"
    except BaseException as error:
        problem = f"{type(error).__name__}: {error}"
        stopped = isinstance(error, LuthierError) and error.stopped
        if stopped or not isinstance(error, Exception | BudgetExhausted):
            status = "KILLED"
        raise
    finally:
        if problem:
            client.set_tag(run.info.run_id, "luthier.problem", problem[:_PARAM_LENGTH])
        client.set_terminated(run.info.run_id, status)
        client.set_terminated(pipeline_id, status)


def log_curves(run: PhaseRun, rows: Sequence[Mapping[str, Any]]) -> None:
    """Log learning curves: every number of a row beside its `step` becomes a point of that name."""
    from mlflow.entities import Metric
    from mlflow.utils.time import get_current_time_millis

    now = get_current_time_millis()
    points = [
        Metric(key, float(value), now, int(row["step"]))
        for row in rows
        for key, value in sorted(row.items())
        if key != "step" and isinstance(value, int | float)
    ]
    client = open_client(run.root / STORE_FOLDER)
    for start in range(0, len(points), 1000):
        client.log_batch(run.run_id, metrics=points[start : start + 1000])


def log_checkpoint(run: PhaseRun, folder: Path, ledger: Mapping[str, float | None] | None = None) -> str:
    """Record a model folder as an MLflow LoggedModel with its pedigree, and make it the method's candidate.

    Args:
        run: The training's run.
        folder: Holds `training.json`, the weights and the tokenizer; lies under the project's folder.
        ledger: What the phase spent, as `luthier.tags.ledger_totals` gives it.

    Returns:
        MLflow's id of the model ("m-...").

    Raises:
        InputError: `training.json` is missing or broken.
    """
    import mlflow
    from mlflow.entities import RunTag

    training = read_training(folder)
    client = open_client(run.root / STORE_FOLDER)
    stage = running_stage(run.root, _stage_name(client, run))
    sources = upstream(stage, read_stages(run.root))
    parent = model_by_digest(client, training.parent)
    tags = _inherited_tags(client, run) | pedigree_tags(stage, sources)
    tags |= {f"file.{name}": digest for name, digest in file_digests(folder).items()}
    tags |= {
        "path": os.path.relpath(folder.resolve(), run.root),
        "folder.digest": digest_folder(folder),
        "parent.digest": training.parent,
        "parent.model_id": parent.model_id if parent else "",
        "target.fingerprint": training.inputs.get("target", ""),
        "seed": str(training.seed),
        "ledger": json.dumps(dict(ledger or {}), sort_keys=True),
    }
    params = {key: value[:_PARAM_LENGTH] for key, value in flatten(training.settings).items()}
    model = mlflow.create_external_model(
        name=f"{run.method}-{run.phase}",
        source_run_id=run.run_id,
        experiment_id=run.experiment_id,
        params=params,
        tags=tags,
        model_type=run.phase,
    )
    shared = {tag: value for tag, value in tags.items() if tag.startswith(("dvc.", "target."))}
    client.log_batch(run.run_id, tags=[RunTag(tag, value) for tag, value in sorted(shared.items())])
    _link(client, run, model, parent, data_read(stage, sources))
    log_curves(run, training.curve)
    for key, value in sorted((ledger or {}).items()):
        if value is not None:
            client.log_metric(run.run_id, f"ledger.{key}", value, model_id=model.model_id)
    promote(run.method, CANDIDATE, model.model_id, root=run.root)
    return str(model.model_id)


def log_scores(
    run: PhaseRun, model_id: str, split: str, scores: Mapping[str, float], *, questions: Path, target: str = ""
) -> None:
    """Attach scores on one split to a checkpoint.

    Args:
        run: The evaluation's run.
        model_id: The checkpoint.
        split: "validation" or "test"; scores are named `<split>.<name>`.
        scores: Numbers by name; `score` is the mean of the questions' scores, in [0, 1].
        questions: The file of that split; its digest says on which questions the score was earned.
        target: Fingerprint of the frozen target that answered.
    """
    client = open_client(run.root / STORE_FOLDER)
    digest = digest_file(questions)
    for name, value in sorted(scores.items()):
        client.log_metric(
            run.run_id,
            f"{split}.{name}",
            value,
            model_id=model_id,
            dataset_name=split,
            dataset_digest=digest[:32],
        )
    client.set_logged_model_tags(model_id, {f"{split}.questions": digest, f"{split}.target": target})


def mark_scored(model_id: str, digest: str, *, root: Path | None = None) -> None:
    """Note which evaluation file a checkpoint's scores came from, so that they are not logged twice."""
    ensure_store(root).set_logged_model_tags(model_id, {SCORED_TAG: digest})


def _pipeline_run(client: MlflowClient, store: Path, facts: Mapping[str, str]) -> str:
    experiment_id = experiment_id_of(client, store, PIPELINE_EXPERIMENT)
    key = digest_text("\n".join(facts[tag] for tag in ("git.commit", "git.changed", "params.sha")))[:16]
    runs = client.search_runs([experiment_id], f"tags.pipeline = '{key}'", max_results=1)
    if runs:
        run_id = str(runs[0].info.run_id)
        client.set_tag(run_id, "luthier.owner", facts["luthier.owner"])
        client.update_run(run_id, status="RUNNING")
        return run_id
    name = f"pipeline {facts['git.commit'][:8]} {facts['params.sha'][:8]}"
    kept = {tag: value for tag, value in facts.items() if tag not in ("phase", "method")}
    return str(client.create_run(experiment_id, run_name=name, tags=kept | {"pipeline": key}).info.run_id)


# ---- a checkpoint's tags ------------------------------------------------------------------------------------


def _stage_name(client: MlflowClient, run: PhaseRun) -> str:
    return str(client.get_run(run.run_id).data.tags["dvc.stage"])


def _inherited_tags(client: MlflowClient, run: PhaseRun) -> dict[str, str]:
    """The run's own facts; MLflow's tags (user, source) stay with the run."""
    tags = client.get_run(run.run_id).data.tags
    return {tag: value for tag, value in sorted(tags.items()) if not tag.startswith(("mlflow.", "luthier."))}


def _link(
    client: MlflowClient,
    run: PhaseRun,
    model: LoggedModel,
    parent: LoggedModel | None,
    read: Sequence[tuple[str, str]],
) -> None:
    """Show data, parent and checkpoint on the run's page in MLflow."""
    from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelInput, LoggedModelOutput

    commit = client.get_run(run.run_id).data.tags["git.commit"]
    datasets = [
        DatasetInput(
            Dataset(name=path, digest=md5, source_type="local", source=json.dumps({"uri": path})),
            [
                InputTag("mlflow.data.context", "training"),
                InputTag("dvc.path", path),
                InputTag("dvc.md5", md5),
                InputTag("dvc.rev", commit),
            ],
        )
        for path, md5 in read
    ]
    client.log_inputs(run.run_id, datasets, [LoggedModelInput(parent.model_id)] if parent else None)
    client.log_outputs(run.run_id, [LoggedModelOutput(model.model_id, step=0)])
