"""Recording in MLflow: a run for each phase, nested in its pipeline's run, and each checkpoint with its pedigree."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luthier.errors import BudgetExhausted, LuthierError
from luthier.experiment import running_experiment
from luthier.files import digest_folder, digest_text, locked
from luthier.lineage import pages
from luthier.lineage.checkpoint import TRAINING_FILE, dvc_digest, file_digests, file_md5s, read_training
from luthier.lineage.figures import spending_metrics, totals
from luthier.lineage.packaging import create_model
from luthier.lineage.registry import CANDIDATE, model_by_digest, promote
from luthier.lineage.sources import PARAMS_FILE, StageFacts, find_root, read_stages, running_stage, upstream
from luthier.lineage.store import ensure_store, experiment_of, open_client, store_of
from luthier.lineage.tags import (
    DVC_FOLDER_TAG,
    IMPORTED_TAG,
    MD5_TAG,
    Revision,
    data_read,
    pedigree_tags,
    read_revision,
)
from luthier.process_owner import owner_of

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput
    from mlflow.entities.logged_model import LoggedModel

SPENDING_FILE = "spending.json"


@dataclass(frozen=True, slots=True)
class PhaseRun:
    """An open MLflow run of one phase of one method.

    Attributes:
        root: The project's folder.
        run_id, pipeline_run_id, experiment_id: MLflow's ids of the run, its parent run and their experiment.
        phase, method: "sft", "mas_architect".
        stage: The DVC stage, "sft@mas_architect".
        revision: Code and settings that it started from.
    """

    root: Path
    run_id: str
    pipeline_run_id: str
    experiment_id: str
    phase: str
    method: str
    stage: str
    revision: Revision


@contextmanager
def start_phase(
    phase: str,
    method: str,
    *,
    root: Path | None = None,
    tags: Mapping[str, str] | None = None,
    revision: Revision | None = None,
    name: str = "",
) -> Iterator[PhaseRun]:
    """Open a run of one phase under its pipeline's run, and close both whatever happens.

    There is one pipeline run for a method, code revision and parameters; it is linked by `mlflow.parentRunId`.

    Args:
        phase: "sft", "reinforce", "evaluate", ...
        method: "mas_architect".
        root: The project's folder; found from the working directory if not given.
        tags: Further tags, such as `prefect.flow_run_id`.
        revision: Code and settings that it started from; read from the folder if not given.
        name: What MLflow calls it; the phase if not given.

    Yields:
        The run; it ends FINISHED, KILLED (interrupted or cancelled) or FAILED, with the problem as a tag.
    """
    root = (root or find_root()).resolve()
    client, store = ensure_store(root), store_of(root)
    revision = revision or read_revision(root)
    stage = os.environ.get("DVC_STAGE", f"{phase}@{method}")
    facts = {**revision.tags, "luthier.owner": owner_of(os.getpid()), **(tags or {})}
    facts |= pages.source_tags(revision, f"dvc repro {stage}") | {"method": method}
    with locked(store / ".lock"):
        experiment_id = experiment_of(client, store)
        pipeline_id = _pipeline_run(client, experiment_id, method, revision, facts)
    own = {"phase": phase, "dvc.stage": stage, "mlflow.parentRunId": pipeline_id}
    run = client.create_run(experiment_id, run_name=name or phase, tags=facts | own)
    status, problem = "FAILED", ""
    try:
        _log_parameters(client, run.info.run_id, pages.common_parameters(revision, method) | {"phase": phase})
        client.log_text(run.info.run_id, revision.params, PARAMS_FILE)
        yield PhaseRun(root, run.info.run_id, pipeline_id, experiment_id, phase, method, stage, revision)
        status = "FINISHED"
    except BaseException as error:
        problem = f"{type(error).__name__}: {error}"
        stopped = isinstance(error, LuthierError) and error.stopped
        if stopped or not isinstance(error, Exception | BudgetExhausted):
            status = "KILLED"
        raise
    finally:
        if problem:
            client.set_tag(run.info.run_id, "luthier.problem", problem[: pages.LONGEST_TEXT])
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
    client = open_client(store_of(run.root))
    for start in range(0, len(points), 1000):
        client.log_batch(run.run_id, metrics=points[start : start + 1000])


def log_checkpoint(
    run: PhaseRun,
    folder: Path,
    ledger: Mapping[str, float | None] | None = None,
    *,
    imported: StageFacts | None = None,
) -> str:
    """Record a model folder as an MLflow LoggedModel with its pedigree, and make it the method's candidate.

    An experiment that runs apart from the workspace records its checkpoint, too, but moves no alias.

    Args:
        run: The training's run.
        folder: Holds `training.json`, the weights and the tokenizer; lies under the project's folder.
        ledger: What the phase spent, as `luthier.lineage.tags.ledger_totals` gives it.
        imported: The stage as `dvc.lock` tells it, when this process did not train it.

    Returns:
        MLflow's id of the model ("m-...").

    Raises:
        InputError: `training.json` is missing or broken.
    """
    training = read_training(folder)
    ledger = dict(ledger or {})
    client = open_client(store_of(run.root))
    stage = imported or running_stage(run.root, run.stage)
    sources = upstream(stage, read_stages(run.root))
    parent = model_by_digest(client, training.parent)
    path, digest, md5s = os.path.relpath(folder.resolve(), run.root), digest_folder(folder), file_md5s(folder)
    about = pages.about_checkpoint(run.method, run.phase, path, digest, run.revision, imported=imported is not None)
    tags = _inherited_tags(client, run) | pedigree_tags(stage, sources)
    tags |= {f"file.{name}": sha for name, sha in file_digests(folder).items()}
    tags |= {f"{MD5_TAG}{name}": md5 for name, md5 in md5s.items()}
    tags |= {
        "path": path,
        "folder.digest": digest,
        DVC_FOLDER_TAG: dvc_digest(md5s),
        "parent.digest": training.parent,
        "parent.model_id": parent.model_id if parent else "",
        "target.fingerprint": training.inputs.get("target", ""),
        "seed": str(training.seed),
        "ledger": json.dumps(ledger, sort_keys=True),
        "mlflow.note.content": about,
    }
    if imported is not None:
        tags[IMPORTED_TAG] = "dvc.lock"
    parameters = pages.training_parameters(training)
    model = create_model(
        client,
        {"method": run.method, "phase": run.phase, "path": path, "digest": digest},
        experiment_id=run.experiment_id,
        run_id=run.run_id,
        params=parameters,
        tags=tags,
    )
    _fill_page(client, run, parameters, {tag: tags[tag] for tag in sorted(tags) if tag.startswith(("dvc.", "target."))})
    client.set_tag(run.run_id, "mlflow.note.content", about)
    client.log_artifact(run.run_id, str(folder / TRAINING_FILE))
    client.log_dict(run.run_id, ledger, SPENDING_FILE)
    _link(client, run, model, parent, datasets(data_read(stage, sources), run.revision.tags["git.commit"]))
    log_curves(run, training.curve)
    for key, value in sorted(spending_metrics(ledger).items()):
        client.log_metric(run.run_id, key, value, model_id=model.model_id)
    for key, value in totals(ledger, run.phase).items():
        client.log_metric(run.pipeline_run_id, key, value)
    experiment = running_experiment(run.root)
    if experiment is None or not experiment.apart:
        promote(run.method, CANDIDATE, model.model_id, root=run.root)
    return str(model.model_id)


def datasets(read: Sequence[tuple[str, str]], commit: str, context: str = "training") -> list[DatasetInput]:
    """Paths and digests as MLflow shows data on a run's page."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    shown = []
    for path, digest in read:
        named = {"mlflow.data.context": context, "dvc.path": path, "dvc.md5": digest, "dvc.rev": commit}
        tags = [InputTag(name, value) for name, value in named.items()]
        source = json.dumps({"uri": path})
        shown.append(DatasetInput(Dataset(path, digest.removesuffix(".dir")[:32], "local", source), tags))
    return shown


