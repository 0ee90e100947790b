"""Stage `teach`: try systems on training questions and keep the valid, honest, correct ones as teacher rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from luthier.context import StageContext
from luthier.errors import InputError
from luthier.execution import Execution
from luthier.executors.execute import Job, forecast_executions
from luthier.files import read_rows_as, write_json, write_rows
from luthier.harnesses.pool.variations import one_edit_variations
from luthier.methods import mas_architect
from luthier.methods.mas_architect import Candidate
from luthier.question import Question, read_questions
from luthier.target import Failure
from luthier.task import Published
from stages.entry import Options, run_stage
from stages.grid import configurations
from stages.places import GRID, QUESTIONS
from stages.places import TEACH as OUT


def work(context: StageContext, options: Options) -> None:
    """Write data/teach/<method>/rows.jsonl and log.json."""
    settings = context.params.method(context.method).teach
    questions = read_questions(QUESTIONS / "train.jsonl")[: context.params.profile.grid.train]
    taught = _taught(context, questions)
    meter = context.meter("target", "data", split="train")
    if settings.server is None:
        pool = [item.harness for item in configurations(context) if item.harness is not None]
        variations = one_edit_variations(pool)
        unsolved = _unsolved(context, taught)
        pairs = mas_architect.vary(unsolved, variations, settings.variations, context.params.ask.seed)
        jobs = [Job(graph, question, context.params.ask.seed) for question, graph in pairs]
        source = "variation"
        print(
            f"teach: {len(taught)} questions; {len(unsolved)} of them no configuration solved,"
            f" for them {len(jobs)} tries of {len(variations)} variations"
        )
    else:
        jobs, source = _ask_server(context, taught, options.dry_run), "server"
    if options.dry_run:
        print(forecast_executions(jobs, meter, context.limits).render())
        return
    executions = context.execute(jobs, meter, "teach")
    candidates = list(_from_grid(context, taught))
    candidates += [Candidate(j.question, j.harness, source, e) for j, e in zip(jobs, executions, strict=True)]
    candidates += _confirmed(context, candidates)
    rows, log = mas_architect.filter_candidates(
        candidates, context.task.score, context.limits, settings.rows_per_question, settings.min_share
    )
    print(f"teach: {log.counts}, acceptance {log.acceptance:.1%}")
    write_json(OUT / context.method / "log.json", asdict(log))
    if not rows:
        raise InputError(
            f"no teacher row: {_why(log.counts)}",
            where=str(OUT / context.method / "log.json"),
            fix="raise grid.train, teach.variations or teach.samples in the profile, or give a stronger target",
        )
    write_rows(OUT / context.method / "rows.jsonl", [asdict(row) for row in rows])


def _why(counts: Mapping[str, int]) -> str:
    """What became of the candidates, the most frequent first."""
    totals = ("executed", "questions_taught", "rows")
    steps = sorted(((count, step) for step, count in counts.items() if count and step not in totals), reverse=True)
    became = ", ".join(f"{count} {step}" for count, step in steps)
    return f"of {counts['executed']} candidates {became}" if became else "there was no candidate"


def _taught(context: StageContext, questions: list[Question]) -> list[Question]:
    """Those of the families that the profile names; all, where it names families of another task alone."""
    families = context.params.method(context.method).teach.families
    taught = [question for question in questions if not families or question.family in families]
    if not taught and isinstance(context.task, Published):
        print(
            f"teach: task {context.task.name} has none of the families in teach.families, so the teacher sees all of it"
        )
        return questions
    return taught


def _confirmed(context: StageContext, candidates: list[Candidate]) -> list[Candidate]:
    """The second round: promising systems on the questions of their family that they did not meet."""
    tries = mas_architect.confirm(candidates, context.params.method(context.method).teach.confirm)
    jobs = [Job(harness, question, context.params.ask.seed) for question, harness, _ in tries]
    meter = context.meter("target", "data", split="train", scope="confirm")
    executions = context.execute(jobs, meter, "teach, second round")
    return [
        Candidate(question, harness, source, execution)
        for (question, harness, source), execution in zip(tries, executions, strict=True)
    ]


def _unsolved(context: StageContext, taught: list[Question]) -> list[Question]:
    """The questions that no configuration of the grid answered right: only they need something new (ours)."""
    solved = {c.question.id for c in _from_grid(context, taught) if c.execution.score == 1.0}
    return [question for question in taught if question.id not in solved]


def _from_grid(context: StageContext, taught: list[Question]) -> Iterable[Candidate]:
    """The grid's rows on the taught questions, with the configurations' graphs."""
    by_id = {question.id: question for question in taught}
    pool = {item.name: item.harness for item in configurations(context)}
    for split, name, execution in read_rows_as(GRID / "executions.jsonl", _grid_row):
        question = by_id.get(execution.question)
        if split == "train" and question is not None and (harness := pool[name]) is not None:
            yield Candidate(question, harness, f"pool:{name}", execution)


def _grid_row(row: dict[str, Any]) -> tuple[str, str, Execution]:
    """Split, configuration and execution."""
    fields = {key: value for key, value in row.items() if key not in ("configuration", "split", "family")}
    return row["split"], row["configuration"], Execution.from_row(fields)


def _ask_server(context: StageContext, taught: list[Question], dry_run: bool) -> list[Job]:
    """Have the large model of `teach.server` write graphs; its failures are retried by the next run."""
    settings = context.params.method(context.method).teach
    assert settings.server is not None
    meter = context.meter("teacher", "data", split="train", target=context.open(settings.server))
    max_tokens = 512
    asked = [(question, sample) for question in taught for sample in range(settings.samples)]
    requests = [
        mas_architect.server_request(question.text, max_tokens=max_tokens, seed=context.params.ask.seed + sample)
        for question, sample in asked
    ]
    print(f"teach: {len(requests)} graphs asked of {settings.server.model}")
    if dry_run:
        print(meter.forecast(requests).render())
        return []
    jobs = []
    for (question, _), answer in zip(asked, meter.complete(requests), strict=True):
        if isinstance(answer, Failure):
            raise answer.error
        harness = mas_architect.as_harness(mas_architect.clean_server_reply(answer.text))
        jobs.append(Job(harness, question, context.params.ask.seed))
    return jobs


if __name__ == "__main__":
    raise SystemExit(run_stage("teach", work, per_method=True))
