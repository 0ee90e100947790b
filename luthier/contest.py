"""`compare`: methods x tasks x seeds at equal total budget, or a refusal that says what is not equal.

Scores are means over a question's seeds, so that intervals speak of new questions at the seeds measured; the spread
over seeds stands beside them. The two axes of generalisation, families held out of training and second targets,
are kept apart and never merged into one figure (docs/design.md, section 8).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean as mean

from luthier.comparison import (
    Band,
    BreakEven,
    Costs,
    Difference,
    Interval,
    Spread,
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
from luthier.contender import Allowance, Contender, Kind, Unit, measure
from luthier.errors import InputError
from luthier.fairness import family_of, require_fair

HEADLINE_SEEDS = 3
"""Figures with fewer seeds are not headlines (docs/design.md, section 10)."""
_ORDER: tuple[Kind, ...] = ("learned", "searched", "fixed")


@dataclass(frozen=True, slots=True)
class Standing:
    """One method on one task under one budget, over its seeds.

    Attributes:
        runs: One per seed, in order of seed.
        score: Pooled over questions. equal_weight: Mean over families. by_family: Mean of each.
        spread: Over seeds.
        before_use: Spent before the first use, mean over seeds. use_cost: Of one question, mean; `target_cost` of it
            is the target's, the rest is the generator's.
        outcomes: Executions of all seeds by outcome.
        on_front: Whether no other contender scores at least as much for no more per use.
        curve: Validation score against spend, mean over seeds.
        seen, unseen: Pooled score on families in and out of its training, None when there is none.
    """

    runs: tuple[Contender, ...]
    score: Interval
    equal_weight: float
    by_family: Mapping[str, float]
    spread: Spread
    before_use: float
    use_cost: float
    target_cost: float
    outcomes: Mapping[str, int]
    on_front: bool
    curve: tuple[Band, ...]
    seen: Interval | None
    unseen: Interval | None

    @property
    def method(self) -> str:
        """The method's key."""
        return self.runs[0].method

    @property
    def label(self) -> str:
        """Its name in print."""
        return self.runs[0].label

    @property
    def kind(self) -> Kind:
        """Learned, searched or fixed."""
        return self.runs[0].kind

    @property
    def seeds(self) -> tuple[int, ...]:
        """In order."""
        return tuple(run.seed for run in self.runs)


@dataclass(frozen=True, slots=True)
class Pair:
    """Paired difference `ours - theirs` of two methods.

    Attributes:
        difference: Of the means over seeds; its interval is over questions, at these seeds.
        over_seeds: The same difference; its interval is over questions and seeds.
    """

    ours: str
    theirs: str
    difference: Difference
    over_seeds: Interval


@dataclass(frozen=True, slots=True)
class Crossing:
    """From how many uses on a learned method costs less than another one.

    Attributes:
        pair: The two, and what the learned one scores against the other.
    """

    pair: Pair
    result: BreakEven

    @property
    def learned(self) -> str:
        """The learned method."""
        return self.pair.ours

    @property
    def other(self) -> str:
        """The method that it is compared with."""
        return self.pair.theirs


@dataclass(frozen=True, slots=True)
class Transfer:
    """A method on a second target that it was not trained or searched on; only on families that it was trained on.

    Families that it has not seen are the other axis, and the two are never merged.

    Attributes:
        score: There. home: Score on its own target. difference: There minus home, paired by question.
    """

    method: str
    label: str
    kind: Kind
    target: str
    seeds: tuple[int, ...]
    score: Interval
    home: Interval
    difference: Difference


@dataclass(frozen=True, slots=True)
class Group:
    """Everyone on one task under one budget.

    Attributes:
        standings: Learned ones first, then searched and fixed, by label.
        pairs: Learned minus everyone after it; everyone else minus the baseline.
        crossings: Of each learned one with each that is not. transfers: On second targets.
    """

    task: str
    budget: Allowance | None
    target: str
    questions: int
    standings: tuple[Standing, ...]
    pairs: tuple[Pair, ...]
    crossings: tuple[Crossing, ...]
    transfers: tuple[Transfer, ...]

    @property
    def budget_name(self) -> str:
        """Its name, empty when only fixed contenders are in the group."""
        return self.budget.name if self.budget else ""

    def standing(self, method: str) -> Standing:
        """The standing of a method that is in the group."""
        return next(item for item in self.standings if item.method == method)

    def against_baseline(self, method: str, baseline: str) -> Difference | None:
        """Difference to the baseline, None for the baseline itself."""
        return next((p.difference for p in self.pairs if (p.ours, p.theirs) == (method, baseline)), None)


