import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from luthier.errors import InputError
from luthier.lineage.sources import (
    Output,
    StageFacts,
    find_root,
    packages_digest,
    params_digest,
    parents,
    read_code,
    running_stage,
    upstream,
)

LOCK = """\
schema: '2.0'
stages:
  questions:
    cmd: q
    outs:
    - {path: data/questions, md5: aaa.dir, size: 10, nfiles: 3}
  teach@m:
    cmd: t
    deps:
    - {path: data/questions, md5: aaa.dir, size: 10}
    outs:
    - {path: data/teach/m, md5: bbb.dir, size: 5, nfiles: 1}
"""
PIPELINE = """\
stages:
  sft:
    matrix:
      method: ${methods}
      size: [1, 2]
    cmd: train
    deps: ["data/teach/${item.method}", "profiles/${profile}.yaml", code, data/questions/train.jsonl]
"""


def load_toy() -> ModuleType:
    spec = importlib.util.spec_from_file_location("toy_pipeline", Path(__file__).parents[1] / "toy_pipeline.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dvc.yaml").write_text(PIPELINE)
    (tmp_path / "dvc.lock").write_text(LOCK)
    (tmp_path / "params.yaml").write_text("methods: [m]\nprofile: small\n")
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/small.yaml").write_text("steps: 1\n")
    (tmp_path / "code").mkdir()
    return tmp_path


def stage(name: str, reads: list[str], writes: list[str]) -> StageFacts:
    return StageFacts(name, dict.fromkeys(reads, "x"), tuple(Output(path, "x", 1, 1, {}) for path in writes))


def test_a_running_stage_knows_its_inputs_before_dvc_does(folder: Path) -> None:
    facts = running_stage(folder, "sft@m-2")
    assert facts.deps == {
        "code": "",
        "data/questions": "aaa.dir",
        "data/teach/m": "bbb.dir",
        "profiles/small.yaml": "d5170b1925f9b3f4fb0182c17d3a6406",
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [("stf", "has no stage 'stf'"), ("sft@m-3", "stage 'sft' has no 'm-3'. Fix: use one of m-1, m-2")],
)
def test_an_unknown_stage_is_named(folder: Path, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        running_stage(folder, name)


def test_a_missing_value_is_named(folder: Path) -> None:
    (folder / "params.yaml").write_text("methods: [m]\n")
    with pytest.raises(InputError, match=r"no value for \$\{profile\}"):
        running_stage(folder, "sft@m-1")


def test_upstream_goes_through_folders_and_files_of_them() -> None:
    stages = {
        item.name: item
        for item in (
            stage("questions", [], ["data/questions"]),
            stage("grid", ["data/questions/train.jsonl"], ["data/grid"]),
            stage("teach@a", ["data/grid"], ["data/teach/a"]),
            stage("teach@ab", ["data/grid"], ["data/teach/ab"]),
            stage("report", ["data/teach"], ["reports"]),
        )
    }
    assert [item.name for item in parents(stages["report"], stages)] == ["teach@a", "teach@ab"]
    assert [item.name for item in upstream(stages["report"], stages)] == ["teach@a", "teach@ab", "grid", "questions"]
    assert parents(stage("sft@a", ["data/teach/a"], []), stages) == [stages["teach@a"]]


def test_facts_survive_json() -> None:
    facts = StageFacts("grid", {"a": "1"}, (Output("b", "2", 3, 4, {"rows": 5}),))
    assert StageFacts.from_json(facts.to_json()) == facts


def test_the_settings_digest_covers_the_profile_in_use(folder: Path) -> None:
    before = params_digest(folder)
    (folder / "profiles/other.yaml").write_text("steps: 9\n")
    assert params_digest(folder) == before
    (folder / "profiles/small.yaml").write_text("steps: 2\n")
    assert params_digest(folder) != before


def test_the_package_digest_covers_every_lock(folder: Path) -> None:
    assert packages_digest(folder) == "none"
    (folder / "requirements").mkdir()
    (folder / "requirements/cpu.lock").write_text("a==1\n")
    first = packages_digest(folder)
    (folder / "requirements/gpu.lock").write_text("a==1\n")
    assert len({first, packages_digest(folder), "none"}) == 3


def test_the_pipelines_own_lock_does_not_make_the_code_dirty(tmp_path: Path) -> None:
    toy = load_toy()
    project = toy.make_repository(tmp_path / "p", {"a.py": "", "dvc.lock": ""})
    (project / "dvc.lock").write_text("changed")
    assert not read_code(project).dirty
    (project / "a.py").write_text("changed")
    (project / "new file.py").write_text("")
    assert read_code(project).changed == ("a.py", "new file.py")


def test_no_repository_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="git init"):
        read_code(tmp_path)


def test_the_root_is_found_from_below(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert find_root(folder / "profiles") == folder
    with pytest.raises(InputError, match=r"no dvc\.yaml here or above"):
        find_root(tmp_path_factory.mktemp("elsewhere"))
