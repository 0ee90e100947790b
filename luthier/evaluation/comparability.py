"""`require_fair`: what must be equal or known before contenders may be compared.

Equal for all: questions and their families, the target they were made for. Equal for all that learn or search, too:
the editable scope, the limit behind a budget's name, and the methods and seeds under each budget. Known: every score,
every spend in the unit of the comparison, and that no limit was passed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations

from luthier.errors import InputError
from luthier.evaluation.method_run import MethodRun, Unit, measure
from luthier.evaluation.statistics import require_same_questions


def require_fair(contenders: Sequence[MethodRun], unit: Unit) -> None:
    """Refuse a comparison in which something is unequal or unknown.

    Raises:
        InputError: it is; the run, the field and the fix are named.
    """
    if not contenders:
        raise InputError("no contenders", where="comparison", fix="build at least two")
    _refuse_twins(contenders)
    for contender in contenders:
        _check_known(contender, unit)
    for task in sorted({item.task for item in contenders}):
        _check_task(task, [item for item in contenders if item.task == task])


def family_of(contender: MethodRun) -> dict[str, str]:
    """Question id -> family, sorted."""
    return {trial.question: trial.family for trial in sorted(contender.trials, key=lambda trial: trial.question)}


def _refuse_twins(contenders: Sequence[MethodRun]) -> None:
    times = Counter(item.name for item in contenders)
    twins = sorted(name for name, count in times.items() if count > 1)
    if twins:
        raise InputError("the same run stands there twice", where=twins[0], fix="keep one of them")


def _check_known(contender: MethodRun, unit: Unit) -> None:
    """Every number that is divided by, or compared with, must be known."""
    lost = [trial.question for trial in contender.trials if trial.execution.score is None]
    if lost:
        raise InputError(
            f"the machine failed on {len(lost)} questions (first: {min(lost)}), so they have no score",
            where=contender.name,
            fix="run its evaluation again; infra_error is retried",
        )
    known = {"spent": contender.spent_before_use(unit)}
    known["curve"] = (
        None if any(measure(point.spent, unit, point.trained) is None for point in contender.curve) else 0.0
    )
    known["trials"] = None if any(contender.use_cost(trial, unit) is None for trial in contender.trials) else 0.0
    for name, value in known.items():
        if value is None:
            fix = "state the price in the profile (field target)" if unit == "price" else "compare in tokens"
            raise InputError(f"field {name}: unknown in {unit}", where=contender.name, fix=fix)
    if contender.kind == "fixed":
        return
    if not known["spent"]:
        raise InputError("field spent: nothing before use", where=contender.name, fix="enter data, train and search")
    allowed = contender.budget
    if allowed is None or allowed.limit is None:
        raise InputError("field budget: no limit", where=contender.name, fix="run it again under the common budget")
    if not allowed.allows(contender.before_use, contender.trained_before_use):
        used = allowed.used(contender.before_use, contender.trained_before_use)
        said = "an unknown amount" if used is None else f"{used:,g}"
        raise InputError(
            f"field budget: spent {said} of {allowed.limit:,g} {allowed.unit}",
            where=contender.name,
            fix=f"run it again within budget {allowed.name!r}, or raise that budget for all",
        )


def _check_task(task: str, runs: Sequence[MethodRun]) -> None:
    """Questions, families and homes are one for all; scope and methods for all that learn or search."""
    for run in runs[1:]:
        try:
            require_same_questions(family_of(runs[0]), family_of(run))
        except InputError as error:
            raise InputError(f"{error.problem}: {runs[0].name}", where=run.name, fix=error.fix) from error
    _one("family of each question", task, runs, lambda run: tuple(sorted(family_of(run).items())))
    _one("home", task, runs, lambda run: run.home)
    moving = [run for run in runs if run.kind != "fixed"]
    _one("scope", task, moving, lambda run: run.scope)
    for name in sorted({run.budget.name for run in moving if run.budget}):
        _one("budget", task, [r for r in moving if r.budget and r.budget.name == name], lambda run: run.budget)
    present = defaultdict(set)
    for run in moving:
        if run.budget and run.target == run.home:
            present[run.method].add((run.budget.name, run.seed))
    for (first, cells), (second, others) in combinations(sorted(present.items()), 2):
        if cells != others:
            budget, seed = min(cells ^ others)
            missing = second if (budget, seed) in cells else first
            raise InputError(
                f"method {missing} has no run with budget {budget!r} and seed {seed}, others have",
                where=f"comparison on {task}",
                fix="run every method with every seed under every budget, or leave that budget or seed out for all",
            )


def _one(field: str, task: str, runs: Sequence[MethodRun], value: Callable[[MethodRun], object]) -> None:
    for run in runs[1:]:
        if value(run) != value(runs[0]):
            raise InputError(
                f"field {field}: {_cut(value(run))} differs from {_cut(value(runs[0]))} of {runs[0].name}",
                where=run.name,
                fix=f"compare on {task} only what is equal in it",
            )


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:119] + "…"
