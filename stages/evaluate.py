"""Stage `evaluate`: score every checkpoint of a method beside the honest baselines, on the test questions.

Contenders: the target alone, the best single configuration (chosen on validation by the grid), a random valid
graph, lookups over teacher rows and grid (memory without training), the generator after each phase, and the oracle over
the pool (an upper bound, labelled so). Test questions pay from their own account. Checkpoints are also scored on
validation, for promotion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from luthier.context import CACHE, StageContext, spec_of
from luthier.errors import InputError
from luthier.evaluation.evaluate import (
    Result,
    RunJobs,
    compositions,
    difference,
    evaluate,
    grid_jobs,
    novel,
    oracle_scores,
    parsed,
    scores_of,
    standing,
)
from luthier.evaluation.lookups import Lookup, LookupGenerator, best_setting, nearest_rows, routers, tried_questions
from luthier.evaluation.spending import milestones
from luthier.evaluation.statistics import mean_interval
from luthier.execution import Execution
from luthier.executors.execute import Job, forecast_executions, require_results
from luthier.files import read_rows_as, write_json, write_rows
from luthier.generator import ConstantGenerator, Generator, HarnessRequest, RandomGenerator
from luthier.harnesses.pool.configurations import Configuration
from luthier.harnesses.pool.random_graph import random_graph
from luthier.ledger.budget import Forecast
from luthier.ledger.ledger import Account
from luthier.method import TRAINING, Trains
from luthier.methods import card, generator_of, having, settings_of
from luthier.question import Question, read_questions
from luthier.reading import read_object, shaped
from luthier.settings.training import ReinforceParams
from luthier.target import Target, Usage
from luthier.targets.support.checkpoints import open_checkpoint
from luthier.teaching.rows import TeacherRow
from luthier.training.forecast import Outlook, count_tokens
from luthier.training.policy_gradient import KEPT
from luthier.training.record import base_folder
from stages.entry import Options, run_stage
from stages.grid import configurations
from stages.places import EVALUATE as OUT
from stages.places import GRID, MODELS, QUESTIONS, TEACH
from stages.questions import read_held_out

SPENDING = Path("reports/spending")
"""What each checkpoint cost uncached, without seconds: equal for equal builds, so that others may depend on it."""
PAID = Path("reports/paid")
"""The same with seconds and what was really paid, which differ between equal builds: for people to read."""
ALONE = "direct"


def work(context: StageContext, options: Options) -> None:
    """Write data/evaluate/<method>/{executions.jsonl, held_out.jsonl, scores.json} and the method's bill."""
    test = read_questions(QUESTIONS / "test.jsonl")
    validation = read_questions(QUESTIONS / "validation.jsonl")
    pool = configurations(context)
    print(f"evaluate: {len(test)} test questions x ({len(pool)} configurations, random graph, sft, reinforce)")
    if options.dry_run:
        print(forecast(context, test, validation, pool).render())
        return
    context.check_prices("target", "generator")
    best = _best_fixed([item.name for item in pool])
    run = test_runner(context)
    fixed = {item.name: score_all(_constant(item), test, run, context.params.ask.seed) for item in pool}
    results = {
        "target_alone": _renamed("target_alone", fixed[ALONE]),
        "best_fixed": _renamed("best_fixed", fixed[best]),
        "random_graph": score_all(_random(context), test, run, context.params.ask.seed),
    }
    held_out = read_held_out(context)
    lookups, chosen_lookups = choose_lookups(context, validation, pool)
    results |= {item.name: score_all(item, test, run, context.params.ask.seed) for item in lookups}
    constants = {"target_alone": ALONE, "best_fixed": best}
    unseen = {
        name: _renamed(name, score_all(_constant(item), held_out, run, context.params.ask.seed))
        for name, chosen in constants.items()
        for item in pool
        if item.name == chosen
    }
    unseen |= {item.name: score_all(item, held_out, run, context.params.ask.seed) for item in lookups}
    scores: dict[str, Any] = {
        "method": context.method,
        "seed": context.params.ask.seed,
        "target": context.target.fingerprint,
        "best_fixed_configuration": best,
        "lookups": chosen_lookups,
        "validation": {},
    }
    for phase, folder in checkpoints(context).items():
        target = context.adopt(open_checkpoint(folder, spec_of(context.params.profile.target), CACHE))
        generator = _checkpoint(context, phase, target, "test", "test")
        results[phase] = score_all(generator, test, run, context.params.ask.seed)
        unseen[phase] = score_all(generator, held_out, run, context.params.ask.seed)
        chooser = _checkpoint(context, phase, target, "train", "validation")
        chosen = score_all(chooser, validation, _runner(context, "train", "validation"), context.params.ask.seed)
        scores["validation"][phase] = asdict(standing(phase, chosen, context.params.profile.evaluate.resamples))
    _summarise(context, scores, results, [row for rows in fixed.values() for row in rows], fixed)
    if held_out:
        resamples = context.params.profile.evaluate.resamples
        scores["held_out"] = {name: asdict(standing(name, rows, resamples)) for name, rows in unseen.items()}
    for name, groups in (("executions", results), ("held_out", unseen)):
        rows = [row.to_row() for group in groups.values() for row in group]
        write_rows(OUT / context.method / f"{name}.jsonl", rows)
    write_json(OUT / context.method / "scores.json", scores)
    bill = milestones(context, steps_kept(context))
    write_json(SPENDING / f"{context.method}.json", [asdict(item.repeatable()) for item in bill])
    write_json(PAID / f"{context.method}.json", [asdict(item) for item in bill])
    for name, table in scores["test"].items():
        pooled = table["pooled"]
        print(
            f"evaluate: {name:13} {pooled['mean']:6.1%} [{pooled['low']:.1%}, {pooled['high']:.1%}] {table['outcomes']}"
        )


