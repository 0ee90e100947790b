"""The MLflow store where it was made, elsewhere, and broken."""

import shutil
import sqlite3
from pathlib import Path
from types import ModuleType

import pytest

from luthier import lineage
from luthier.errors import InputError, StoreError
from luthier.lineage import store


def paths_in(folder: Path) -> set[str]:
    """Every place of artifacts in a store's database."""
    with sqlite3.connect(folder / "mlruns/mlflow.db") as connection:
        return {
            row[0]
            for table, column in store._PATHS
            for row in connection.execute(f"SELECT {column} FROM {table}")
            if row[0] and not row[0].startswith("models:/")
        }


@pytest.mark.slow
def test_a_copied_folder_keeps_its_mlflow_and_leaves_the_first_alone(built: Path, tmp_path: Path) -> None:
    before = paths_in(built)
    copy = Path(shutil.copytree(built, tmp_path / "a copy", symlinks=True))
    found = lineage.find("mas_architect/reinforce", root=copy)
    assert found.model_id == lineage.find("mas_architect/reinforce", root=built).model_id
    client = lineage.ensure_store(copy)
    moved = paths_in(copy)
    assert len(moved) == len(before) > 0
    assert all(path.startswith(f"{copy}/mlruns/") for path in moved)
    assert "params.yaml" in {item.path for item in client.list_artifacts(found.run_id)}
    with lineage.start_phase("sft", "m", root=copy) as run:
        client.log_text(run.run_id, "here", "note.txt")
    assert (copy / "mlruns/artifacts" / run.run_id / "artifacts/note.txt").read_text() == "here"
    assert paths_in(built) == before
    shutil.rmtree(copy / "mlruns/artifacts")
    assert client.list_artifacts(found.run_id) == [], "the copy reads nothing of the first folder"


def test_a_store_with_artifacts_on_a_server_stays_as_it_is(toy: ModuleType, tmp_path: Path) -> None:
    project = toy.make_repository(tmp_path / "p", {"params.yaml": toy.PARAMS, "dvc.yaml": toy.DVC_YAML})
    client = lineage.ensure_store(project)
    client.create_experiment("far", artifact_location="s3://bucket/mlruns/artifacts")
    moved = tmp_path / "moved"
    project.rename(moved)
    client = lineage.ensure_store(moved)
    places = {item.name: item.artifact_location for item in client.search_experiments()}
    assert places["far"] == "s3://bucket/mlruns/artifacts"
    assert places[store.EXPERIMENT] == f"{moved}/mlruns/artifacts"


def test_a_database_that_is_none_is_named(toy: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "mlruns").mkdir()
    (tmp_path / "mlruns/mlflow.db").write_text("not a database, " * 100)
    with pytest.raises(StoreError, match=r"mlflow\.db.*recorded again from dvc\.lock"):
        lineage.ensure_store(tmp_path)


def test_a_database_of_another_mlflow_says_how_to_go_on(tmp_path: Path) -> None:
    lineage.ensure_store(tmp_path)
    copy = tmp_path / "other"
    (copy / "mlruns").mkdir(parents=True)
    shutil.copy(tmp_path / "mlruns/mlflow.db", copy / "mlruns/mlflow.db")
    with sqlite3.connect(copy / "mlruns/mlflow.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '451aebb31d03'")
    with pytest.raises(InputError, match="mlflow db upgrade sqlite:///"):
        lineage.ensure_store(copy)
