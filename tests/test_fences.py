"""The fences of the design hold: imports point one way, and each heavy library stays where it belongs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def contracts(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_every_contract_of_the_imports_is_kept():
    done = contracts(ROOT)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "0 broken" in done.stdout


def fences(*paths: str, standard_input: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("ruff"), "check", "--no-cache", "--select", "TID251", *paths]
    return subprocess.run(command, cwd=ROOT, input=standard_input, capture_output=True, text=True, check=False)


def test_the_library_and_the_stages_stay_inside_their_fences():
    done = fences("luthier", "stages", "flows")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("place", ["luthier/context.py", "luthier/methods/new.py", "stages/grid.py"])
@pytest.mark.parametrize("module", ["prefect", "dvc.api", "mlflow", "torch", "trl", "deepspeed"])
def test_a_banned_import_is_found(place, module):
    done = fences("--stdin-filename", place, "-", standard_input=f"import {module}\n")
    assert done.returncode == 1
    assert "TID251" in done.stdout


@pytest.mark.parametrize(
    ("place", "line", "contract"),
    [
        ("luthier/training/sft.py", "import prefect", "only flows know Prefect and DVC"),
        ("luthier/lineage/record.py", "import dvc.api", "only flows know Prefect and DVC"),
        ("luthier/targets/support/batching.py", "import mlflow", "only lineage talks to MLflow"),
        ("luthier/evaluation/evaluate.py", "import transformers", "torch stays with training and targets"),
        ("luthier/tools/values.py", "import luthier.ledger.meter", "inside the library, too"),
        ("luthier/cli.py", "import stages.grid", "dependencies point one way"),
    ],
)
def test_a_wrong_import_breaks_its_contract(tmp_path, place, line, contract):
    """Also in the files that ruff's rule exempts as a whole."""
    for name in ("luthier", "stages", "flows"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / place).open("a") as file:
        file.write(f"\n{line}\n")
    done = contracts(tmp_path)
    assert done.returncode == 1
    assert f"{contract} BROKEN" in done.stdout
