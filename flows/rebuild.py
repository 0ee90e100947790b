"""Flow `rebuild`: `dvc repro`, as the only writer of data and models.

DVC breaks when two of its processes work in one folder, so this flow holds a file lock around each; a second
one says whom it waits for. The lock is handed to the `dvc` process as well: should the flow be killed, the
lock lives as long as that process and not a moment longer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE

from flows.cancellation import end_children
from flows.launch import StageError, exit_status, launch
from luthier.files import locked
from luthier.lineage.sources import find_root
from luthier.stage_code import OWN_STAGE, stale_code

LOCK = Path(".cache/dvc.lock-file")
_EVENTS = (
    (re.compile(r"^Running stage '(?P<stage>.+)':"), "run"),
    (re.compile(r"^Stage '(?P<stage>.+)' is cached"), "restored"),
    (re.compile(r"^Stage '(?P<stage>.+)' didn't change"), "unchanged"),
    (re.compile(r"failed to reproduce '(?P<stage>.+?)'"), "failed"),
)
_EDGE = re.compile(r'^"(.+)" -> "(.+)";$')
_STATUS = re.compile(r"exited with (?P<status>\d+)\s*$")


@dataclass(frozen=True, slots=True)
class StageOutcome:
    """What DVC did with a stage: run, restored (from its cache), unchanged or failed."""

    stage: str
    outcome: str


@flow(name="rebuild", on_cancellation=[end_children])
def rebuild(targets: list[str] | None = None) -> list[StageOutcome]:
    """Bring the pipeline, or some of its stages with all they need, up to date.

    Args:
        targets: DVC stage names; all stages if none are given.

    Raises:
        StageError: a stage failed; what was finished is kept.
    """
    outcomes = dvc_repro(tuple(targets or ()))
    create_table_artifact(
        key="rebuild",
        table=[{"stage": item.stage, "outcome": item.outcome} for item in outcomes],
        description=f"`dvc repro {' '.join(targets or [])}`".strip(),
    )
    return outcomes


@task(name="dvc repro", cache_policy=NO_CACHE)
def dvc_repro(targets: tuple[str, ...]) -> list[StageOutcome]:
    """`reproduce`, with its lines in the flow run's log."""
    return reproduce(targets, root=find_root(), say=get_run_logger().info)


def reproduce(targets: Sequence[str], *, root: Path, say: Callable[[str], None]) -> list[StageOutcome]:
    """Run `dvc repro` under the lock.

    Returns:
        The stages in the order in which DVC came to them.

    Raises:
        StageError: with the failing stage's own exit status where DVC tells it.
    """
    seen: dict[str, str] = {}
    statuses: list[int] = []

    def read(line: str) -> None:
        say(line)
        for pattern, outcome in _EVENTS:
            if match := pattern.search(line):
                seen[match["stage"]] = outcome
        if match := _STATUS.search(line):
            statuses.append(int(match["status"]))

    def waiting(holder: str) -> None:
        say(f"another rebuild (process {holder or 'unknown'}) is running; waiting for it to end")

    with locked(root / LOCK, waiting) as lock:
        arguments = ["-m", "dvc", "repro", *targets]
        status = launch(arguments, root=root, say=read, keep_open=[lock])
    if status:
        failed = [stage for stage, outcome in seen.items() if outcome == "failed"]
        raise StageError(
            f"dvc repro, stage {failed[0]}" if failed else "dvc repro", statuses[-1] if statuses else status
        )
    return [StageOutcome(stage, outcome) for stage, outcome in seen.items()]


def stale_before(stage: str, *, root: Path) -> list[str]:
    """Stages before this one that are out of date; DVC itself has seen to them when it started this process."""
    if os.environ.get("DVC_STAGE"):
        return []
    with locked(root / LOCK) as lock:
        return sorted(_changed([stage], root, lock) - {stage})


def plan(targets: Sequence[str], *, root: Path) -> list[str]:
    """Stages that `dvc repro` would run now, in order: the changed ones and those whose inputs may change with them.

    (`dvc repro --dry` stops at the first missing file of a fresh clone, and does not look beyond a changed stage.)
    """
    with locked(root / LOCK) as lock:
        changed = _changed(targets, root, lock)
        edges = _edges(root, lock)
    needed = _closure(targets, [(after, before) for before, after in edges]) if targets else None
    affected = _closure(changed, edges)
    order: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(sorted(affected), ()))
    for before, after in edges:
        order.add(after, before)
    return [stage for stage in order.static_order() if stage in affected and (needed is None or stage in needed)]


def _changed(targets: Sequence[str], root: Path, lock: int) -> set[str]:
    lines: list[str] = []
    arguments = ["-m", "dvc", "status", "--json", *(["--with-deps", *targets] if targets else [])]
    status = launch(arguments, root=root, say=lines.append, keep_open=[lock])
    if status:
        raise StageError(f"dvc status ({' '.join(lines)})", status)
    changed = set(json.loads(next((line for line in reversed(lines) if line.startswith("{")), "{}")))
    if OWN_STAGE not in changed:
        return changed
    # Whatever changed in the sources, only what a stage reaches makes it stale: DVC would know after a run of `code`.
    upstream = _closure(targets, [(after, before) for before, after in _edges(root, lock)])
    return changed - {OWN_STAGE} | {stage for stage in stale_code(root) if not targets or stage in upstream}


def _edges(root: Path, lock: int) -> list[tuple[str, str]]:
    """Pairs of stages where the second one reads what the first one writes."""
    lines: list[str] = []
    status = launch(["-m", "dvc", "dag", "--dot"], root=root, say=lines.append, keep_open=[lock])
    if status:
        raise StageError(f"dvc dag ({' '.join(lines)})", status)
    return sorted((match[1], match[2]) for line in lines if (match := _EDGE.match(line)))


def _closure(stages: Iterable[str], edges: Sequence[tuple[str, str]]) -> set[str]:
    reached = set(stages)
    while grown := {after for before, after in edges if before in reached} - reached:
        reached |= grown
    return reached


def show_plan(targets: Sequence[str], *, root: Path, say: Callable[[str], None]) -> None:
    """Print what would run, and each stage's own forecast. Spends no model call."""
    stages = plan(targets, root=root)
    if not stages:
        say("up to date: nothing would run")
    for stage in stages:
        name, _, method = stage.partition("@")
        say(f"{stage} would run")
        method_arguments = ["--method", method] if method else []
        status = launch(
            ["-m", f"stages.{name}", *method_arguments, "--dry-run"], root=root, say=lambda line: say(f"  {line}")
        )
        if status:
            say("  no forecast yet: it needs the outputs of the stages before it")


def main(argv: Sequence[str] | None = None) -> int:
    """Command line of `python -m flows.rebuild`."""
    parser = argparse.ArgumentParser(prog="python -m flows.rebuild", description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", help="DVC stages; all if none")
    parser.add_argument("--dry-run", action="store_true", help="print what would run and its forecast, spend nothing")
    options = parser.parse_args(argv)
    if options.dry_run:
        return exit_status("rebuild", lambda: show_plan(options.targets, root=find_root(), say=print))
    return exit_status("rebuild", lambda: rebuild(options.targets))


if __name__ == "__main__":
    raise SystemExit(main())
