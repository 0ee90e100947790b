"""Checkpoints in the MLflow store: found, printed with their pedigree, rebuilt and compared."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from luthier.errors import InputError
from luthier.files import digest_folder
from luthier.lineage.checkpoint import Checkpoint
from luthier.lineage.figures import score_name
from luthier.lineage.imported import import_checkpoints
from luthier.lineage.registry import CANDIDATE, CHAMPION, all_models, by_alias, model_by_digest
from luthier.lineage.sources import PARAMS_FILE, find_root, read_stages
from luthier.lineage.store import ensure_store, store_of
from luthier.lineage.tags import DVC_FOLDER_TAG, tags_to_checkpoint
from luthier.lineage.tree import pedigree_json, render_tree
from luthier.lineage.verification import Verification, rebuild_and_compare

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.logged_model import LoggedModel

_SPLITS = ("validation.", "test.")


def find(model: str, *, root: Path | None = None) -> Checkpoint:
    """A checkpoint by name, alias or id; what only DVC brought is recorded first.

    Args:
        model: "mas_architect/reinforce" (the one of `dvc.lock`, else the newest), "mas_architect@champion" or "m-...".
        root: The project's folder; found from the working directory if not given.

    Raises:
        InputError: no such checkpoint; near names are listed.
    """
    root = (root or find_root()).resolve()
    import_checkpoints(root)
    client = ensure_store(root)
    models = all_models(client)
    if "@" in model:
        name, _, alias = model.partition("@")
        found = by_alias(client, name, alias)
    elif "/" in model:
        method, _, phase = model.partition("/")
        found = _present([m for m in models if m.tags.get("method") == method and m.tags.get("phase") == phase], root)
    else:
        found = next((m for m in models if m.model_id == model), None)
    if found is None:
        raise _unknown_model(client, model, models)
    return _checkpoint(client, found, models)


def _present(models: Sequence[LoggedModel], root: Path) -> LoggedModel | None:
    """Of one phase's checkpoints, newest first: the one that `dvc.lock` names, else the newest outside experiments."""
    locked = {out.md5 for facts in read_stages(root).values() for out in facts.outs}
    apart = [model for model in models if not model.tags.get("dvc.experiment")]
    named = [model for model in models if model.tags.get(DVC_FOLDER_TAG) in locked]
    return next(iter([*named, *apart, *models]), None)


def checkpoint_of(folder: Path, *, root: Path | None = None) -> Checkpoint | None:
    """The checkpoint whose files are exactly those of a folder; None when none was recorded."""
    import_checkpoints((root or find_root()).resolve())
    client = ensure_store(root)
    model = model_by_digest(client, digest_folder(folder))
    return _checkpoint(client, model, all_models(client)) if model else None


def tree(model: str, *, root: Path | None = None, width: int = 100) -> str:
    """The pedigree of a checkpoint as a text tree, down to the questions; lines of at most `width` characters."""
    root = (root or find_root()).resolve()
    return render_tree(find(model, root=root), root, width=width)


def to_json(model: str, *, root: Path | None = None) -> str:
    """The pedigree of a checkpoint as JSON, whole."""
    return pedigree_json(find(model, root=root))


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
    settings = store_of(root) / "artifacts" / checkpoint.run_id / "artifacts" / PARAMS_FILE
    return rebuild_and_compare(checkpoint, root, settings=settings, say=say)


def _unknown_model(client: MlflowClient, model: str, models: Sequence[LoggedModel]) -> InputError:
    names = {f"{m.tags.get('method')}/{m.tags.get('phase')}" for m in models} | {m.model_id for m in models}
    for registered in client.search_registered_models():
        names |= {f"{registered.name}@{alias}" for alias in registered.aliases}
    near = difflib.get_close_matches(model, sorted(names), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}" if near else f"known: {', '.join(sorted(names)) or 'none yet'}"
    return InputError(f"no checkpoint {model!r}", where="mlruns", fix=hint)


def _checkpoint(client: MlflowClient, model: LoggedModel, models: Sequence[LoggedModel]) -> Checkpoint:
    parent = next((m for m in models if m.model_id == model.tags.get("parent.model_id")), None)
    holders = {alias: by_alias(client, model.tags["method"], alias) for alias in (CANDIDATE, CHAMPION)}
    metrics = sorted(model.metrics or [], key=lambda metric: metric.timestamp)
    return tags_to_checkpoint(
        model.tags,
        model_id=model.model_id,
        run_id=str(model.source_run_id),
        experiment_id=model.experiment_id,
        aliases=tuple(a for a, holder in holders.items() if holder is not None and holder.model_id == model.model_id),
        parent=_checkpoint(client, parent, models) if parent else None,
        scores={score_name(m.key): m.value for m in metrics if score_name(m.key).startswith(_SPLITS)},
    )
