"""`compare`: methods x tasks x seeds at equal total budget, or a refusal that says what is not equal.

Scores are means over a question's seeds, so that intervals speak of new questions at the seeds measured; the spread
over seeds stands beside them. The two axes of generalisation, families held out of training and second targets,
are kept apart and never merged into one figure (docs/design.md, section 8).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import fmean as mean

from luthier.errors import InputError
from luthier.evaluation.comparability import family_of, require_fair
from luthier.evaluation.method_run import MethodKind, MethodRun, Unit, measure
from luthier.evaluation.results import BreakEvenPair, Comparison, Group, MethodResult, Overall, Pair, Transfer
from luthier.evaluation.statistics import (
    Costs,
    break_even,
    group_means,
    mean_curve,
    mean_interval,
    paired_difference,
    pareto_front,
    question_means,
    seeded_difference,
    spread,
)

HEADLINE_SEEDS = 3
"""Figures with fewer seeds are not headlines (docs/design.md, section 10)."""
_ORDER: tuple[MethodKind, ...] = ("learned", "searched", "fixed")


def compare(
    contenders: Sequence[MethodRun], baseline: str, *, unit: Unit = "tokens", resamples: int = 2000
) -> Comparison:
    """Compare runs, grouped by task and budget; fixed contenders stand in every budget of their task.

    Args:
        contenders: Runs of any methods, tasks, budgets and seeds, on their own and on second targets.
        baseline: Method that must be in every group.
        unit: That spend is counted in.
        resamples: Of each bootstrap.

    Raises:
        InputError: something is not equal (questions, scope, target, budget, seeds, methods), a limit was passed,
            or a denominator is unknown (a failed machine, an unknown spend or price, a missing baseline).
    """
    require_fair(contenders, unit)
    groups = []
    for task in sorted({item.task for item in contenders}):
        runs = [item for item in contenders if item.task == task]
        budgets = sorted({item.budget.name for item in runs if item.budget and item.kind != "fixed"}) or [""]
        for budget in budgets:
            members = [r for r in runs if r.kind == "fixed" or (r.budget is not None and r.budget.name == budget)]
            groups.append(_group(task, members, baseline, unit, resamples))
    return Comparison(unit, baseline, tuple(groups), _overall(groups, resamples), tuple(_warnings(groups)))


# --- figures ----------------------------------------------------------------------------------------------------


def _group(task: str, members: Sequence[MethodRun], baseline: str, unit: Unit, resamples: int) -> Group:
    at_home: dict[str, list[MethodRun]] = defaultdict(list)
    away: dict[tuple[str, str], list[MethodRun]] = defaultdict(list)
    for run in sorted(members, key=lambda item: (item.method, item.target, item.seed)):
        if run.target == run.home:
            at_home[run.method].append(run)
        else:
            away[run.method, run.target].append(run)
    if baseline not in at_home:
        raise InputError(
            f"baseline {baseline!r} has no run", where=f"comparison on {task}", fix=f"use one of {', '.join(at_home)}"
        )
    found = [_standing(runs, unit, resamples) for runs in at_home.values()]
    best = max(found, key=lambda item: item.score.mean).method
    fronts = pareto_front([(item.score.mean, item.use_cost) for item in found])
    standings = sorted(
        (
            replace(item, on_front=front, below_best=_pair(item.method, best, at_home, resamples).significantly_worse)
            for item, front in zip(found, fronts, strict=True)
        ),
        key=lambda item: (_ORDER.index(item.kind), item.label, item.method),
    )
    pairs = [_pair(ours, theirs, at_home, resamples) for ours, theirs in _paired(standings, baseline)]
    return Group(
        task,
        next((run.budget for run in members if run.kind != "fixed"), None),
        members[0].home,
        len(members[0].trials),
        tuple(standings),
        tuple(pairs),
        tuple(_crossings(standings, pairs, unit, resamples)),
        tuple(_transfer(runs, at_home, task, resamples) for _, runs in sorted(away.items()) if _shown(runs)),
    )


def _pair(ours: str, theirs: str, at_home: Mapping[str, Sequence[MethodRun]], resamples: int) -> Pair:
    """Paired by question; over seeds, too, where every side that drew something has several."""
    sides = (at_home[ours], at_home[theirs])
    first, second = (_scores(runs) for runs in sides)
    several = all(len(runs) > 1 or runs[0].kind == "fixed" for runs in sides)
    return Pair(
        ours,
        theirs,
        paired_difference(question_means(first), question_means(second), resamples=resamples),
        seeded_difference(first, second, resamples=resamples) if several else None,
    )


def _standing(runs: Sequence[MethodRun], unit: Unit, resamples: int) -> MethodResult:
    by_seed = _scores(runs)
    scores = question_means(by_seed)
    families = family_of(runs[0])
    by_family = group_means(scores, families)
    costs = _costs(runs, unit)
    target = [_known(run.target_cost(trial, unit)) for run in runs for trial in run.trials]
    shown = _shown(runs)
    parts = [[score for q, score in scores.items() if (q in shown) == wanted] for wanted in (True, False)]
    seen, unseen = (mean_interval(part, resamples=resamples) if part else None for part in parts)
    curves = [
        [(_known(measure(p.spent, unit, p.trained)), p.score) for p in run.curve if p.split == "validation"]
        for run in runs
    ]
    return MethodResult(
        runs=tuple(runs),
        score=mean_interval(list(scores.values()), resamples=resamples),
        equal_weight=mean(by_family.values()),
        by_family=by_family,
        spread=spread(by_seed),
        before_use=mean(costs.before),
        use_cost=mean(cost for row in costs.per_use for cost in row),
        target_cost=mean(target),
        outcomes=dict(sorted(Counter(trial.execution.outcome for run in runs for trial in run.trials).items())),
        on_front=False,
        below_best=False,
        curve=mean_curve(curves),
        seen=seen,
        unseen=unseen,
    )


def _paired(standings: Sequence[MethodResult], baseline: str) -> list[tuple[str, str]]:
    """Learned minus everyone after it, and everyone minus the baseline."""
    pairs = [(a.method, b.method) for a, b in combinations(standings, 2) if a.kind == "learned"]
    known = {frozenset(pair) for pair in pairs}
    pairs += [(s.method, baseline) for s in standings if frozenset((s.method, baseline)) not in known]
    return [(ours, theirs) for ours, theirs in pairs if ours != theirs]


def _crossings(
    standings: Sequence[MethodResult], pairs: Sequence[Pair], unit: Unit, resamples: int
) -> list[BreakEvenPair]:
    known = {(pair.ours, pair.theirs): pair for pair in pairs}
    return [
        BreakEvenPair(
            known[ours.method, other.method],
            break_even(_costs(ours.runs, unit), _costs(other.runs, unit), resamples=resamples),
        )
        for ours in standings
        for other in standings
        if ours.kind == "learned" and other.kind != "learned"
    ]


def _transfer(
    runs: Sequence[MethodRun], at_home: Mapping[str, Sequence[MethodRun]], task: str, resamples: int
) -> Transfer:
    first = runs[0]
    seeds = [run.seed for run in runs]
    homes = [run for run in at_home.get(first.method, ()) if run.seed in seeds]
    if [run.seed for run in homes] != seeds:
        raise InputError(
            f"method {first.method} was not scored on its own target with the seeds {seeds}",
            where=f"comparison on {task}",
            fix="evaluate the same runs on both targets",
        )
    shown = _shown(homes)
    there, home = (
        {q: score for q, score in question_means(_scores(some)).items() if q in shown} for some in (runs, homes)
    )
    return Transfer(
        first.method,
        first.label,
        first.kind,
        first.target,
        tuple(seeds),
        mean_interval(list(there.values()), resamples=resamples),
        mean_interval(list(home.values()), resamples=resamples),
        paired_difference(there, home, resamples=resamples),
    )


def _overall(groups: Sequence[Group], resamples: int) -> tuple[Overall, ...]:
    """Methods that were scored on every task, for each budget."""
    tasks = {group.task for group in groups}
    if len(tasks) < 2:
        return ()
    found: dict[tuple[str, str], list[MethodResult]] = defaultdict(list)
    for group in groups:
        for item in group.standings:
            found[group.budget_name, item.method].append(item)
    overall = []
    for (budget, method), standings in found.items():
        if len(standings) < len(tasks):
            continue
        by_task = [question_means(_scores(item.runs)) for item in standings]
        pooled = mean_interval([score for scores in by_task for score in scores.values()], resamples=resamples)
        weight = mean(mean(scores.values()) for scores in by_task)
        first = standings[0]
        overall.append(Overall(method, first.label, first.kind, budget, len(tasks), pooled, weight))
    return tuple(sorted(overall, key=lambda item: (item.budget, _ORDER.index(item.kind), item.label, item.method)))


def _warnings(groups: Sequence[Group]) -> Iterable[str]:
    for group in groups:
        seeds = [item.seeds for item in group.standings if item.kind != "fixed"]
        if seeds and len(seeds[0]) < HEADLINE_SEEDS:
            number = "one seed" if len(seeds[0]) == 1 else f"{len(seeds[0])} seeds"
            place = f"{group.task}, budget {group.budget_name}" if group.budget else group.task
            yield f"{place}: {number}, not a headline; a result to quote needs {HEADLINE_SEEDS}."


def _scores(runs: Sequence[MethodRun]) -> list[dict[str, float]]:
    return [{trial.question: _known(trial.execution.score) for trial in run.trials} for run in runs]


def _shown(runs: Sequence[MethodRun]) -> set[str]:
    """Questions of families that were seen; one is unseen when no seed was trained on it."""
    return {trial.question for run in runs for trial in run.trials if not trial.held_out}


def _costs(runs: Sequence[MethodRun], unit: Unit) -> Costs:
    per_use = []
    for run in runs:
        trials = sorted(run.trials, key=lambda trial: trial.question)
        per_use.append(tuple(_known(run.use_cost(trial, unit)) for trial in trials))
    return Costs(tuple(_known(run.spent_before_use(unit)) for run in runs), tuple(per_use))


def _known(value: float | None) -> float:
    """A number that `require_fair` found to be known."""
    assert value is not None
    return value
