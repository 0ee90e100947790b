"""Lineage: every checkpoint's pedigree, kept in MLflow and printed from there.

MLflow owns checkpoints and their scores, DVC owns data; a tag links the two. The store is one SQLite file,
`mlruns/mlflow.db`, with artifacts in `mlruns/artifacts`; no server is needed. This is the only module that
imports MLflow. It uses clients with explicit run ids, because MLflow's active run is a property of the thread.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luthier.errors import BudgetExhausted, InputError
from luthier.files import digest_file, digest_folder, digest_text, locked
from luthier.owners import is_alive, owner_of
from luthier.pedigree import Checkpoint, file_digests, read_training, render_tree
from luthier.revision import (
    PARAMS_FILE,
    find_root,
    read_stages,
    running_stage,
    upstream,
)
from luthier.tags import SCORED_TAG, data_read, flatten, pedigree_tags, revision_tags, tags_to_checkpoint
from luthier.verification import Verification, rebuild_and_compare

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.logged_model import LoggedModel

STORE_FOLDER = "mlruns"
PIPELINE_EXPERIMENT = "pipeline"
CANDIDATE, CHAMPION = "candidate", "champion"
VALIDATION_SCORE = "validation.score"
_MODEL_URI = "models:/"
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


@dataclass(frozen=True, slots=True)
class Promotion:
    """Whether a candidate became champion, and why or why not."""

    promoted: bool
    reason: str


def ensure_store(root: Path | None = None) -> MlflowClient:
    """Open the MLflow store, creating it once under a file lock.

    A cold SQLite store breaks when several processes create it together. Runs whose process is dead are
    marked FAILED here, so a crash never leaves a run that looks alive.

    Raises:
        InputError: the store was made for another folder and would write its artifacts there.
    """
    root = root or find_root()
    store = root.resolve() / STORE_FOLDER
    with locked(store / ".lock"):
        client = _client(store)
        _experiment(client, store, PIPELINE_EXPERIMENT)
        _fail_stale_runs(client)
    return client


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
        experiment_id = _experiment(client, store, phase)
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
        if not isinstance(error, Exception | BudgetExhausted):
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
    client = _client(run.root / STORE_FOLDER)
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
    client = _client(run.root / STORE_FOLDER)
    stage = running_stage(run.root, _stage_name(client, run))
    sources = upstream(stage, read_stages(run.root))
    parent = _find_by_digest(client, training.parent)
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
    client = _client(run.root / STORE_FOLDER)
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


def promote(name: str, alias: str, model_id: str, *, root: Path | None = None) -> None:
    """Point an alias of the registry's `name` (one per method) at a checkpoint.

    Raises:
        InputError: the alias is not `candidate` or `champion`.
    """
    if alias not in (CANDIDATE, CHAMPION):
        raise InputError(f"alias {alias!r} is unknown", where="promote", fix=f"use {CANDIDATE} or {CHAMPION}")
    from mlflow.exceptions import MlflowException

    client = ensure_store(root)
    try:
        client.get_registered_model(name)
    except MlflowException:
        client.create_registered_model(name)
    source = _MODEL_URI + model_id
    versions = [v for v in client.search_model_versions(f"name='{name}'") if v.source == source]
    version = versions[0] if versions else client.create_model_version(name, source, model_id=model_id)
    client.set_registered_model_alias(name, alias, version.version)


def challenge(name: str, *, root: Path | None = None) -> Promotion:
    """Make the candidate champion if it beats the champion on validation (the rule is ours).

    It does when there is no champion, or when its mean validation score is strictly higher on the same
    validation questions with the same target. Equal scores keep the champion, so that a tie never
    changes what is served; scores of other questions or another target are not compared, and a person decides.
    The test split plays no part.
    """
    client = ensure_store(root)
    candidate, champion = _by_alias(client, name, CANDIDATE), _by_alias(client, name, CHAMPION)
    if candidate is None:
        return Promotion(False, f"{name} has no candidate")
    score = _metric(candidate, VALIDATION_SCORE)
    if score is None:
        return Promotion(False, f"the candidate {candidate.model_id} has no validation score")
    if champion is None:
        promote(name, CHAMPION, candidate.model_id, root=root)
        return Promotion(True, f"first champion, validation score {score:.4f}")
    if champion.model_id == candidate.model_id:
        return Promotion(False, "the candidate is the champion")
    for tag, what in (("validation.questions", "other validation questions"), ("validation.target", "another target")):
        if champion.tags.get(tag, "") != candidate.tags.get(tag, ""):
            return Promotion(False, f"the champion was scored on {what}; promote by hand if you mean it")
    best = _metric(champion, VALIDATION_SCORE)
    if best is not None and score <= best:
        return Promotion(False, f"validation score {score:.4f} does not beat the champion's {best:.4f}")
    promote(name, CHAMPION, candidate.model_id, root=root)
    return Promotion(True, f"validation score {score:.4f} beats {best:.4f}" if best is not None else "no old score")


def find(model: str, *, root: Path | None = None) -> Checkpoint:
    """A checkpoint by name ("mas_architect/reinforce": the newest), alias ("mas_architect@champion") or id ("m-...").

    Raises:
        InputError: no such checkpoint; near names are listed.
    """
    client = ensure_store(root)
    models = _all_models(client)
    if "@" in model:
        name, _, alias = model.partition("@")
        found = _by_alias(client, name, alias)
    elif "/" in model:
        method, _, phase = model.partition("/")
        named = [m for m in models if m.tags.get("method") == method and m.tags.get("phase") == phase]
        found = named[0] if named else None
    else:
        found = next((m for m in models if m.model_id == model), None)
    if found is None:
        raise _unknown_model(client, model, models)
    return _checkpoint(client, found, models)


def checkpoint_of(folder: Path, *, root: Path | None = None) -> Checkpoint | None:
    """The checkpoint whose files are exactly those of a folder; None when none was recorded."""
    client = ensure_store(root)
    model = _find_by_digest(client, digest_folder(folder))
    return _checkpoint(client, model, _all_models(client)) if model else None


def tree(model: str, *, root: Path | None = None) -> str:
    """The pedigree of a checkpoint as a text tree, down to the questions."""
    root = (root or find_root()).resolve()
    return render_tree(find(model, root=root), root)


def verify(model: str, *, root: Path | None = None, say: Callable[[str], None] = lambda line: None) -> Verification:
    """Rebuild a checkpoint from its recorded commit in a clean clone and compare every file.

    Args:
        model: As in `find`.
        root: The project's folder; found from the working directory if not given.
        say: Receives the rebuild's log lines.

    Raises:
        InputError: no such checkpoint, or its code was never committed.
        LuthierError: the rebuild failed.
    """
    root = (root or find_root()).resolve()
    checkpoint = find(model, root=root)
    settings = root / STORE_FOLDER / "artifacts" / checkpoint.run_id / "artifacts" / PARAMS_FILE
    return rebuild_and_compare(checkpoint, root, settings=settings, say=say)


# ---- the store -----------------------------------------------------------------------------------------------


def _client(store: Path) -> MlflowClient:
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    import mlflow
    from mlflow import MlflowClient

    store.mkdir(parents=True, exist_ok=True)
    uri = f"sqlite:///{store}/mlflow.db"
    if mlflow.get_tracking_uri() != uri:
        # `create_external_model` asks the global setting; everything else is given its ids.
        mlflow.set_tracking_uri(uri)
        mlflow.set_registry_uri(uri)
    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def _experiment(client: MlflowClient, store: Path, name: str) -> str:
    artifacts = str(store / "artifacts")
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        return str(client.create_experiment(name, artifact_location=artifacts))
    location = experiment.artifact_location.removeprefix("file://")
    if location != artifacts:
        raise InputError(
            f"this MLflow store keeps its artifacts in {location}",
            where=str(store),
            fix="move the project back, or move mlruns/ away so that a new store is made",
        )
    return str(experiment.experiment_id)


def _experiment_ids(client: MlflowClient) -> list[str]:
    return sorted(e.experiment_id for e in client.search_experiments())


def _fail_stale_runs(client: MlflowClient) -> None:
    for run in client.search_runs(_experiment_ids(client), "attributes.status = 'RUNNING'"):
        owner = run.data.tags.get("luthier.owner")
        if owner and not is_alive(owner):
            client.set_tag(run.info.run_id, "luthier.problem", "the process died without a word")
            client.set_terminated(run.info.run_id, "FAILED")


def _pipeline_run(client: MlflowClient, store: Path, facts: Mapping[str, str]) -> str:
    experiment_id = _experiment(client, store, PIPELINE_EXPERIMENT)
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


# ---- finding checkpoints ------------------------------------------------------------------------------------


def _all_models(client: MlflowClient) -> list[LoggedModel]:
    """Every checkpoint, newest first."""
    found: list[LoggedModel] = []
    token: str | None = None
    while True:
        page = client.search_logged_models(
            _experiment_ids(client),
            order_by=[{"field_name": "creation_timestamp", "ascending": False}],
            page_token=token,
        )
        found += list(page)
        token = page.token
        if not token:
            return found


def _find_by_digest(client: MlflowClient, digest: str) -> LoggedModel | None:
    for model in _all_models(client):
        if model.tags.get("folder.digest") == digest:
            return model
    return None


def _by_alias(client: MlflowClient, name: str, alias: str) -> LoggedModel | None:
    from mlflow.exceptions import MlflowException

    try:
        version = client.get_model_version_by_alias(name, alias)
    except MlflowException:
        return None
    # The SQLite registry keeps a version's source, not its model id.
    return client.get_logged_model(str(version.source).removeprefix(_MODEL_URI))


def _metric(model: LoggedModel, key: str) -> float | None:
    values = [metric for metric in model.metrics or [] if metric.key == key]
    return max(values, key=lambda metric: metric.timestamp).value if values else None


def _unknown_model(client: MlflowClient, model: str, models: Sequence[LoggedModel]) -> InputError:
    names = {f"{m.tags.get('method')}/{m.tags.get('phase')}" for m in models} | {m.model_id for m in models}
    for registered in client.search_registered_models():
        names |= {f"{registered.name}@{alias}" for alias in registered.aliases}
    near = difflib.get_close_matches(model, sorted(names), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}" if near else f"known: {', '.join(sorted(names)) or 'none yet'}"
    return InputError(f"no checkpoint {model!r}", where="mlruns", fix=hint)


def _checkpoint(client: MlflowClient, model: LoggedModel, models: Sequence[LoggedModel]) -> Checkpoint:
    parent = next((m for m in models if m.model_id == model.tags.get("parent.model_id")), None)
    holders = {alias: _by_alias(client, model.tags["method"], alias) for alias in (CANDIDATE, CHAMPION)}
    metrics = sorted(model.metrics or [], key=lambda metric: metric.timestamp)
    return tags_to_checkpoint(
        model.tags,
        model_id=model.model_id,
        run_id=str(model.source_run_id),
        experiment_id=model.experiment_id,
        aliases=tuple(a for a, holder in holders.items() if holder is not None and holder.model_id == model.model_id),
        parent=_checkpoint(client, parent, models) if parent else None,
        scores={metric.key: metric.value for metric in metrics if not metric.key.startswith("ledger.")},
    )