def _pipeline_run(
    client: MlflowClient, experiment_id: str, method: str, revision: Revision, facts: Mapping[str, str]
) -> str:
    identity = [method, *(revision.tags.get(tag, "") for tag in ("git.commit", "git.changed", "params.sha"))]
    key = digest_text("\n".join(identity))[:16]
    runs = client.search_runs([experiment_id], f"tags.pipeline = '{key}'", max_results=1)
    if runs:
        run_id = str(runs[0].info.run_id)
        client.set_tag(run_id, "luthier.owner", facts["luthier.owner"])
        client.update_run(run_id, status="RUNNING")
        return run_id
    tags = {**facts, "pipeline": key, "mlflow.note.content": pages.about_pipeline(revision, method)}
    tags["mlflow.source.name"] = "dvc repro report"
    run = client.create_run(experiment_id, run_name=pages.pipeline_name(revision, method), tags=tags)
    _log_parameters(client, run.info.run_id, pages.pipeline_parameters(revision, method))
    return str(run.info.run_id)


def _log_parameters(client: MlflowClient, run_id: str, parameters: Mapping[str, str]) -> None:
    from mlflow.entities import Param

    client.log_batch(run_id, params=[Param(name, value) for name, value in sorted(parameters.items())])


def _fill_page(client: MlflowClient, run: PhaseRun, parameters: Mapping[str, str], tags: Mapping[str, str]) -> None:
    from mlflow.entities import RunTag

    known = client.get_run(run.run_id).data.params
    _log_parameters(client, run.run_id, {name: value for name, value in parameters.items() if name not in known})
    client.log_batch(run.run_id, tags=[RunTag(tag, value) for tag, value in tags.items()])


def _inherited_tags(client: MlflowClient, run: PhaseRun) -> dict[str, str]:
    """The run's own facts; what MLflow and a process say of themselves stays with the run, but not the source."""
    tags = client.get_run(run.run_id).data.tags
    source = {tag: value for tag, value in tags.items() if tag.startswith(("mlflow.source.", "mlflow.user"))}
    return source | {tag: value for tag, value in sorted(tags.items()) if not tag.startswith(("mlflow.", "luthier."))}


def _link(
    client: MlflowClient, run: PhaseRun, model: LoggedModel, parent: LoggedModel | None, read: list[DatasetInput]
) -> None:
    """Show data, parent and checkpoint on the run's page in MLflow, and the checkpoint on the pipeline's."""
    from mlflow.entities import LoggedModelInput, LoggedModelOutput

    client.log_inputs(run.run_id, read, [LoggedModelInput(parent.model_id)] if parent else None)
    for run_id in (run.run_id, run.pipeline_run_id):
        client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
