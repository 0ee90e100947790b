"""A checkpoint as a model that MLflow can load: a few lines that name the folder, never a copy of the weights."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.logged_model import LoggedModel

LOADER = "luthier.served"
REFERENCE = "checkpoint.json"


def create_model(
    client: MlflowClient,
    reference: Mapping[str, str],
    *,
    experiment_id: str,
    run_id: str,
    params: Mapping[str, str],
    tags: Mapping[str, str],
) -> LoggedModel:
    """Make a LoggedModel whose python function is `luthier.served`.

    Args:
        client: Of the store.
        reference: Method, phase, path and digest of the checkpoint; written to `checkpoint.json` beside `MLmodel`.
        experiment_id: Of the run.
        run_id: The run that trained it.
        params: Of the model.
        tags: Of the model.
    """
    from mlflow import pyfunc
    from mlflow.entities import LoggedModelStatus
    from mlflow.models import Model

    model = client.create_logged_model(
        experiment_id,
        name=f"{reference['method']}-{reference['phase']}",
        source_run_id=run_id,
        tags=dict(tags),
        params=dict(params),
        model_type=reference["phase"],
    )
    described = Model(
        artifact_path=model.artifact_location,
        model_uuid=model.model_id,
        model_id=model.model_id,
        run_id=run_id,
        metadata=dict(reference),
    )
    pyfunc.add_to_model(described, loader_module=LOADER, data=REFERENCE)
    with tempfile.TemporaryDirectory() as folder:
        described.save(str(Path(folder) / "MLmodel"))
        row = {**reference, "model_id": model.model_id}
        (Path(folder) / REFERENCE).write_text(json.dumps(row, indent=2) + "\n", encoding="utf-8")
        (Path(folder) / "requirements.txt").write_text("luthier\n", encoding="utf-8")
        client.log_model_artifacts(model.model_id, folder)
    return client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
