"""Stage `questions`: draw the train, validation and test questions of the task, prove their references, write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from luthier.context import StageContext
from luthier.errors import InputError
from luthier.question import SPLITS, Question, read_questions, write_questions
from luthier.task import HoldsOut, Published, validate
from stages.entry import Options, run_stage
from stages.places import QUESTIONS as OUT


def work(context: StageContext, options: Options) -> None:
    """Write data/questions/{train,validation,test,held_out}.jsonl; the last one may be empty."""
    task, seed = context.task, context.params.ask.task.seed
    counts = context.params.profile.questions.model_dump()
    print(
        f"questions: task {context.params.ask.task.name}, " + ", ".join(f"{n} {split}" for split, n in counts.items())
    )
    if options.dry_run:
        return
    drawn = {str(split): task.questions(split, counts[split], seed) for split in SPLITS}
    for note in task.notes() if isinstance(task, Published) else ():
        print(f"questions: {note}")
    drawn["held_out"] = _held_out(context, counts["held_out"], seed)
    _refuse_leaks(drawn)
    for name, questions in drawn.items():
        problems = validate(task, questions)
        if problems:
            first = problems[0]
            raise InputError(
                f"{len(problems)} questions fail their own check; {first.question.id}: {first.problem}",
                where=f"task {context.params.ask.task.name}",
                fix="repair the source or the scorer: `luthier tasks validate` lists them all",
            )
        write_questions(OUT / f"{name}.jsonl", questions)


def read_held_out(context: StageContext) -> list[Question]:
    """The questions of families that stand in no split; none where the profile wants none or the task has none."""
    path = OUT / "held_out.jsonl"
    if not context.params.profile.questions.held_out or (path.exists() and not path.stat().st_size):
        return []
    return read_questions(path)


def _held_out(context: StageContext, count: int, seed: int) -> list[Question]:
    if not count:
        return []
    if not isinstance(context.task, HoldsOut):
        print(
            f"questions: task {context.params.ask.task.name} has no families beyond its splits, so nothing is held out"
            " and the axis of unseen families is left out of all results"
        )
        return []
    return context.task.held_out(count, seed)


def _refuse_leaks(drawn: Mapping[str, Sequence[Question]]) -> None:
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