def choose_lookups(
    context: StageContext, validation: Sequence[Question], pool: Sequence[Configuration]
) -> tuple[list[LookupGenerator], dict[str, dict[str, Any]]]:
    """The lookups with the setting that is best on validation, and how each setting did there.

    Of equally good settings the first one is taken. Validation questions are paid as those of a search are.
    """
    run = _runner(context, "train", "validation")

    def score(generator: Generator) -> float:
        rows = score_all(generator, validation, run, context.params.ask.seed)
        return sum(row.execution.score or 0.0 for row in rows) / len(rows)

    found = {name: best_setting(name, settings, score) for name, settings in _lookups(context, pool).items()}
    return [generator for generator, _ in found.values()], {name: told for name, (_, told) in found.items()}


def _lookup_jobs(
    context: StageContext, tested: Sequence[Question], validation: Sequence[Question], pool: Sequence[Configuration]
) -> list[Job]:
    """What the lookups execute: each setting on validation, one of them on test; the first one stands for it here."""
    jobs: list[Job] = []
    for name, settings in _lookups(context, pool).items():
        tries = [(lookup, validation) for lookup in settings.values()]
        tries.append((next(iter(settings.values())), tested))
        for lookup, questions in tries:
            generator = LookupGenerator(name, lookup)
            asked = [HarnessRequest.of(question) for question in questions]
            written = zip(questions, generator.propose(asked), strict=True)
            jobs += [
                Job(parsed(generator.kind, proposal.text), question, context.params.ask.seed)
                for question, proposal in written
            ]
    return jobs


def _lookups(context: StageContext, pool: Sequence[Configuration]) -> dict[str, dict[str, Lookup]]:
    """Every lookup with every setting; the nearest row only where there is a teacher."""
    train = {question.id: question for question in read_questions(QUESTIONS / "train.jsonl")}
    harnesses = {item.name: item.harness.text for item in pool if item.harness is not None}
    grid = list(read_rows_as(GRID / "executions.jsonl", dict))
    found: dict[str, dict[str, Lookup]] = {}
    if "teach" in card(context.method).phases:
        rows = list(read_rows_as(TEACH / context.method / "rows.jsonl", lambda row: TeacherRow(**row)))
        found["nearest_row"] = nearest_rows(train, rows)
    return found | {"router": routers(tried_questions(train, grid), harnesses)}


def score_all(generator: Generator, questions: Sequence[Question], run: RunJobs, seed: int) -> list[Result]:
    """`evaluate`, in which the machine may have failed neither an execution nor a proposal."""
    results = evaluate(generator, questions, run, seed)
    require_results([result.execution for result in results], f"evaluate, {generator.name}")
    return results


def forecast(
    context: StageContext, test: Sequence[Question], validation: Sequence[Question], pool: Sequence[Configuration]
) -> Forecast:
    """What scoring costs: the pool and random graphs as `grid` forecasts them, the checkpoints as they may write."""
    seed, held_out = context.params.ask.seed, read_held_out(context)
    best = _best_fixed([item.name for item in pool])
    random = _random(context)
    written = zip(test, random.propose([HarnessRequest.of(question) for question in test]), strict=True)
    jobs = [
        *grid_jobs(test, pool, seed),
        *grid_jobs(held_out, [item for name in (ALONE, best) for item in pool if item.name == name], seed),
        *(Job(parsed(random.kind, proposal.text), question, seed) for question, proposal in written),
        *_lookup_jobs(context, [*test, *held_out], validation, pool),
    ]
    settings, method = (
        generator_of(context),
        having(context.method, Trains),
    )
    base = base_folder(settings.model, CACHE)
    asked = [method.prompt(question.text) for question in (*test, *held_out, *validation)]
    count = len(checkpoints(context)) * len(asked)
    read = len(checkpoints(context)) * sum(count_tokens(base, asked))
    outlook = Outlook(context.ledger, "evaluate")
    return (
        forecast_executions(jobs, context.meter("target", "test", split="test"), context.limits)
        + outlook.writing(Usage(count, read, count * settings.max_tokens))
        + outlook.executions(count, context.limits)
    )


