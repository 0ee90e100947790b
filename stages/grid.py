"""Stage `grid`: run the hand-written configurations on training and validation questions, once, resumably.

Every method that learns from executed configurations reads these rows; the best fixed configuration is chosen
on the validation rows alone.
"""

from __future__ import annotations

from luthier.context import StageContext
from luthier.evaluation.evaluate import grid_jobs, grid_summary
from luthier.executors.execute import forecast_executions
from luthier.files import write_json, write_rows
from luthier.harnesses.pool.configurations import Configuration, cheapest_general, select
from luthier.question import read_questions
from luthier.task import Published
from stages.entry import Options, run_stage
from stages.places import GRID as OUT
from stages.places import QUESTIONS


def work(context: StageContext, options: Options) -> None:
    """Write data/grid/executions.jsonl and summary.json."""
    settings = context.params.profile.grid
    pool = configurations(context)
    if [item.name for item in pool] != settings.configurations:
        print(
            f"grid: the profile's configurations use tools of the mixed suite; for task {context.task.name} these"
            f" general ones of the pool run instead: {', '.join(item.name for item in pool)}"
        )
    rows = []
    for split, count in (("train", settings.train), ("validation", settings.validation)):
        questions = read_questions(QUESTIONS / f"{split}.jsonl")[:count]
        jobs = grid_jobs(questions, pool, context.params.ask.seed)
        meter = context.meter("target", "data", split=split)
        print(f"grid: {split}, {len(questions)} questions x {len(pool)} configurations = {len(jobs)} executions")
        if options.dry_run:
            print(forecast_executions(jobs, meter, context.limits).render())
            continue
        executions = context.execute(jobs, meter, f"grid {split}")
        for index, execution in enumerate(executions):
            question, configuration = questions[index // len(pool)], pool[index % len(pool)]
            head = {"configuration": configuration.name, "split": split, "family": question.family}
            rows.append({**head, **execution.to_row()})
    if not options.dry_run:
        write_json(OUT / "summary.json", grid_summary(rows))
        write_rows(OUT / "executions.jsonl", rows)


def configurations(context: StageContext) -> tuple[Configuration, ...]:
    """Those of the profile; for a task of published rows as many general ones, where the profile's need suite tools."""
    named = select(context.params.profile.grid.configurations)
    if not isinstance(context.task, Published) or all(item.general for item in named):
        return named
    return cheapest_general(len(named), context.limits.calls)


if __name__ == "__main__":
    raise SystemExit(run_stage("grid", work))
