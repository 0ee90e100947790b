"""Flow `train_generator`: train a method's generator, phase by phase, and promote it if it is better.

Without a phase, DVC brings `sft`, `reinforce` and `evaluate` up to date in order, and the new checkpoint becomes
champion if it beats the old one on validation (`luthier.lineage.challenge` holds the rule). With a phase, this
is what that stage's command in `dvc.yaml` runs: the training as a subprocess, its lines in Prefect's log, its
checkpoint in MLflow.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, runtime, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE

from flows.cancellation import end_children
from flows.evaluate import let_challenge, record_scores
from flows.launch import TRY_AGAIN, StageError, exit_status, launch
from flows.menus import ALL, METHODS, PHASES, Method, Phase, stages_of
from flows.rebuild import dvc_repro, show_plan, stale_before
from luthier import lineage
from luthier.errors import InputError
from luthier.lineage.checkpoint import Checkpoint, show_number
from luthier.lineage.sources import find_root, running_stage
from luthier.lineage.tags import ledger_totals
from luthier.method import TRAINING
from luthier.methods import card

# Where `mlflow server --backend-store-uri sqlite:///mlruns/mlflow.db` shows a run.
_MLFLOW = "http://127.0.0.1:5000/#/experiments"


@flow(name="train_generator", on_cancellation=[end_children])
def train_generator(method: Method, phase: Phase = ALL, allow_dirty: bool = False) -> str:
    """Train all phases of a method, or one.

    Args:
        method: A method of `params.yaml`.
        phase: All through DVC, else that stage itself.
        allow_dirty: Train one phase by hand although the stages before it are out of date.

    Returns:
        What came of it, in one line.

    Raises:
        StageError: a stage failed or was stopped; what was finished is kept.
        InputError: the pipeline is out of date.
    """
    if phase == ALL:
        return _train_all(method)
    return _train_one(method, phase, allow_dirty)


def _train_all(method: str) -> str:
    root, say = find_root(), get_run_logger().info
    before = lineage.holder(method, lineage.CHAMPION, root=root)
    for phase in stages_of(method):
        dvc_repro.with_options(name=phase)((f"{phase}@{method}",))
    record_scores(method, root=root, say=say)
    verdict = let_challenge(method, root=root, say=say, before=before)
    checkpoints = [
        lineage.checkpoint_of(root / "models" / phase / method, root=root) for phase in card(method).checkpoints
    ]
    create_table_artifact(
        key="train-generator",
        table=[_row(checkpoint) for checkpoint in checkpoints if checkpoint is not None],
        description=f"{method}: {verdict}",
    )
    return verdict


def _train_one(method: str, phase: str, allow_dirty: bool) -> str:
    root, say = find_root(), get_run_logger().info
    stale = stale_before(f"{phase}@{method}", root=root)
    if stale and not allow_dirty:
        raise InputError(
            f"out of date: {', '.join(stale)}",
            where="dvc.lock",
            fix=f"run `dvc repro {phase}@{method}`, or --allow-dirty",
        )
    tags = {"prefect.flow_run_id": str(runtime.flow_run.id), "dvc.dirty": str(bool(stale)).lower()}
    if phase not in TRAINING:
        patient_stage.with_options(name=phase)(method, phase)
        scored = record_scores(method, root=root, say=say)
        create_table_artifact(key=phase, table=[item.to_row() for item in scored], description=f"Scores of {method}")
        return f"{phase} {method}: {len(scored)} scores; {let_challenge(method, root=root, say=say)}"
    running_stage(root, f"{phase}@{method}")  # what cannot be recorded must not be trained for an hour first
    with lineage.start_phase(phase, method, root=root, tags=tags) as run:
        run_stage.with_options(name=phase)(method, phase)
        spent = _spent(root, method, phase)
        model_id = lineage.log_checkpoint(run, root / "models" / phase / method, spent)
    checkpoint = lineage.find(model_id, root=root)
    create_markdown_artifact(key=phase, markdown=_markdown(checkpoint))
    return f"{phase} {method}: {model_id}"


@task(cache_policy=NO_CACHE)
def run_stage(method: str, phase: str) -> None:
    """The stage as a subprocess in its own process group, which ends with this task.

    Training is never retried: a second try would fail the same way.

    Raises:
        StageError: it ended with another status than 0.
    """
    arguments = ["-m", f"stages.{phase}", "--method", method]
    status = launch(arguments, root=find_root(), say=get_run_logger().info)
    if status:
        raise StageError(f"python {' '.join(arguments)}", status)


def may_help(_task: Any, _run: Any, state: Any) -> bool:
    """Whether a second try can mend it: a target or server failed, and not the input."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, StageError) and error.status == TRY_AGAIN


