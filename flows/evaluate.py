"""Flow `evaluate`: score a method's checkpoints through DVC, and attach the scores to them in MLflow."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from prefect import flow, get_run_logger, runtime
from prefect.artifacts import create_table_artifact

from flows.cancellation import end_children
from flows.launch import exit_status
from flows.menus import METHODS, Method
from flows.rebuild import dvc_repro, show_plan
from luthier import lineage
from luthier.experiment import running_experiment
from luthier.lineage import Scored
from luthier.lineage.scores import PHASE
from luthier.lineage.sources import find_root
from luthier.methods import card


@flow(name="evaluate", on_cancellation=[end_children])
def evaluate(method: Method) -> list[Scored]:
    """Bring `evaluate@<method>` up to date and record its scores; a better checkpoint becomes champion.

    Raises:
        StageError: a stage failed.
        InputError: the scores are missing or broken.
    """
    root, say = find_root(), get_run_logger().info
    before = lineage.holder(method, lineage.CHAMPION, root=root)
    dvc_repro.with_options(name=PHASE)((f"{PHASE}@{method}",))
    scored = record_scores(method, root=root, say=say)
    let_challenge(method, root=root, say=say, before=before)
    create_table_artifact(
        key="evaluate", table=[item.to_row() for item in scored], description=f"Scores of {method}, mean and interval"
    )
    return scored


def record_scores(method: str, *, root: Path, say: Callable[[str], None]) -> list[Scored]:
    """Attach the scores on disk to the checkpoints on disk, those that only DVC brought included."""
    lineage.import_checkpoints(root)
    return lineage.record_scores(
        method, root=root, say=say, tags={"prefect.flow_run_id": str(runtime.flow_run.id or "none")}
    )


def let_challenge(method: str, *, root: Path, say: Callable[[str], None], before: str | None = None) -> str:
    """Make the checkpoint on disk the candidate, and the champion if it beats the old one; the verdict in a line.

    `luthier.lineage.challenge` holds the rule. The first checkpoint with a validation score becomes champion.

    Args:
        method: Whose checkpoint.
        root: The project's folder.
        say: Told the verdict.
        before: The champion's id before a flow that has let the stage `evaluate` ask this already.
    """
    experiment = running_experiment(root)
    candidate = lineage.checkpoint_of(root / "models" / card(method).checkpoints[-1] / method, root=root)
    if experiment is not None and experiment.apart:
        verdict = f"not promoted: experiment {experiment.name} moves no champion; `dvc exp apply` it, then evaluate"
    elif candidate is None:
        verdict = "the checkpoint on disk is not in MLflow: no promotion; retrain it to record it"
    else:
        lineage.promote(method, lineage.CANDIDATE, candidate.model_id, root=root)
        result = lineage.challenge(method, root=root)
        is_new = before is not None and lineage.holder(method, lineage.CHAMPION, root=root) != before
        verdict = f"{'promoted' if result.promoted or is_new else 'not promoted'}: {result.reason}"
    say(f"{method}: {verdict}")
    return verdict


def main(argv: Sequence[str] | None = None) -> int:
    """Command line of `python -m flows.evaluate`."""
    parser = argparse.ArgumentParser(prog="python -m flows.evaluate", description=__doc__)
    parser.add_argument("--method", choices=METHODS, required=True, help="method to evaluate")
    parser.add_argument("--dry-run", action="store_true", help="print what would run and its forecast, spend nothing")
    options = parser.parse_args(argv)
    if options.dry_run:
        return exit_status(PHASE, lambda: show_plan([f"{PHASE}@{options.method}"], root=find_root(), say=print))
    return exit_status(PHASE, lambda: evaluate(options.method))


if __name__ == "__main__":
    raise SystemExit(main())
