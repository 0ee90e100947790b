"""The main claim, over the training seeds of the comparison on the same held-out test questions.

Each seed is a build of its own (teacher's draws, SFT, RL, evaluation), made by stage `replicas`. A question's score is
its mean over the seeds, differences are paired by question.

    python -m benchmarks.seeds            # builds what is missing, about ten minutes a seed on two cores
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

from benchmarks.record import record
from benchmarks.workspace import ROOT, repro
from luthier.evaluation.statistics import paired_difference, question_means
from luthier.settings.load import load_params

METHOD = "mas_architect"
FIGURES = (
    ("sft_minus_single", "sft", "target_alone"),
    ("sft_minus_best_fixed", "sft", "best_fixed"),
    ("rl_minus_sft", "reinforce", "sft"),
)


def scores(seed: int) -> dict[str, object]:
    """What stage `evaluate` found in the build of a seed."""
    path = ROOT / "data" / "replicas" / METHOD / str(seed) / "scores.json"
    found: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return found


def averaged(runs: Sequence[Mapping[str, object]], contender: str) -> dict[str, float]:
    """Question id -> mean score of a contender over the seeds."""
    return question_means([run["per_question"][contender] for run in runs])  # type: ignore[index]


def main() -> int:
    """Bring the replicas up to date and record the four figures."""
    if repro(ROOT, f"replicas@{METHOD}").returncode:
        raise SystemExit(f"the replicas failed; see {ROOT / '.cache' / 'repro.log'}")
    seeds = load_params(ROOT).profile.compare.seeds
    runs = [scores(seed) for seed in seeds]
    for name, ours, theirs in FIGURES:
        left, right = averaged(runs, ours), averaged(runs, theirs)
        interval = paired_difference(left, right, resamples=10_000).interval
        record(
            name,
            round(100 * interval.mean, 2),
            unit="points of accuracy",
            n=interval.n,
            ours=round(100 * sum(left.values()) / len(left), 2),
            peer=round(100 * sum(right.values()) / len(right), 2),
            seeds=seeds,
            interval=(round(100 * interval.low, 2), round(100 * interval.high, 2)),
        )
    counts = [len(run["novel_compositions"]["reinforce"]) for run in runs]  # type: ignore[index]
    record("novel_compositions", min(counts), unit="compositions, least of the seeds", n=len(counts), seeds=seeds)
    for seed, run in zip(seeds, runs, strict=True):
        print(seed, _line(run), file=sys.stderr)
    return 0


def _line(run: Mapping[str, object]) -> str:
    test: Mapping[str, Mapping[str, Mapping[str, float]]] = run["test"]  # type: ignore[assignment]
    return " ".join(f"{name} {table['pooled']['mean']:.3f}" for name, table in test.items())


if __name__ == "__main__":
    raise SystemExit(main())
