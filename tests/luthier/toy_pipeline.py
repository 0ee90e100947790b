"""A pipeline folder small enough for a test, and real: git, DVC, MLflow and the house's lineage."""

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

DVC_YAML = """\
stages:
  questions:
    cmd: python make.py questions
    deps: [make.py]
    params: [seed]
    outs: [data/questions]
  grid:
    cmd: python make.py grid
    deps: [make.py, data/questions/train.jsonl]
    outs: [data/grid]
  teach:
    matrix: {method: "${methods}"}
    cmd: python make.py teach --method ${item.method}
    deps: [make.py, data/grid, data/questions]
    outs: ["data/teach/${item.method}"]
  sft:
    matrix: {method: "${methods}"}
    cmd: python make.py sft --method ${item.method}
    deps: [make.py, "data/teach/${item.method}"]
    outs: ["models/sft/${item.method}"]
  reinforce:
    matrix: {method: "${methods}"}
    cmd: python make.py reinforce --method ${item.method}
    deps: [make.py, "models/sft/${item.method}", data/questions/train.jsonl]
    outs: ["models/reinforce/${item.method}"]
  evaluate:
    matrix: {method: "${methods}"}
    cmd: python make.py evaluate --method ${item.method}
    deps: [make.py, "models/sft/${item.method}", "models/reinforce/${item.method}", data/questions]
    outs: ["data/evaluate/${item.method}", "reports/spending/${item.method}.json"]
  later:
    cmd: echo nobody builds this
    deps: [data/evaluate]
    outs: [data/later]
"""
BUILT = "evaluate@mas_architect"
"""What tests build: everything but the stage `later`."""

PARAMS = "profile: smoke\nseed: 3\nmethods: [mas_architect]\n"

MAKE = '''\
"""All stages of the toy: rows in, rows or a "model" out."""
import argparse, hashlib, json, os
from pathlib import Path
import yaml
from luthier import lineage
from luthier.files import digest_folder

parser = argparse.ArgumentParser()
parser.add_argument("stage")
parser.add_argument("--method", default="")
options = parser.parse_args()
seed = yaml.safe_load(Path("params.yaml").read_text())["seed"]

def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\\n" for row in rows))

def train(phase, source, parent):
    folder = Path("models", phase, options.method)
    folder.mkdir(parents=True, exist_ok=True)
    weights = hashlib.sha256(source.read_bytes() + os.environ.get("TOY_NOISE", "").encode()).hexdigest()
    (folder / "model.safetensors").write_text(weights)
    curve = [{"step": step, "reward": step / 4, "valid": 1.0, "kl": 0.1, "length": 20} for step in range(1, 4)]
    report = {"settings": {"learning_rate": 0.1, "batch": {"rows": 8}}, "seed": seed, "parent": parent,
              "inputs": {"rows": "x", "target": "toy-target"}, "curve": curve}
    (folder / "training.json").write_text(json.dumps(report))
    with lineage.start_phase(phase, options.method, tags={"prefect.flow_run_id": "none"}) as run:
        lineage.log_checkpoint(run, folder, {"train.target.calls": 12, "train.target.price": None})

if options.stage == "questions":
    write(Path("data/questions/train.jsonl"), [{"n": n * seed} for n in range(5)])
    write(Path("data/questions/validation.jsonl"), [{"n": n * seed} for n in range(2)])
    write(Path("data/questions/test.jsonl"), [{"n": n * seed} for n in range(3)])
elif options.stage == "grid":
    write(Path("data/grid/executions.jsonl"), [{"g": n} for n in range(15)])
elif options.stage == "teach":
    write(Path("data/teach", options.method, "rows.jsonl"), [{"t": n} for n in range(4)])
elif options.stage == "sft":
    train("sft", Path("data/teach", options.method, "rows.jsonl"), "base-digest")
elif options.stage == "evaluate":
    table = lambda mean: {"pooled": {"mean": mean, "low": mean - 0.1, "high": mean + 0.1}, "by_family": {"gcd": mean}}
    scores = {"validation": {"sft": table(0.4), "reinforce": table(0.6)},
              "test": {"sft": table(0.3), "reinforce": table(0.5)}, "target": "toy-target"}
    folder = Path("data/evaluate", options.method)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scores.json").write_text(json.dumps(scores))
    amount = lambda calls: {"rollouts": 0, "calls": calls, "prompt_tokens": 10 * calls, "completion_tokens": calls,
                            "seconds": calls / 2, "picodollars": None}
    spend = lambda account, calls: {"account": account, "role": "target", "alone": amount(calls), "paid": amount(calls)}
    bill = [{"stage": "sft", "spent": [spend("data", 5), spend("train", 12)]},
            {"stage": "reinforce", "spent": [spend("data", 5), spend("train", 24)]}]
    Path("reports/spending").mkdir(parents=True, exist_ok=True)
    Path("reports/spending", options.method + ".json").write_text(json.dumps(bill))
    lineage.record_scores(options.method, root=Path.cwd(), say=print)
else:
    parent = Path("models/sft", options.method)
    train("reinforce", parent / "model.safetensors", digest_folder(parent))
'''


def environment() -> dict[str, str]:
    """Environment of a user in the toy's folder: the tested code, this interpreter, nothing of an outer pipeline."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "DVC_", "PREFECT_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return kept | {"PATH": path, "PYTHONPATH": str(REPOSITORY), "DVC_NO_ANALYTICS": "1"}


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dvc(folder: Path, *arguments: str) -> str:
    return run(folder, sys.executable, "-m", "dvc", *arguments)


def commit(folder: Path, message: str) -> None:
    run(folder, "git", "add", "--all")
    run(folder, "git", "-c", "user.name=toy", "-c", "user.email=toy@localhost", "commit", "-q", "-m", message)


def make_repository(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    ignored = ("/data/", "/models/", "/reports/", "/mlruns/", ".cache/", ".dvc/tmp", ".dvc/cache", "__pycache__/")
    (folder / ".gitignore").write_text("\n".join(ignored) + "\n")
    run(folder, "git", "init", "-q")
    dvc(folder, "init", "-q")
    commit(folder, "Start")
    return folder
