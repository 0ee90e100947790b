"""What a comparison finds: standings, differences, break-even uses, second targets. `luthier.evaluation.compare` makes
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from luthier.evaluation.method_run import MethodKind, MethodRun, TotalBudget, Unit
from luthier.evaluation.statistics import Band, BreakEven, Difference, Interval, Spread


@dataclass(frozen=True, slots=True)
class MethodResult:
    """One method on one task under one budget, over its seeds.

    Attributes:
        runs: One per seed, in order of seed.
        score: Pooled over questions. equal_weight: Mean over families. by_family: Mean of each.
        spread: Over seeds.
        before_use: Spent before the first use, mean over seeds. use_cost: Of one question, mean; `target_cost` of it
            is the target's, the rest is the generator's.
        outcomes: Executions of all seeds by outcome.
        on_front: Whether no other contender scores at least as much for no more per use.
        below_best: Whether it scores significantly less than the best one of its group (the interval over questions and
            seeds of the difference lies below 0; over questions where there is one seed).
        curve: Validation score against spend, mean over seeds.
        seen, unseen: Pooled score on families in and out of its training, None when there is none.
    """

    runs: tuple[MethodRun, ...]
    score: Interval
    equal_weight: float
    by_family: Mapping[str, float]
    spread: Spread
    before_use: float
    use_cost: float
    target_cost: float
    outcomes: Mapping[str, int]
    on_front: bool
    below_best: bool
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
    def kind(self) -> MethodKind:
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
        over_seeds: The same difference; its interval is over questions and seeds. None where a side that was trained
            or searched has one seed: there is no spread to draw from.
    """

    ours: str
    theirs: str
    difference: Difference
    over_seeds: Interval | None

    @property
    def widest(self) -> Interval:
        """The interval to read it by: over seeds, too, where there are several."""
        return self.over_seeds or self.difference.interval

    @property
    def significantly_worse(self) -> bool:
        """Whether the first one scores less than the second one, rounding aside, at the ends of that interval, too."""
        return self.widest.below_zero


@dataclass(frozen=True, slots=True)
class BreakEvenPair:
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
    kind: MethodKind
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
    budget: TotalBudget | None
    target: str
    questions: int
    standings: tuple[MethodResult, ...]
    pairs: tuple[Pair, ...]
    crossings: tuple[BreakEvenPair, ...]
    transfers: tuple[Transfer, ...]

    @property
    def budget_name(self) -> str:
        """Its name, empty when only fixed contenders are in the group."""
        return self.budget.name if self.budget else ""

    def standing(self, method: str) -> MethodResult:
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
    kind: MethodKind
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