@dataclass(frozen=True, slots=True)
class Overall:
    """A method over all tasks under one budget: mean over all questions, and mean of the tasks' means."""

    method: str
    label: str
    kind: Kind
    budget: str
    tasks: int
    pooled: Interval
    equal_weight: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that the page shows.

    Attributes:
        unit: Spend is counted in. baseline: Method that the others are compared with.
        groups: By task and budget. overall: Over tasks, empty for one task.
        warnings: Why its figures are no headlines.
    """

    unit: Unit
    baseline: str
    groups: tuple[Group, ...]
    overall: tuple[Overall, ...]
    warnings: tuple[str, ...]


def compare(
    contenders: Sequence[Contender], baseline: str, *, unit: Unit = "tokens", resamples: int = 2000
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


def _group(task: str, members: Sequence[Contender], baseline: str, unit: Unit, resamples: int) -> Group:
    at_home: dict[str, list[Contender]] = defaultdict(list)
    away: dict[tuple[str, str], list[Contender]] = defaultdict(list)
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
    fronts = pareto_front([(item.score.mean, item.use_cost) for item in found])
    standings = sorted(
        (replace(item, on_front=front) for item, front in zip(found, fronts, strict=True)),
        key=lambda item: (_ORDER.index(item.kind), item.label, item.method),
    )
    by_seed = {method: _scores(runs) for method, runs in at_home.items()}
    scores = {method: question_means(tables) for method, tables in by_seed.items()}
    pairs = [
        Pair(
            ours,
            theirs,
            paired_difference(scores[ours], scores[theirs], resamples=resamples),
            seeded_difference(by_seed[ours], by_seed[theirs], resamples=resamples),
        )
        for ours, theirs in _paired(standings, baseline)
    ]
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


def _standing(runs: Sequence[Contender], unit: Unit, resamples: int) -> Standing:
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
    return Standing(
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
        curve=mean_curve(curves),
        seen=seen,
        unseen=unseen,
    )


def _paired(standings: Sequence[Standing], baseline: str) -> list[tuple[str, str]]:
    """Learned minus everyone after it, and everyone minus the baseline."""
    pairs = [(a.method, b.method) for a, b in combinations(standings, 2) if a.kind == "learned"]
    known = {frozenset(pair) for pair in pairs}
    pairs += [(s.method, baseline) for s in standings if frozenset((s.method, baseline)) not in known]
    return [(ours, theirs) for ours, theirs in pairs if ours != theirs]


def _crossings(standings: Sequence[Standing], pairs: Sequence[Pair], unit: Unit, resamples: int) -> list[Crossing]:
    known = {(pair.ours, pair.theirs): pair for pair in pairs}
    return [
        Crossing(
            known[ours.method, other.method],
            break_even(_costs(ours.runs, unit), _costs(other.runs, unit), resamples=resamples),
        )
        for ours in standings
        for other in standings
        if ours.kind == "learned" and other.kind != "learned"
    ]


def _transfer(
    runs: Sequence[Contender], at_home: Mapping[str, Sequence[Contender]], task: str, resamples: int
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
    found: dict[tuple[str, str], list[Standing]] = defaultdict(list)
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


def _scores(runs: Sequence[Contender]) -> list[dict[str, float]]:
    return [{trial.question: _known(trial.execution.score) for trial in run.trials} for run in runs]


def _shown(runs: Sequence[Contender]) -> set[str]:
    """Questions of families that were seen; one is unseen when no seed was trained on it."""
    return {trial.question for run in runs for trial in run.trials if not trial.held_out}


def _costs(runs: Sequence[Contender], unit: Unit) -> Costs:
    per_use = []
    for run in runs:
        trials = sorted(run.trials, key=lambda trial: trial.question)
        per_use.append(tuple(_known(run.use_cost(trial, unit)) for trial in trials))
    return Costs(tuple(_known(run.spent_before_use(unit)) for run in runs), tuple(per_use))


def _known(value: float | None) -> float:
    """A number that `require_fair` found to be known."""
    assert value is not None
    return value
