"""What a learned method had spent when each of its checkpoints was done, uncached, read from the ledger.

Counted are the rows of the grid that it learns from (training questions), its teaching, and its training: draws,
executions and update passes. Validation and test answers are no part of it; nothing of the method depends on them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from luthier.context import StageContext
from luthier.errors import InputError
from luthier.evaluation.method_run import Spend, spends
from luthier.files import read_rows
from luthier.ledger.entries import Entry, Line
from luthier.ledger.ledger import Ledger
from luthier.method import TRAINING
from luthier.methods import card
from luthier.training.bill import PHASES

_STEP = re.compile(r"step (\d+)")
_UPDATE = PHASES["update"].format("")


@dataclass(frozen=True, slots=True)
class Milestone:
    """A checkpoint and everything that was spent until it was done.

    Attributes:
        stage: "sft", "reinforce_<step>" or "reinforce".
        spent: By account and role.
    """

    stage: str
    spent: tuple[Spend, ...]

    def repeatable(self) -> Milestone:
        """Without seconds and without what was paid: what equal builds have in common."""
        spent = [replace(item, alone=replace(item.alone, seconds=None), paid=None) for item in self.spent]
        return Milestone(self.stage, tuple(spent))


def milestones(context: StageContext, steps: Sequence[int]) -> list[Milestone]:
    """The spending of a method's checkpoints, in order.

    Args:
        context: Of the method; its store holds the ledger.
        steps: Steps of `reinforce` after which a checkpoint was kept.

    Raises:
        InputError: a stage has no entries in this store, so its spending is unknown.
    """
    done = [entry for entry in _entries(context, "grid") if entry.context.split == "train"]
    found: list[Milestone] = []
    for phase in card(context.method).phases:
        entries = _entries(context, phase)
        if phase == "reinforce":
            found += [
                Milestone(f"{phase}_{step}", _sum([*done, *filter(_before(step), entries)])) for step in sorted(steps)
            ]
        done = [*done, *entries]
        if phase in TRAINING:
            found.append(Milestone(phase, _sum(done)))
    return found


def read_bill(path: Path, paid: Path) -> list[Milestone]:
    """A bill as a build left it.

    Args:
        path: The repeatable part.
        paid: The whole, which differs between equal builds and is therefore no dependency of anyone; where it is
            absent, what was paid is unknown.

    Raises:
        InputError: a file is broken, or the first one is missing.
    """
    known = {
        (item.stage, spend.account, spend.role, spend.trained): spend.paid
        for item in (_read(paid) if paid.is_file() else [])
        for spend in item.spent
    }
    return [
        Milestone(
            item.stage,
            tuple(
                replace(spend, paid=known.get((item.stage, spend.account, spend.role, spend.trained)))
                for spend in item.spent
            ),
        )
        for item in _read(path)
    ]


def _read(path: Path) -> list[Milestone]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return [Milestone(row["stage"], tuple(map(Spend.from_row, row["spent"]))) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"cannot read what an earlier stage wrote ({error})", where=str(path), fix="run `dvc repro compare`"
        ) from error


def _entries(context: StageContext, stage: str) -> list[Entry]:
    """Entries of a stage's present run; of its latest one when DVC left the stage alone under other settings."""
    method = "" if stage == "grid" else context.method
    present = StageContext(stage, method, params=context.params, root=context.root).run
    ledger = Ledger(context.store, run=present)
    run = ledger.latest(present) or ledger.latest(present.rpartition("/")[0] + "/")
    if not run and stage == "teach" and _teacher_tried_nothing(context):
        return []
    if not run:
        raise InputError(
            f"the ledger has no entry of stage {stage}, so what it cost is unknown",
            where=str(context.root / ".cache" / "store.sqlite"),
            fix=f"run `dvc repro -f {stage}{'@' + method if method else ''}` with this store",
        )
    return list(Ledger(context.store, run=run).entries())


def _teacher_tried_nothing(context: StageContext) -> bool:
    """Whether the teacher took the grid's executions alone, as where no variation of a configuration is known."""
    log, grid = context.root / "data/teach" / context.method / "log.json", context.root / "data/grid/executions.jsonl"
    if not log.is_file() or not grid.is_file():
        return False
    written = json.loads(log.read_text(encoding="utf-8"))
    families = written["by_family"]
    rows = [row for row in read_rows(grid) if row["split"] == "train"]
    taught = [row for row in rows if not families or row["family"] in families]
    return bool(written["counts"].get("executed", 0) == len(taught))


def _before(step: int) -> Callable[[Entry], bool]:
    """Whether an entry is of the choice of questions, or of a step before this one."""

    def is_before(entry: Entry) -> bool:
        match = _STEP.match(entry.context.scope)
        return match is None or int(match[1]) < step

    return is_before


def _sum(entries: Iterable[Entry]) -> tuple[Spend, ...]:
    lines = [
        Line(e.context.account, e.context.role, e.context.method, e.context.phase, e.paid, e.alone, 1, 0, 0)
        for e in entries
    ]
    return spends(lines, lambda line: line.account == "train" and line.phase.endswith(_UPDATE))
