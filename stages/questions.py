"""Stage `questions`: draw the train, validation and test questions of the task, prove their references, write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from luthier.errors import InputError
from luthier.question import SPLITS, Question, Split, write_questions
from luthier.task import validate
from luthier.workbench import Workbench
from stages.entry import Options, run_stage

OUT = Path("data/questions")


def work(bench: Workbench, options: Options) -> None:
    """Write data/questions/{train,validation,test}.jsonl."""
    task, seed = bench.task, bench.params.ask.task.seed
    counts = bench.params.profile.questions.model_dump()
    print(f"questions: task {bench.params.ask.task.name}, " + ", ".join(f"{n} {split}" for split, n in counts.items()))
    if options.dry_run:
        return
    drawn = {split: task.questions(split, counts[split], seed) for split in SPLITS}
    _refuse_leaks(drawn)
    for split, questions in drawn.items():
        problems = validate(task, questions)
        if problems:
            first = problems[0]
            raise InputError(
                f"{len(problems)} questions fail their own check; {first.question.id}: {first.problem}",
                where=f"task {bench.params.ask.task.name}",
                fix="repair the source or the scorer: `luthier tasks validate` lists them all",
            )
        write_questions(OUT / f"{split}.jsonl", questions)


def _refuse_leaks(drawn: Mapping[Split, Sequence[Question]]) -> None:
    """A question may stand in one split only."""
    seen: dict[str, str] = {}
    for split, questions in drawn.items():
        for question in questions:
            other = seen.setdefault(question.id, split)
            if other != split:
                raise InputError(
                    f"question {question.id} stands in {other} and in {split}",
                    where="questions",
                    fix="repair the source",
                )


if __name__ == "__main__":
    raise SystemExit(run_stage("questions", work))
