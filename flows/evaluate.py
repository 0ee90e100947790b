"""Flow `evaluate`: score a method's checkpoints through DVC, and attach the scores to them in MLflow."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, runtime
from prefect.artifacts import create_table_artifact

from flows.cancellation import end_children
from flows.launch import exit_status
from flows.menus import METHODS, Method
from flows.rebuild import dvc_repro, show_plan
from luthier import lineage
from luthier.files import digest_file
from luthier.pedigree import Checkpoint
from luthier.reading import read_object, shaped
from luthier.revision import find_root

PHASE = "evaluate"
SPLITS = ("validation", "test")
TRAINED = ("sft", "reinforce")


@dataclass(frozen=True, slots=True)
class Scored:
    """A checkpoint's mean score with its interval on one split."""

    model_id: str
    phase: str
    split: str
    score: float
    low: float
    high: float

    def to_row(self) -> dict[str, Any]:
        """A row of a Prefect table."""
        interval = f"[{self.low:.1%}, {self.high:.1%}]"
        return {"checkpoint": self.phase, "split": self.split, "score": f"{self.score:.1%}", "interval": interval}


@flow(name="evaluate", on_cancellation=[end_children])
def evaluate(method: Method) -> list[Scored]:
    """Bring `evaluate@<method>` up to date and record its scores.

    Raises:
        StageError: a stage failed.
        InputError: the scores are missing or broken.
    """
    dvc_repro.with_options(name=PHASE)((f"{PHASE}@{method}",))
    scored = record_scores(method, root=find_root(), say=get_run_logger().info)
    create_table_artifact(
        key="evaluate", table=[item.to_row() for item in scored], description=f"Scores of {method}, mean and interval"
    )
    return scored


def record_scores(method: str, *, root: Path, say: Callable[[str], None]) -> list[Scored]:
    """Attach the scores in `data/evaluate/<method>/scores.json` to the checkpoints on disk, once per file content."""
    path = root / "data" / PHASE / method / "scores.json"
    scores = read_scores(path)
    found = {phase: lineage.checkpoint_of(root / "models" / phase / method, root=root) for phase in TRAINED}
    recorded = {phase: checkpoint for phase, checkpoint in found.items() if checkpoint is not None}
    for phase in sorted(set(found) - set(recorded)):
        say(f"models/{phase}/{method} is not in MLflow (mlruns/ is newer than it): its scores are not recorded")
    digest = digest_file(path)
    if any(checkpoint.scores_digest != digest for checkpoint in recorded.values()):
        flow_run_id = str(runtime.flow_run.id or "none")
        with lineage.start_phase(PHASE, method, root=root, tags={"prefect.flow_run_id": flow_run_id}) as run:
            for phase, checkpoint in sorted(recorded.items()):
                for split in SPLITS:
                    _log(run, checkpoint, split, scores[split][phase], str(scores.get("target", "")), root)
                lineage.mark_scored(checkpoint.model_id, digest, root=root)
    return [
        Scored(checkpoint.model_id, phase, split, *_pooled(scores[split][phase]))
        for phase, checkpoint in recorded.items()
        for split in SPLITS
    ]


def read_scores(path: Path) -> Mapping[str, Any]:
    """The evaluation's `scores.json`: by split and phase, a table with `pooled` mean, low and high.

    Raises:
        InputError: the file is missing or broken, or lacks a field.
    """
    fix = "run the stage evaluate again"
    scores = read_object(path, fix=fix)
    with shaped("not a table of scores", where=str(path), fix=fix):
        for split in SPLITS:
            for phase in TRAINED:
                _pooled(scores[split][phase])
    return scores


def _pooled(table: Mapping[str, Any]) -> tuple[float, float, float]:
    pooled = table["pooled"]
    return float(pooled["mean"]), float(pooled["low"]), float(pooled["high"])


def _log(
    run: lineage.PhaseRun, checkpoint: Checkpoint, split: str, table: Mapping[str, Any], target: str, root: Path
) -> None:
    mean, low, high = _pooled(table)
    families = {f"family.{family}": float(value) for family, value in table.get("by_family", {}).items()}
    lineage.log_scores(
        run,
        checkpoint.model_id,
        split,
        {"score": mean, "score.low": low, "score.high": high} | families,
        questions=root / "data" / "questions" / f"{split}.jsonl",
        target=target or checkpoint.target,
    )


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
