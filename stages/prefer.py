"""Stage `prefer`: let a method gather pairs of a better and a worse text from training questions."""

from __future__ import annotations

from luthier.context import StageContext
from luthier.errors import InputError
from luthier.files import write_json, write_rows
from luthier.method import Prefers
from luthier.methods import having
from luthier.question import read_questions
from stages.entry import Options, run_stage
from stages.places import PREFER as OUT
from stages.places import QUESTIONS


def work(context: StageContext, options: Options) -> None:
    """Write data/preferences/<method>/rows.jsonl and log.json."""
    method = having(context.method, Prefers)
    questions = read_questions(QUESTIONS / "train.jsonl")
    print(f"prefer: {len(questions)} questions")
    if options.dry_run:
        print(method.forecast_prefer(context, questions).render())
        return
    found = method.prefer(context, questions)
    counts = {**found.counts, "rows": len(found.rows)}
    print(f"prefer: {counts}")
    log = OUT / context.method / "log.json"
    write_json(log, counts)
    if not found.rows:
        raise InputError("no preference row", where=str(log), fix="ask more questions, or see which filter took them")
    write_rows(OUT / context.method / "rows.jsonl", [dict(row) for row in found.rows])


if __name__ == "__main__":
    raise SystemExit(run_stage("prefer", work, per_method=True))
