import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import flows  # noqa: F401  (sets Prefect's quiet environment before Prefect is imported)

STAGES = '''\
"""A stage of the toy: leaves marks of when it ran, and waits or fails when told to."""
import argparse, hashlib, json, os, subprocess, sys, time
from pathlib import Path
from luthier.files import digest_folder

NAME = Path(__file__).stem
parser = argparse.ArgumentParser()
parser.add_argument("--method", default="")
parser.add_argument("--dry-run", action="store_true")
options = parser.parse_args()
if options.dry_run:
    print(f"forecast of {NAME} {options.method}".strip())
    raise SystemExit(0)
settings = json.loads(Path("toy.json").read_text())
print(f"{NAME} starts", flush=True)
if NAME == settings.get("hangs"):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    Path("pids").write_text(f"{os.getpid()} {child.pid}")
    time.sleep(300)
if NAME == settings.get("fails"):
    attempts = Path("attempts")
    attempts.write_text((attempts.read_text() if attempts.exists() else "") + "x")
    raise SystemExit(settings["status"])

def write(path, text):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)

if NAME == "questions":
    for split in ("train", "validation", "test"):
        write(f"data/questions/{split}.jsonl", "{}\\n" * 3)
elif NAME in ("sft", "reinforce"):
    parent = digest_folder(Path("models/sft", options.method)) if NAME == "reinforce" else "base"
    folder = Path("models", NAME, options.method)
    write(folder / "model.safetensors", settings.get("weights", "w") + NAME)
    record = {"settings": {"steps": 2}, "seed": 1, "parent": parent, "inputs": {"target": "toy"},
              "curve": [{"step": 1, "reward": 0.5}, {"step": 2, "reward": 1.0}]}
    write(folder / "training.json", json.dumps(record))
elif NAME == "evaluate":
    table = lambda mean: {"pooled": {"mean": mean, "low": mean - 0.1, "high": mean + 0.1}, "by_family": {"gcd": mean}}
    scores = {split: {"sft": table(0.4), "reinforce": table(settings.get("score", 0.5))}
              for split in ("validation", "test")}
    write(Path("data/evaluate", options.method, "scores.json"), json.dumps(scores))
'''

DVC_YAML = """\
stages:
  questions:
    cmd: python -m stages.questions
    deps: [stages/questions.py]
    outs: [data/questions]
  sft:
    matrix: {method: "${methods}"}
    cmd: python -m flows.train_generator --phase sft --method ${item.method}
    deps: [data/questions, toy.json]
    outs: ["models/sft/${item.method}"]
  reinforce:
    matrix: {method: "${methods}"}
    cmd: python -m flows.train_generator --phase reinforce --method ${item.method}
    deps: ["models/sft/${item.method}"]
    outs: ["models/reinforce/${item.method}"]
  evaluate:
    matrix: {method: "${methods}"}
    cmd: python -m flows.train_generator --phase evaluate --method ${item.method}
    deps: ["models/sft/${item.method}", "models/reinforce/${item.method}", toy.json]
    outs: ["data/evaluate/${item.method}"]
"""


@pytest.fixture(scope="session")
def toy() -> ModuleType:
    """Helpers shared with the lineage tests."""
    path = Path(__file__).parents[1] / "luthier" / "toy_pipeline.py"
    spec = importlib.util.spec_from_file_location("toy_pipeline", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def prefect_api() -> Iterator[str]:
    """One temporary Prefect server for the whole test run; its address."""
    from prefect.client.orchestration import get_client
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=180):
        yield str(get_client(sync_client=True).api_url)


@pytest.fixture
def project(tmp_path: Path, toy: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a fresh repository whose pipeline starts our flows."""
    return make_project(tmp_path / "project", toy, monkeypatch)


@pytest.fixture(scope="module")
def shared_project(
    tmp_path_factory: pytest.TempPathFactory, toy: ModuleType
) -> Iterator[tuple[Path, pytest.MonkeyPatch]]:
    """As `project`, one for a file, with what changes the environment as long."""
    with pytest.MonkeyPatch.context() as patch:
        yield make_project(tmp_path_factory.mktemp("shared") / "project", toy, patch), patch


def make_project(folder: Path, toy: ModuleType, patch: pytest.MonkeyPatch) -> Path:
    files = {f"stages/{name}.py": STAGES for name in ("questions", "sft", "reinforce", "evaluate")}
    files |= {"stages/__init__.py": "", "toy.json": "{}", "params.yaml": "methods: [mas_architect]\n"}
    made: Path = toy.make_repository(folder, files | {"dvc.yaml": DVC_YAML})
    patch.chdir(made)
    for name, value in toy.environment().items():
        patch.setenv(name, value)
    for name in [name for name in os.environ if name.startswith("DVC_") and name != "DVC_NO_ANALYTICS"]:
        patch.delenv(name)
    return made
