"""The MLflow store, and checkpoints in it: opened, found, promoted, printed with their pedigree, verified.

The store is one SQLite file, `mlruns/mlflow.db`, with artifacts in `mlruns/artifacts`; no server is needed. This
module and `luthier.lineage`, which records, are the only ones that talk to MLflow. Clients get explicit run
ids, because MLflow's active run is a property of the thread.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from luthier.errors import InputError
from luthier.files import digest_folder, locked
from luthier.owners import is_alive
from luthier.pedigree import Checkpoint, render_tree
from luthier.revision import PARAMS_FILE, find_root
from luthier.tags import tags_to_checkpoint
from luthier.verification import Verification, rebuild_and_compare

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.logged_model import LoggedModel

STORE_FOLDER = "mlruns"
PIPELINE_EXPERIMENT = "pipeline"
CANDIDATE, CHAMPION = "candidate", "champion"
VALIDATION_SCORE = "validation.score"
_MODEL_URI = "models:/"


@dataclass(frozen=True, slots=True)
class Promotion:
    """Whether a candidate became champion, and why or why not."""

    promoted: bool
    reason: str


def ensure_store(root: Path | None = None) -> MlflowClient:
    """Open the MLflow store, creating it once under a file lock.

    A cold SQLite store breaks when several processes create it together. Runs whose process is dead are
    marked KILLED here (a process that fails says so itself), so that no run looks alive for ever.

    Raises:
        InputError: the store was made for another folder and would write its artifacts there.
    """
    root = root or find_root()
    store = root.resolve() / STORE_FOLDER
    with locked(store / ".lock"):
        client = open_client(store)
        experiment_id_of(client, store, PIPELINE_EXPERIMENT)
        _fail_stale_runs(client)
    return client


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
    model = model_by_digest(client, digest_folder(folder))
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


def open_client(store: Path) -> MlflowClient:
    """A client of the store in this folder; no lock, nothing is made but the folder."""
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


def experiment_id_of(client: MlflowClient, store: Path, name: str) -> str:
    """The experiment of this name, made when absent.

    Raises:
        InputError: the store was made for another folder.
    """
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
            client.set_tag(run.info.run_id, "luthier.problem", "the process was killed")
            client.set_terminated(run.info.run_id, "KILLED")


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


def model_by_digest(client: MlflowClient, digest: str) -> LoggedModel | None:
    """The newest checkpoint whose folder has this digest."""
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
