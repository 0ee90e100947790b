import os
import subprocess
import sys
from pathlib import Path

import pytest

from luthier.experiment import running_experiment, share_cache, workspace_of
from luthier.ledger.store import Store, StoredCall
from luthier.target import Completion, Request, Usage
from luthier.training.resume import held


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("DVC_")]:
        monkeypatch.delenv(name)


def begin(monkeypatch: pytest.MonkeyPatch, workspace: Path) -> None:
    monkeypatch.setenv("DVC_ROOT", str(workspace))
    monkeypatch.setenv("DVC_EXP_NAME", "grave-mule")
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", "c0ffee")


def test_outside_experiments_a_folder_is_its_own_workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path / "another"))  # set by `dvc repro`, too
    assert running_experiment(tmp_path) is None
    assert workspace_of(tmp_path) == tmp_path
    share_cache(tmp_path)
    assert not (tmp_path / ".cache").exists()


def test_an_experiment_knows_its_name_and_whether_it_runs_apart(tmp_path, monkeypatch):
    apart = tmp_path / ".dvc" / "tmp" / "exps" / "tmp1"
    apart.mkdir(parents=True)
    begin(monkeypatch, tmp_path)
    found = running_experiment(apart)
    assert found is not None
    assert (found.name, found.baseline, found.workspace, found.apart) == ("grave-mule", "c0ffee", tmp_path, True)
    here = running_experiment(tmp_path)
    assert here is not None
    assert not here.apart
    assert (workspace_of(apart), workspace_of(tmp_path)) == (tmp_path, tmp_path)


def test_answers_weights_and_unfinished_trainings_are_the_workspaces(tmp_path, monkeypatch):
    """Also when the workspace has none yet; and a second stage of the experiment finds the links made."""
    apart = tmp_path / "exp"
    apart.mkdir()
    begin(monkeypatch, tmp_path)
    for _ in range(2):
        share_cache(apart)
    store = Store((apart / ".cache" / "store.sqlite").resolve())
    store.put_calls([StoredCall("k", "f", Request("p"), Completion("x", "stop", Usage(1, 1, 1)))])
    store.close()
    assert list(Store(tmp_path / ".cache" / "store.sqlite").calls(["k"])) == ["k"]
    (apart / ".cache" / "training" / "sft-1").mkdir()
    (apart / ".cache" / "stop").touch()
    assert (tmp_path / ".cache" / "training" / "sft-1").is_dir()
    assert not (tmp_path / ".cache" / "stop").exists(), "what is not shared stays with the experiment"


def test_the_same_training_runs_once_at_a_time(tmp_path):
    """The second one says for whom it waits."""
    scratch = tmp_path / "sft-1"
    code = (
        "import pathlib, sys; from luthier.training.resume import held\n"
        "with held(pathlib.Path(sys.argv[1])): print('mine', flush=True)"
    )
    with held(scratch):
        other = subprocess.Popen([sys.executable, "-uc", code, str(scratch)], stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        assert other.stdout.readline() == f"process {os.getpid()} trains exactly this; waiting for it to end\n"
    assert other.communicate(timeout=60)[0] == "mine\n"


def test_further_processes_of_one_training_do_not_wait_for_the_first(tmp_path, monkeypatch):
    with held(tmp_path / "sft-1"):
        monkeypatch.setenv("RANK", "1")
        with held(tmp_path / "sft-1"):
            pass
