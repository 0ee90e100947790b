"""Flow `replicas`: train a method again under each seed of the comparison, in clean copies of the project.

A replica is the whole build (the teacher's draws, SFT, RL, evaluation) with another seed and the same questions. The
project's own build serves for its own seed. A copy starts with the answers that the frozen target has already given,
which changes no result.

    python -m flows.replicas --method mas_architect        # what the stage `replicas` runs
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from prefect import flow, get_run_logger

from flows.cancellation import end_children
from flows.copies import COPIES, copy_project, environment
from flows.launch import StageError, exit_status, launch
from flows.menus import METHODS, Method
from luthier.lineage.sources import find_root
from luthier.settings.load import load_params

OUT = Path("data/replicas")
PAID = Path("reports/paid/replicas")
_KEPT = ("scores.json", "executions.jsonl", "held_out.jsonl")


@flow(name="replicas", on_cancellation=[end_children])
def replicas(method: Method) -> list[int]:
    """Build what is missing and collect the evaluations in data/replicas/<method>/<seed>/.

    Returns:
        The seeds.

    Raises:
        StageError: a build failed; what was finished is kept, run again to continue.
    """
    root, say = find_root(), get_run_logger().info
    params = load_params(root)
    for seed in params.profile.compare.seeds:
        say(f"replicas: {method}, seed {seed}")
        own = seed == params.ask.seed
        source = root if own else build(root, method, params.ask.profile, seed, say)
        collect(source, root, method, seed)
    return list(params.profile.compare.seeds)


def build(root: Path, method: str, profile: str, seed: int, say: Callable[[str], None]) -> Path:
    """The copy of a seed, brought up to date by DVC.

    Raises:
        StageError: DVC failed.
    """
    store = root / ".cache" / "store.sqlite"
    folder = copy_project(
        root,
        root / COPIES / f"{profile}-{seed}",
        profile=profile,
        seed=seed,
        store=store if store.exists() else None,
    )
    status = launch(
        ["-m", "dvc", "repro", f"evaluate@{method}"],
        root=root,
        say=lambda line: say(f"{seed}: {line}"),
        cwd=folder,
        environment=environment(folder),
    )
    if status:
        raise StageError(f"replica {seed}", status)
    return folder


def collect(source: Path, root: Path, method: str, seed: int) -> None:
    """Copy what a comparison reads out of a build: the evaluation, the bill as `spending.json`, what was paid apart."""
    folder, paid = root / OUT / method / str(seed), root / PAID / method / f"{seed}.json"
    folder.mkdir(parents=True, exist_ok=True)
    paid.parent.mkdir(parents=True, exist_ok=True)
    for name in _KEPT:
        shutil.copy2(source / "data" / "evaluate" / method / name, folder / name)
    shutil.copy2(source / "reports" / "spending" / f"{method}.json", folder / "spending.json")
    shutil.copy2(source / "reports" / "paid" / f"{method}.json", paid)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line of `python -m flows.replicas`."""
    parser = argparse.ArgumentParser(prog="python -m flows.replicas", description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=METHODS, required=True)
    parser.add_argument("--dry-run", action="store_true", help="print which builds would run, spend nothing")
    options = parser.parse_args(argv)
    return exit_status("replicas", lambda: _forecast(options.method) if options.dry_run else replicas(options.method))


def _forecast(method: str) -> None:
    params = load_params(find_root())
    others = [seed for seed in params.profile.compare.seeds if seed != params.ask.seed]
    print(f"replicas: {len(others)} builds of {method}, seeds {', '.join(map(str, others)) or 'none'}")


if __name__ == "__main__":
    raise SystemExit(main())
