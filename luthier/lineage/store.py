"""The MLflow store: one SQLite file, `mlruns/mlflow.db`, with artifacts in `mlruns/artifacts`; no server is needed.

Clients get explicit run ids, because MLflow's active run is a property of the thread.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from luthier.errors import InputError, StoreError
from luthier.experiment import workspace_of
from luthier.files import locked
from luthier.lineage.sources import find_root
from luthier.method import TRAINING
from luthier.process_owner import is_alive

if TYPE_CHECKING:
    from mlflow import MlflowClient

STORE_FOLDER = "mlruns"
DATABASE = "mlflow.db"
EXPERIMENT = "luthier"
VIEW = "scores"
_ABOUT_EXPERIMENT = """\
[Runs with their scores]({view}). A run of a pipeline (one for each method, code revision and settings) holds a run for
each phase: training and evaluation. Select two pipelines and press *Compare* to see two seeds side by side.

Weights are not copied into MLflow: `models/<phase>/<method>` belongs to DVC, and each model's page says where it lies.
"""
# MLflow shows no metric or parameter in a list of runs until a person picks them; this is what its *Share* writes.
_COLUMNS = (
    *(f"metrics.`{metric}`" for metric in ("test/score", "test/score.low", "test/score.high", "validation/score")),
    *(f"metrics.`spend/{phase}.usd`" for phase in TRAINING),
    *(f"params.`{parameter}`" for parameter in ("method", "task", "profile", "seed")),
    "attributes.`Source`",
)
_SHARED_VIEW = {
    "searchFilter": "",
    "orderByKey": "attributes.start_time",
    "orderByAsc": False,
    "startTime": "ALL",
    "lifecycleFilter": "Active",
    "datasetsFilter": [],
    "modelVersionFilter": "All Runs",
    "selectedColumns": _COLUMNS,
    "runsExpanded": {},
    "runsPinned": [],
    "runsHidden": [],
}
# Where MLflow writes paths of artifacts into its database.
_PATHS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)


def store_of(root: Path) -> Path:
    """Folder of a project's MLflow store; an experiment that runs in a folder of its own uses its workspace's."""
    return workspace_of(root) / STORE_FOLDER


def ensure_store(root: Path | None = None) -> MlflowClient:
    """Open the MLflow store, creating it once under a file lock.

    A cold SQLite store breaks when several processes create it together. Runs whose process is dead are
    marked KILLED here (a process that fails says so itself), so that no run looks alive for ever. A store whose folder
    was moved or copied is pointed at its new place.

    Raises:
        InputError: the database belongs to another version of MLflow.
        StoreError: the database cannot be read.
    """
    store = store_of(root or find_root())
    with locked(store / ".lock"):
        relocate(store)
        client = open_client(store)
        experiment_of(client, store)
        _end_dead_runs(client)
    return client


def open_client(store: Path) -> MlflowClient:
    """A client of the store in this folder; no lock, nothing is made but the folder.

    Raises:
        InputError: the database belongs to another version of MLflow.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    import mlflow
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    store.mkdir(parents=True, exist_ok=True)
    uri = f"sqlite:///{store / DATABASE}"
    if mlflow.get_tracking_uri() != uri:
        # The registry asks the global setting for a model's place; everything else is given its ids.
        mlflow.set_tracking_uri(uri)
        mlflow.set_registry_uri(uri)
    try:
        return MlflowClient(tracking_uri=uri, registry_uri=uri)
    except MlflowException as error:
        raise InputError(
            f"MLflow cannot open its database ({str(error).splitlines()[0]})",
            where=str(store / DATABASE),
            fix=f"keep a copy of the file, then run `mlflow db upgrade {uri}`",
        ) from error


def experiment_of(client: MlflowClient, store: Path) -> str:
    """Id of the experiment that holds every run, made when absent: MLflow nests runs only within an experiment."""
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is not None:
        return str(experiment.experiment_id)
    tags = {
        "mlflow.experimentKind": "custom_model_development",
        f"mlflow.sharedViewState.{VIEW}": json.dumps(_SHARED_VIEW),
    }
    made = str(client.create_experiment(EXPERIMENT, artifact_location=str(store / "artifacts"), tags=tags))
    client.set_experiment_tag(made, "mlflow.note.content", _ABOUT_EXPERIMENT.format(view=view_of(made)))
    return made


def view_of(experiment_id: str) -> str:
    """Where MLflow lists the runs of an experiment with their scores, after its address."""
    return f"#/experiments/{experiment_id}/runs?viewStateShareKey={VIEW}"


def experiment_ids(client: MlflowClient) -> list[str]:
    """Every experiment; older stores have one for each phase."""
    return sorted(e.experiment_id for e in client.search_experiments())


def relocate(store: Path) -> None:
    """Point a store that was moved or copied at its folder: MLflow keeps absolute paths of artifacts.

    Raises:
        StoreError: the database cannot be read or written.
    """
    database = store / DATABASE
    if not database.is_file():
        return
    try:
        with closing(sqlite3.connect(database, timeout=60)) as connection, connection:
            for old in _other_places(connection, store):
                for table, column in _columns(connection):
                    connection.execute(
                        f"UPDATE {table} SET {column} = ? || substr({column}, ?)"
                        f" WHERE {column} = ? OR substr({column}, 1, ?) = ?",
                        (str(store), len(old) + 1, old, len(old) + 1, f"{old}/"),
                    )
    except sqlite3.Error as error:
        raise StoreError(
            f"MLflow's database cannot be read ({error})",
            where=str(database),
            fix="move the file away: checkpoints on disk are recorded again from dvc.lock by `luthier lineage`",
        ) from error


def _other_places(connection: sqlite3.Connection, store: Path) -> list[str]:
    """Folders, as the database spells them, in which it believes to be."""
    if ("experiments", "artifact_location") not in _columns(connection):
        return []
    ending = f"/{STORE_FOLDER}/artifacts"
    rows = connection.execute("SELECT DISTINCT artifact_location FROM experiments WHERE artifact_location IS NOT NULL")
    places = [str(row[0]) for row in rows]
    local = [place for place in places if place.startswith(("/", "file:///")) and place.endswith(ending)]
    return [old for place in local if (old := place.removesuffix("/artifacts")) != str(store)]


def _columns(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Those of `_PATHS` that this database has; an older MLflow had fewer."""
    return [
        (table, column)
        for table, column in _PATHS
        if column in {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
    ]


def _end_dead_runs(client: MlflowClient) -> None:
    for run in client.search_runs(experiment_ids(client), "attributes.status = 'RUNNING'"):
        owner = run.data.tags.get("luthier.owner")
        if owner and not is_alive(owner):
            client.set_tag(run.info.run_id, "luthier.problem", "the process was killed")
            client.set_terminated(run.info.run_id, "KILLED")
