"""What each stage's code is, on this project and its `dvc.yaml`; and what the real DVC then finds stale."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest
import yaml
from dvc.repo import Repo

from benchmarks.workspace import copy_project, environment
from flows.rebuild import plan
from luthier.errors import InputError
from luthier.files import write_json
from luthier.lineage.sources import declared_stages
from luthier.settings.load import read_phases
from luthier.stage_code import PINS, code_file, code_files, pinned_versions, read_pins

ROOT = Path(__file__).resolve().parents[2]
FILES = code_files(ROOT)
METHOD = "mas_architect"
LISTS = yaml.safe_load((ROOT / "pipeline.yaml").read_text())["phases"]
MAIN = {"questions", "grid", *(f"{stage}@{METHOD}" for stage in ("teach", "sft", "reinforce", "evaluate"))}


def the_file(root: Path, name: str) -> Path:
    """The one file whose path ends so, wherever it stands."""
    places = [path for folder in ("luthier", "stages") for path in sorted((root / folder).rglob(Path(name).name))]
    (path,) = [path for path in places if f"/{path.relative_to(root).as_posix()}".endswith(f"/{name}")]
    return path


def module_named(name: str) -> str:
    parts = the_file(ROOT, name).relative_to(ROOT).with_suffix("").parts
    return ".".join(parts)


def stages_reaching(module: str) -> set[str]:
    return {address for address in declared_stages(ROOT) if module in modules_of(address)}


def modules_of(address: str) -> dict[str, str]:
    return FILES.get(code_file(address), {}).get("modules", {})


def test_every_stage_depends_on_the_file_of_its_own_code():
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    for name, stage in stages.items():
        if name != "code":
            each = stage.get("foreach", "").removeprefix("${phases.").removesuffix("}")
            suffix = "" if not each else "/${key}" if isinstance(LISTS[each], dict) else "/${item}"
            deps = stage.get("do", stage)["deps"]
            assert f"data/code/{name}{suffix}.json" in deps, name
            assert not [dep for dep in deps if dep.startswith(("luthier", "stages", "flows"))]
    assert set(FILES) == {code_file(address) for address in declared_stages(ROOT) if address != "code"}


def test_a_replica_depends_on_the_code_of_everything_that_it_builds():
    built = {module for address in MAIN for module in modules_of(address)}
    assert built
    assert built <= {*modules_of(f"replicas@{METHOD}")}


def test_what_decides_results_is_reached():
    """The parser, the engine, the loop that runs harnesses, the store, the settings: by all that execute."""
    executing = {"grid", f"teach@{METHOD}", f"reinforce@{METHOD}", f"evaluate@{METHOD}", "compare"}
    for name in (
        "graph/parser.py",
        "openvino.py",
        "executors/scheduler.py",
        "luthier/ledger/store.py",
        "settings/load.py",
    ):
        assert executing <= stages_reaching(module_named(name)), name
    assert f"evaluate@{METHOD}" in stages_reaching("luthier.generator")
    assert f"sft@{METHOD}" in stages_reaching("luthier.training.sft")
    assert "luthier/harnesses/pool/pool.txt" in FILES[code_file("grid")]["data"]


def test_what_decides_nothing_is_not():
    """Another method's file stays out of a method's stages, and the report's code out of the grid."""
    gepa = stages_reaching("luthier.methods.gepa")
    assert "search@gepa" in gepa
    assert not gepa & {*MAIN, "search@textgrad"}
    assert not [name for name in modules_of("grid") if name.startswith(("luthier.report", "luthier.methods", "flows"))]
    assert not [name for name in modules_of(f"sft@{METHOD}") if name.startswith(("luthier.report", "luthier.search"))]


def test_pinned_versions_are_those_that_are_reached_with_what_they_need():
    pins = read_pins(ROOT / PINS)
    found = pinned_versions(["torch", "openvino_genai", "yaml", "prefect"], pins)
    assert found["torch"] == pins["torch"]
    assert {"openvino-genai", "openvino", "pyyaml"} <= set(found)
    assert "prefect" not in found
    assert "dvc" not in found
    assert pinned_versions(["torch"], {}) == {}
    assert {"transformers", "tokenizers", "trl"} <= set(FILES[code_file(f"sft@{METHOD}")]["libraries"])
    assert "trl" not in FILES[code_file("grid")]["libraries"]


