"""The model registry: one name for each method, with the aliases `candidate` (newest) and `champion` (best so far)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from luthier.errors import InputError
from luthier.lineage import pages
from luthier.lineage.figures import score_name
from luthier.lineage.store import ensure_store, experiment_ids

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.logged_model import LoggedModel

CANDIDATE, CHAMPION = "candidate", "champion"
VALIDATION_SCORE = "validation.score"
CHAMPION_TAG = "champion.because"
"""Why a checkpoint became champion."""
_MODEL_URI = "models:/"
# What MLflow's page of a model reads to say that it is registered, and as what.
_VERSIONS_TAG = "mlflow.modelVersions"


@dataclass(frozen=True, slots=True)
class Promotion:
    """Whether a candidate became champion, and why or why not."""

    promoted: bool
    reason: str


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
        client.create_registered_model(name, description=pages.about_method(name))
    source = _MODEL_URI + model_id
    versions = [v for v in client.search_model_versions(f"name='{name}'") if v.source == source]
    version = versions[0].version if versions else _register(client, name, model_id)
    client.set_registered_model_alias(name, alias, version)


def _register(client: MlflowClient, name: str, model_id: str) -> str:
    """A new version of the name, also told to the model's page."""
    model = client.get_logged_model(model_id)
    about = model.tags.get("mlflow.note.content", "")
    shown = ("phase", "path", "seed")
    tags: dict[str, str] = {tag: value for tag, value in model.tags.items() if tag in shown}
    made = client.create_model_version(
        name, _MODEL_URI + model_id, run_id=model.source_run_id, tags=tags, description=about, model_id=model_id
    )
    known = json.loads(model.tags.get(_VERSIONS_TAG, "[]"))
    told = [*known, {"name": name, "version": made.version}]
    client.set_logged_model_tags(model_id, {_VERSIONS_TAG: json.dumps(told)})
    return str(made.version)


def challenge(name: str, *, root: Path | None = None) -> Promotion:
    """Make the candidate champion if it beats the champion on validation (the rule is ours).

    It does when there is no champion, or when its mean validation score is strictly higher on the same
    validation questions with the same target. Equal scores keep the champion, so that a tie never
    changes what is served; scores of other questions or another target are not compared, and a person decides.
    The test split plays no part.
    """
    client = ensure_store(root)
    candidate, champion = by_alias(client, name, CANDIDATE), by_alias(client, name, CHAMPION)
    if candidate is None:
        return Promotion(False, f"{name} has no candidate")
    score = _metric(candidate, VALIDATION_SCORE)
    if score is None:
        return Promotion(False, f"the candidate {candidate.model_id} has no validation score")
    if champion is None:
        return _crown(client, candidate, name, f"first champion, validation score {score:.4f}", root)
    if champion.model_id == candidate.model_id:
        why = champion.tags.get(CHAMPION_TAG, "promoted by hand")
        return Promotion(False, f"the candidate is the champion ({why})")
    for tag, what in (("validation.questions", "other validation questions"), ("validation.target", "another target")):
        if champion.tags.get(tag, "") != candidate.tags.get(tag, ""):
            return Promotion(False, f"the champion was scored on {what}; promote by hand if you mean it")
    best = _metric(champion, VALIDATION_SCORE)
    if best is not None and score <= best:
        return Promotion(False, f"validation score {score:.4f} does not beat the champion's {best:.4f}")
    beaten = "a champion without a score" if best is None else f"{best:.4f}"
    return _crown(client, candidate, name, f"validation score {score:.4f} beats {beaten}", root)


def holder(name: str, alias: str, *, root: Path | None = None) -> str:
    """MLflow's id of the checkpoint behind an alias, "" when nothing is there."""
    model = by_alias(ensure_store(root), name, alias)
    return model.model_id if model else ""


def _crown(client: MlflowClient, candidate: LoggedModel, name: str, why: str, root: Path | None) -> Promotion:
    """Make a candidate champion, and say why on its page."""
    client.set_logged_model_tags(candidate.model_id, {CHAMPION_TAG: why})
    promote(name, CHAMPION, candidate.model_id, root=root)
    return Promotion(True, why)


def all_models(client: MlflowClient) -> list[LoggedModel]:
    """Every checkpoint, newest first."""
    found: list[LoggedModel] = []
    token: str | None = None
    while True:
        page = client.search_logged_models(
            experiment_ids(client),
            order_by=[{"field_name": "creation_timestamp", "ascending": False}],
            page_token=token,
        )
        found += list(page)
        token = page.token
        if not token:
            return found


def model_by_digest(client: MlflowClient, digest: str) -> LoggedModel | None:
    """The newest checkpoint whose folder has this digest."""
    for model in all_models(client):
        if model.tags.get("folder.digest") == digest:
            return model
    return None


def by_alias(client: MlflowClient, name: str, alias: str) -> LoggedModel | None:
    """The checkpoint behind an alias; None when nothing is there."""
    from mlflow.exceptions import MlflowException

    try:
        version = client.get_model_version_by_alias(name, alias)
    except MlflowException:
        return None
    # The SQLite registry keeps a version's source, not its model id.
    return client.get_logged_model(str(version.source).removeprefix(_MODEL_URI))


def _metric(model: LoggedModel, key: str) -> float | None:
    values = [metric for metric in model.metrics or [] if score_name(metric.key) == key]
    return max(values, key=lambda metric: metric.timestamp).value if values else None
