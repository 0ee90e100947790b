"""The main claim, over three training seeds on the same held-out test questions.

Each seed is a build of its own (teacher's draws, SFT, RL, evaluation) in a clean copy; the copies start with the
answers that the frozen target has already given, which changes no result. A question's score is its mean over
the seeds, differences are paired by question.

    python -m benchmarks.seeds            # seeds 17 18 19, about ten minutes each on two cores
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

from benchmarks.record import record
from benchmarks.workspace import ROOT, copy_project, environment, repro
from luthier.comparison import paired_difference
from luthier.params import load_params

WORK = ROOT / ".cache" / "seeds"
METHOD = "mas_architect"
FIGURES = (
    ("sft_minus_single", "sft", "target_alone"),
    ("sft_minus_best_fixed", "sft", "best_fixed"),
    ("rl_minus_sft", "reinforce", "sft"),
)


def build(seed: int, profile: str) -> dict[str, object]:
    """Build one seed (or take up where an earlier try ended) and read its scores.

    The project's own build serves for its seed when it is up to date: it is the same build.
    """
    folder = ROOT if _is_built_here(seed, profile) else WORK / f"{profile}-{seed}"
    if not folder.exists():
        WORK.mkdir(parents=True, exist_ok=True)
        store = ROOT / ".cache" / "store.sqlite"
        copy_project(folder, profile=profile, seed=seed, store=store if store.exists() else None)
    done = repro(folder, f"evaluate@{METHOD}")
    if done.returncode:
        raise SystemExit(f"seed {seed} failed; see {folder / '.cache' / 'repro.log'}")
    scores: dict[str, object] = json.loads((folder / "data" / "evaluate" / METHOD / "scores.json").read_text())
    return scores


def _is_built_here(seed: int, profile: str) -> bool:
    asked = load_params(ROOT).ask
    if (asked.seed, asked.profile) != (seed, profile):
        return False
    status = subprocess.run(
        ["dvc", "status"], cwd=ROOT, env=environment(ROOT), capture_output=True, text=True, check=False
    )
    return "up to date" in status.stdout


def averaged(runs: Sequence[Mapping[str, object]], contender: str) -> dict[str, float]:
    """Question id -> mean score over the seeds.

    Raises:
        SystemExit: the seeds did not answer the same questions.
    """
    tables = [run["per_question"][contender] for run in runs]  # type: ignore[index]
    if any(set(table) != set(tables[0]) for table in tables):
        raise SystemExit("the seeds answered different questions")
    return {question: sum(table[question] for table in tables) / len(tables) for question in sorted(tables[0])}


def main(argv: Sequence[str] | None = None) -> int:
    """Build the seeds and record the four figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[17, 18, 19])
    parser.add_argument("--profile", default="embedded")
    parser.add_argument("--fresh", action="store_true", help="forget earlier builds")
    arguments = parser.parse_args(argv)
    if arguments.fresh:
        shutil.rmtree(WORK, ignore_errors=True)
    runs = [build(seed, arguments.profile) for seed in arguments.seeds]
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
            seeds=arguments.seeds,
            interval=(round(100 * interval.low, 2), round(100 * interval.high, 2)),
        )
    counts = [len(run["novel_compositions"]["reinforce"]) for run in runs]  # type: ignore[index]
    record(
        "novel_compositions", min(counts), unit="compositions, least of the seeds", n=len(counts), seeds=arguments.seeds
    )
    for seed, run in zip(arguments.seeds, runs, strict=True):
        print(seed, _line(run), file=sys.stderr)
    return 0


def _line(run: Mapping[str, object]) -> str:
    test: Mapping[str, Mapping[str, Mapping[str, float]]] = run["test"]  # type: ignore[assignment]
    return " ".join(f"{name} {table['pooled']['mean']:.3f}" for name, table in test.items())


if __name__ == "__main__":
    raise SystemExit(main())