def test_a_stage_without_a_module_is_one_error(tmp_path):
    (tmp_path / "dvc.yaml").write_text("stages: {polish: {cmd: x}}\n")
    (tmp_path / "params.yaml").write_text("{}\n")
    with pytest.raises(InputError, match="stage 'polish' has no module") as caught:
        code_files(tmp_path)
    assert caught.value.fix == "write stages/polish.py"


# --- the real DVC ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project whose stages count as built: real code files, stand-ins for all other outputs."""
    folder = copy_project(tmp_path_factory.mktemp("code") / "copy", profile="smoke")
    dvc(folder, "repro", "-q", "code")
    phases = read_phases(folder)
    for stage in yaml.safe_load((folder / "dvc.yaml").read_text())["stages"].values():
        listed = stage.get("foreach", "").removeprefix("${phases.").removesuffix("}")
        for item in phases[listed] if listed else [""]:
            for out in stage.get("do", stage)["outs"]:
                path = folder / out.replace("${item}", item).replace("${key}", item)
                if not path.exists():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(out)
    dvc(folder, "commit", "-q", "-f")
    return folder


def dvc(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "dvc", *arguments], cwd=folder, env=environment(folder), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def stale(folder: Path) -> set[str]:
    """What `dvc status` says once `code` is up to date; DVC's own code in this process, which spares its start."""
    files = code_files(folder)
    before = {path: (folder / path).read_bytes() for path in files}
    try:
        for path, content in files.items():
            write_json(folder / path, content)
        with chdir(folder), Repo() as repo:
            return {*repo.status()} - {"code"}
    finally:
        for path, content in before.items():
            (folder / path).write_bytes(content)


@pytest.mark.slow
def test_a_docstring_and_a_comment_leave_all_results_as_they_are(built):
    assert json.loads(dvc(built, "status", "--json")) == {}
    for path in sorted((built / "luthier").rglob("*.py")):
        text = path.read_text()
        path.write_text(text.replace('"""', '"""Said otherwise. ', 1) + "\n# a remark\n")
    assert set(json.loads(dvc(built, "status", "--json"))) == {"code"}
    dvc(built, "repro", "-q", "code")
    assert json.loads(dvc(built, "status", "--json")) == {}
    assert "up to date" in dvc(built, "repro", "report")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "some", "none"),
    [
        ("graph/parser.py", MAIN | {"compare"}, set()),
        ("openvino.py", MAIN | {"compare"}, set()),
        ("executors/execute.py", MAIN | {"compare"}, set()),
        ("executors/scheduler.py", MAIN | {"search@gepa"}, set()),
        ("luthier/ledger/store.py", MAIN, set()),
        ("settings/load.py", MAIN, set()),
        ("luthier/generator.py", {f"evaluate@{METHOD}", f"replicas@{METHOD}"}, {"questions", "search@gepa"}),
        ("teach.py", {f"teach@{METHOD}", f"replicas@{METHOD}"}, {"grid", f"sft@{METHOD}", "compare"}),
        ("gepa.py", {"search@gepa"}, MAIN | {"search@mipro"}),
        ("headline.py", {"report"}, MAIN | {f"replicas@{METHOD}", "search@gepa", "compare"}),
        ("pool.txt", {"grid", f"teach@{METHOD}", f"evaluate@{METHOD}"}, {"search@gepa"}),
    ],
)
def test_dvc_names_the_stages_that_a_change_decides(built, name, some, none):
    path = the_file(built, name)
    before = path.read_bytes()
    try:
        path.write_bytes(before + b"\n_CHANGED = 1\n")
        found = stale(built)
    finally:
        path.write_bytes(before)
    assert some <= found
    assert not none & found


@pytest.mark.slow
def test_dvc_names_the_stages_that_a_pinned_version_decides(built):
    lock = built / PINS
    before = lock.read_text()
    try:
        lock.write_text("\n".join("trl==0.0.1" if line.startswith("trl==") else line for line in before.split("\n")))
        found = stale(built)
    finally:
        lock.write_text(before)
    assert {f"sft@{METHOD}", f"reinforce@{METHOD}"} <= found
    assert "grid" not in found


@pytest.mark.slow
def test_the_plan_of_a_rebuild_lists_what_the_changed_code_decides(built):
    path = the_file(built, "headline.py")
    before = path.read_bytes()
    try:
        path.write_bytes(before + b"\n# a remark\n")
        assert plan([], root=built) == []
        path.write_bytes(before + b"\n_CHANGED = 1\n")
        assert plan([], root=built) == ["report"]
        assert plan(["grid"], root=built) == []
    finally:
        path.write_bytes(before)