def checkpoints(context: StageContext) -> dict[str, Path]:
    """The folders of a method's checkpoints by contender name, in the order of their training."""
    found: dict[str, Path] = {}
    for phase in card(context.method).checkpoints:
        folder = MODELS / phase / context.method
        found |= {f"{phase}_{step}": folder / KEPT / str(step) for step in steps_kept(context) if phase == "reinforce"}
        found[phase] = folder
    return found


def steps_kept(context: StageContext) -> list[int]:
    """Steps of `reinforce` whose checkpoints are compared, too."""
    if "reinforce" not in card(context.method).phases:
        return []
    return settings_of(context.params, context.method, "reinforce", ReinforceParams).milestones


def _summarise(
    context: StageContext,
    scores: dict[str, Any],
    results: dict[str, list[Result]],
    pooled: Sequence[Result],
    fixed: dict[str, list[Result]],
) -> None:
    resamples = context.params.profile.evaluate.resamples
    phases = [phase for phase in TRAINING if phase in results]
    scores["test"] = {name: asdict(standing(name, rows, resamples)) for name, rows in results.items()}
    oracle = oracle_scores(pooled)
    scores["oracle_over_pool"] = {
        "upper_bound": True,
        "configurations": len(fixed),
        "pooled": asdict(mean_interval([oracle[question] for question in sorted(oracle)], resamples=resamples)),
    }
    scores["pool"] = {name: standing(name, rows, resamples).pooled["mean"] for name, rows in sorted(fixed.items())}
    lookups = scores["lookups"]
    best = max(lookups, key=lambda name: (lookups[name]["validation"], name))
    scores["differences"] = {
        f"{one}_minus_{other}": asdict(difference(results[one], results[other], resamples))
        for one, other in [*pairs(phases), *((phase, best) for phase in phases)]
    }
    taught = _taught(context)
    for phase in phases:
        found = compositions(results[phase], taught)
        scores.setdefault("compositions", {})[phase] = [asdict(item) for item in found]
        scores.setdefault("novel_compositions", {})[phase] = [asdict(item) for item in novel(found)]
    scores["per_question"] = {name: scores_of(rows) for name, rows in results.items()}


def pairs(phases: Sequence[str]) -> list[tuple[str, str]]:
    """Which differences are reported: each phase against the phase before it and against the baselines."""
    first = [(phase, other) for phase in phases[:1] for other in ("target_alone", "best_fixed")]
    later = pairwise(phases)
    return first + [(phase, other) for before, phase in later for other in (before, "best_fixed", "target_alone")]


def _taught(context: StageContext) -> set[str]:
    """Digests of the harnesses in the teacher's rows; none for a method without a teacher."""
    if "teach" not in card(context.method).phases:
        return set()
    return set(read_rows_as(TEACH / context.method / "rows.jsonl", lambda row: str(row["harness"])))


def _best_fixed(names: Sequence[str]) -> str:
    """The grid's choice; checked, with the target alone, before anything is spent."""
    path = GRID / "summary.json"
    if ALONE not in names:
        problem = f"field grid.configurations: {ALONE!r} is missing, so the target alone cannot be scored"
        raise InputError(problem, where="profile", fix=f"add {ALONE}")
    table = read_object(path, fix="run stage grid")
    with shaped("no choice of the grid", where=str(path), fix="run stage grid"):
        best = str(table["best_on_validation"])
    if best not in names:
        problem = f"field best_on_validation: {best!r} is none of the profile's configurations"
        raise InputError(problem, where=str(path), fix="run stage grid again")
    return best


def test_runner(context: StageContext) -> RunJobs:
    """Executes on the frozen target; account test pays."""
    return _runner(context, "test", "test")


def _runner(context: StageContext, account: Account, split: str) -> RunJobs:
    meter = context.meter("target", account, split=split)

    def run(jobs: Sequence[Job]) -> list[Execution]:
        return context.execute(jobs, meter, f"evaluate {split}", quiet=True)

    return run


def _constant(item: Configuration) -> Generator:
    assert item.harness is not None, f"{item.name} cannot be run as a graph"
    return ConstantGenerator(item.name, item.harness)


def _random(context: StageContext) -> Generator:
    return RandomGenerator("random_graph", "graph", random_graph, context.params.ask.seed)


def _checkpoint(context: StageContext, phase: str, target: Target, account: Account, split: str) -> Generator:
    meter = context.meter("generator", account, split=split, target=target)
    return having(context.method, Trains).generator(phase, meter, context)


def _renamed(name: str, results: Sequence[Result]) -> list[Result]:
    return [replace(result, contender=name) for result in results]


if __name__ == "__main__":
    raise SystemExit(run_stage("evaluate", work, per_method=True))
