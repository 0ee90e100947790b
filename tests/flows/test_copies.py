"""Clean copies of a project, and the replicas and standings that are read out of them; without DVC or Prefect."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from flows import compare, replicas
from flows.copies import copy_project, environment
from luthier.errors import InputError, StoreError
from luthier.ledger.store import Store, StoredCall
from luthier.target import Completion, Request, Usage

PARAMS = "# asked\nprofile: embedded\nseed: 17\nmethods: [mas_architect]\n"
IGNORED = "/data/\n.cache/\n"


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def root(tmp_path) -> Path:
    """A project that git knows, with a file that it does not know yet and some that it never takes."""
    folder = tmp_path / "root"
    files = {
        "params.yaml": PARAMS,
        "luthier/old.py": "old",
        "luthier/same.py": "same",
        "dvc.lock": "root's",
        ".gitignore": IGNORED,
    }
    for name, text in files.items():
        write(folder / name, text)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "Start")
    write(folder / "luthier" / "new.py", "not committed yet")
    write(folder / "data" / "questions" / "train.jsonl", "{}")
    write(folder / ".cache" / "weights" / "model.bin", "weights")
    return folder


def known(folder: Path) -> list[str]:
    return git(folder, "ls-files").split()


def test_a_copy_holds_what_git_knows_or_would_take_and_its_own_choice(root, tmp_path):
    copy = copy_project(root, tmp_path / "copy", profile="smoke", seed=18)
    assert known(copy) == [".gitignore", "luthier/new.py", "luthier/old.py", "luthier/same.py", "params.yaml"]
    assert yaml.safe_load((copy / "params.yaml").read_text()) == {
        "profile": "smoke",
        "seed": 18,
        "methods": ["mas_architect"],
    }
    assert not (copy / "data").exists()
    assert (copy / ".cache" / "weights" / "model.bin").read_text() == "weights"
    assert not (copy / ".cache" / "store.sqlite").exists()
    assert git(copy, "status", "--porcelain") == ""
    assert (root / "params.yaml").read_text() == PARAMS


def test_a_copy_keeps_the_seed_unless_it_is_told_another(root, tmp_path):
    copy = copy_project(root, tmp_path / "copy", profile="smoke")
    assert yaml.safe_load((copy / "params.yaml").read_text())["seed"] == 17


def test_a_second_copy_refreshes_what_changed_keeps_what_was_built_and_commits_once_more(root, tmp_path):
    folder = tmp_path / "copy"
    copy_project(root, folder, profile="smoke", seed=18)
    write(folder / "dvc.lock", "copy's")
    write(folder / "data" / "grid" / "rows.jsonl", "built")
    write(folder / ".cache" / "store.sqlite", "answers")
    untouched = (folder / "luthier" / "same.py").stat().st_mtime_ns
    write(root / "luthier" / "old.py", "changed")
    write(root / "luthier" / "added.py", "added")
    (root / "luthier" / "new.py").unlink()
    copy_project(root, folder, profile="smoke", seed=18, store=root / "luthier" / "same.py")
    assert (folder / "luthier" / "old.py").read_text() == "changed"
    assert (folder / "luthier" / "added.py").read_text() == "added"
    assert not (folder / "luthier" / "new.py").exists(), "gone from the project, gone from its copy"
    assert (folder / "luthier" / "same.py").stat().st_mtime_ns == untouched
    assert (folder / "dvc.lock").read_text() == "copy's"
    assert (folder / "data" / "grid" / "rows.jsonl").read_text() == "built"
    assert (folder / ".cache" / "store.sqlite").read_text() == "answers", "only a new copy is given a store"
    assert git(folder, "rev-list", "--count", "HEAD").strip() == "2"
    copy_project(root, folder, profile="smoke", seed=18)
    assert git(folder, "rev-list", "--count", "HEAD").strip() == "2", "nothing changed, nothing to commit"


def test_a_new_copy_starts_with_every_answer_of_a_store_in_use(root, tmp_path):
    store = Store(root / ".cache" / "store.sqlite")
    store.put_calls([StoredCall("k", "f", Request("p"), Completion("x", "stop", Usage(1, 1, 1)))])
    copy = copy_project(root, tmp_path / "copy", profile="smoke", store=root / ".cache" / "store.sqlite")
    assert list(Store(copy / ".cache" / "store.sqlite").calls(["k"])) == ["k"]
    store.close()


def test_a_file_that_is_no_store_is_one_error(root, tmp_path):
    with pytest.raises(StoreError, match="cannot copy the store") as caught:
        copy_project(root, tmp_path / "copy", profile="smoke", store=root / "luthier" / "same.py")
    assert caught.value.where == str(root / "luthier" / "same.py")


def test_the_copys_code_runs_untied_from_what_runs_outside(root, monkeypatch):
    for name in ("DVC_STAGE", "PREFECT_API_URL", "MLFLOW_TRACKING_URI", "GIT_DIR"):
        monkeypatch.setenv(name, "outer")
    monkeypatch.setenv("HOME", "/home")
    found = environment(root)
    assert not [name for name, value in found.items() if value == "outer"]
    assert (found["PYTHONPATH"], found["HOME"], found["HF_HUB_OFFLINE"]) == (str(root), "/home", "1")


# --- replicas --------------------------------------------------------------------------------------------------


def test_a_replica_is_the_evaluation_and_its_bill(root, tmp_path):
    for name in ("scores.json", "executions.jsonl", "held_out.jsonl", "other.txt"):
        write(root / "data" / "evaluate" / "m" / name, name)
    write(root / "reports" / "spending" / "m.json", "bill")
    write(root / "reports" / "paid" / "m.json", "paid")
    folder = tmp_path / "data" / "replicas" / "m" / "17"
    replicas.collect(root, tmp_path, "m", 17)
    assert (tmp_path / "reports" / "paid" / "replicas" / "m" / "17.json").read_text() == "paid"
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "scores.json": "scores.json",
        "executions.jsonl": "executions.jsonl",
        "held_out.jsonl": "held_out.jsonl",
        "spending.json": "bill",
    }


# --- standings -------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A folder that counts as a project."""
    for name in ("params.yaml", "dvc.yaml"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data" / "compare" / "table.json"


def test_standings_are_the_rows_of_the_table(here):
    table = {"unit": "price", "budgets": {"small": {"gepa": {"score": 0.5}}, "large": {"gepa": {"score": 0.6}}}}
    write(here, json.dumps(table))
    assert compare.standings() == [
        {"budget": "small", "method": "gepa", "score": 0.5},
        {"budget": "large", "method": "gepa", "score": 0.6},
    ]


@pytest.mark.parametrize(
    "text",
    [None, "{", "{}", "[]", '{"budgets": []}', '{"budgets": {"small": 3}}', '{"budgets": {"small": {"gepa": 3}}}'],
)
def test_a_missing_or_broken_table_is_one_error(here, text):
    if text is not None:
        write(here, text)
    with pytest.raises(InputError, match=r"cannot read the file|not a JSON object|not a comparison") as caught:
        compare.standings()
    assert caught.value.where == str(here)
    assert caught.value.fix == "run `dvc repro -f compare`"