# An evaluation that is tried again continues from the store and pays nothing twice.
patient_stage = run_stage.with_options(retries=2, retry_delay_seconds=[10, 60], retry_condition_fn=may_help)


def _spent(root: Path, method: str, phase: str) -> dict[str, float | None]:
    """The phase's ledger totals; a project without a store has never called a model."""
    if not (root / ".cache" / "store.sqlite").is_file():
        return {}
    from luthier.context import StageContext

    with StageContext(phase, method, root=root) as context:
        return ledger_totals(context.ledger.totals())


def _row(checkpoint: Checkpoint) -> dict[str, Any]:
    scores = {name: f"{value:.4f}" for name, value in sorted(checkpoint.scores.items()) if name.endswith(".score")}
    spent = {
        name.removeprefix("train.target."): show_number(value)
        for name, value in sorted(checkpoint.ledger.items())
        if name in ("train.target.calls", "train.target.seconds", "train.target.price")
    }
    return (
        {"checkpoint": checkpoint.phase, "model": checkpoint.model_id} | scores | spent | {"mlflow": _link(checkpoint)}
    )


def _markdown(checkpoint: Checkpoint) -> str:
    rows = [
        ("checkpoint", f"`{checkpoint.model_id}`"),
        ("files", f"`{checkpoint.path}`, sha256 `{checkpoint.digest}`"),
        ("code", f"`{checkpoint.commit}`{' (dirty)' if checkpoint.changed else ''}"),
        ("seed", str(checkpoint.seed)),
        *((f"read {path}", f"md5 `{md5}`") for path, md5 in sorted(checkpoint.stages[checkpoint.stage].deps.items())),
        *((f"spent {name}", show_number(value)) for name, value in sorted(checkpoint.ledger.items())),
        ("MLflow", f"[run]({_link(checkpoint)})"),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"# {checkpoint.method}/{checkpoint.phase}\n\n| | |\n|---|---|\n{table}\n"


def _link(checkpoint: Checkpoint) -> str:
    return f"{_MLFLOW}/{checkpoint.experiment_id}/runs/{checkpoint.run_id}"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line of `python -m flows.train_generator`."""
    parser = argparse.ArgumentParser(prog="python -m flows.train_generator", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--method", choices=METHODS, required=True, help="method to train")
    parser.add_argument("--phase", choices=PHASES, default=ALL, help="only this stage, as DVC runs it")
    parser.add_argument("--allow-dirty", action="store_true", help="with --phase: train on out-of-date data")
    parser.add_argument("--dry-run", action="store_true", help="print what would run and its forecast, spend nothing")
    options = parser.parse_args(argv)

    def work() -> None:
        if options.dry_run:
            _forecast(options.method, options.phase, print)
        else:
            print(train_generator(options.method, options.phase, options.allow_dirty))

    return exit_status("train_generator", work)


def _forecast(method: str, phase: str, say: Callable[[str], None]) -> None:
    root = find_root()
    if phase == ALL:
        show_plan([f"{name}@{method}" for name in stages_of(method)], root=root, say=say)
    elif status := launch(["-m", f"stages.{phase}", "--method", method, "--dry-run"], root=root, say=say):
        raise StageError(f"stages.{phase} --dry-run", status)


if __name__ == "__main__":
    raise SystemExit(main())
