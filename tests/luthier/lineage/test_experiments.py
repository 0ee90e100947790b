"""DVC experiments for real: in a folder of their own, from the queue, shown and applied."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path

import pytest

from luthier.lineage import CANDIDATE, checkpoint_of, find
from luthier.lineage.registry import all_models, by_alias
from luthier.lineage.store import ensure_store

METHOD = "mas_architect"
PIPELINE = """\
stages:
  teach:
    matrix: {method: "${methods}"}
    cmd: python make.py teach --method ${item.method}
    deps: [make.py]
    outs: ["data/teach/${item.method}"]
  sft:
    matrix: {method: "${methods}"}
    cmd: python make.py sft --method ${item.method}
    deps: [make.py, "data/teach/${item.method}"]
    params: [seed]
    outs: ["models/sft/${item.method}"]
"""


@pytest.mark.slow
def test_experiments_apart_leave_the_workspace_as_it_is(tmp_path: Path, toy) -> None:
    """Two from the queue, one in a temporary folder, each with a seed of its own; then one is applied."""
    files = {"dvc.yaml": PIPELINE, "params.yaml": toy.PARAMS, "make.py": toy.MAKE}
    project = toy.make_repository(tmp_path / "p", files)
    toy.dvc(project, "repro", "-q")
    toy.commit(project, "Build")
    before = {path: path.read_bytes() for path in sorted((project / "models").rglob("*")) if path.is_file()}
    client = ensure_store(project)
    candidate = by_alias(client, METHOD, CANDIDATE)
    assert candidate is not None

    toy.dvc(project, "exp", "run", "--queue", "-S", "seed=4", "-n", "four")
    toy.dvc(project, "exp", "run", "--queue", "-S", "seed=5", "-n", "five")
    toy.dvc(project, "queue", "start", "-j", "2")
    toy.dvc(project, "exp", "run", "--temp", "-q", "-S", "seed=6", "-n", "six")
    wait_for_queue(project, toy)

    assert {path: path.read_bytes() for path in before} == before
    assert not toy.run(project, "git", "status", "--porcelain")
    now = by_alias(client, METHOD, CANDIDATE)
    assert now is not None
    assert now.model_id == candidate.model_id
    assert find(f"{METHOD}/sft", root=project).seed == 3
    made = {model.tags["dvc.experiment"]: model for model in all_models(client) if "dvc.experiment" in model.tags}
    assert {name: model.tags["seed"] for name, model in made.items()} == {"four": "4", "five": "5", "six": "6"}
    assert len({model.tags["folder.digest"] for model in made.values()}) == 3
    shown = {row["Experiment"]: row for row in csv.DictReader(io.StringIO(toy.dvc(project, "exp", "show", "--csv")))}
    assert {name: shown[name]["seed"] for name in made} == {"four": "4", "five": "5", "six": "6"}

    toy.dvc(project, "exp", "apply", "five")
    applied = checkpoint_of(project / "models" / "sft" / METHOD, root=project)
    assert applied is not None
    assert applied.model_id == made["five"].model_id
    assert find(f"{METHOD}/sft", root=project).model_id == made["five"].model_id


def wait_for_queue(project: Path, toy) -> None:
    """Until all of its experiments have ended; none may have failed."""
    deadline = time.monotonic() + 300
    while "Queued" in (status := toy.dvc(project, "queue", "status")) or "Running" in status:
        assert time.monotonic() < deadline, status
        time.sleep(1)
    assert "Failed" not in status, status
