"""Stage `teach`: let a method choose teacher rows from the grid's executions and its own tries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from luthier.context import StageContext
from luthier.errors import InputError
from luthier.execution import Execution
from luthier.files import read_rows_as, write_json, write_rows
from luthier.method import GridRow, Lessons, Teaches
from luthier.methods import having
from luthier.question import read_questions
from stages.entry import Options, run_stage
from stages.grid import configurations
from stages.places import GRID, QUESTIONS
from stages.places import TEACH as OUT


def work(context: StageContext, options: Options) -> None:
    """Write data/teach/<method>/rows.jsonl and log.json."""
    method = having(context.method, Teaches)
    questions = read_questions(QUESTIONS / "train.jsonl")[: context.params.profile.grid.train]
    lessons = Lessons(questions, configurations(context), list(read_rows_as(GRID / "executions.jsonl", _grid_row)))
    if options.dry_run:
        print(method.forecast_teach(context, lessons).render())
        return
    taught = method.teach(context, lessons)
    log = taught.log
    print(f"teach: {log.counts}, acceptance {log.acceptance:.1%}")
    write_json(OUT / context.method / "log.json", asdict(log))
    if not taught.rows:
        raise InputError(
            f"no teacher row: {_why(log.counts)}",
            where=str(OUT / context.method / "log.json"),
            fix="raise grid.train, teach.variations or teach.samples in the profile, or give a stronger target",
        )
    write_rows(OUT / context.method / "rows.jsonl", [asdict(row) for row in taught.rows])


def _why(counts: Mapping[str, int]) -> str:
    """What became of the candidates, the most frequent first."""
    totals = ("executed", "questions_taught", "rows")
    steps = sorted(((count, step) for step, count in counts.items() if count and step not in totals), reverse=True)
    became = ", ".join(f"{count} {step}" for count, step in steps)
    return f"of {counts['executed']} candidates {became}" if became else "there was no candidate"


def _grid_row(row: dict[str, Any]) -> GridRow:
    fields = {key: value for key, value in row.items() if key not in ("configuration", "split", "family")}
    return GridRow(row["split"], row["configuration"], Execution.from_row(fields))


if __name__ == "__main__":
    raise SystemExit(run_stage("teach", work, per_method=True))
