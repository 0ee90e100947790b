"""Which candidate is edited next, and which child is worth a full validation.

`ParetoFront` is GEPA's instance-wise choice (arXiv 2507.19457; gepa 0.1.4). `SelectBest` and
`Beam` are the two ablations of that paper; neither stands for another optimizer. How the paper's beam draws
from its members is unknown: uniformly is ours. `Latest` is the chain that TextGrad and OptoPrime walk.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from luthier.errors import InputError
from luthier.search.contracts import Selector

SelectorName = Literal["pareto", "best", "beam", "latest"]
"""Rules that choose among whole candidates; `selector_of` makes them."""
Scores = Sequence[Sequence[float]]
"""`scores[c][i]`: validation score of candidate c on question i; shape (candidates, questions)."""


@dataclass(frozen=True, slots=True)
class SelectBest:
    """The candidate with the best mean; a tie goes to the earlier one."""

    def choose(self, scores: Scores, rng: random.Random) -> int:
        """See `luthier.search.contracts.Selector`."""
        return ranking(scores)[0]


@dataclass(frozen=True, slots=True)
class Beam:
    """One of the `width` best by mean, each as likely (GEPA's ablation uses 4)."""

    width: int = 4

    def __post_init__(self) -> None:
        if self.width < 1:
            raise InputError(f"field width: {self.width}", where="Beam", fix="use 1 or more")

    def choose(self, scores: Scores, rng: random.Random) -> int:
        """See `luthier.search.contracts.Selector`."""
        return rng.choice(ranking(scores)[: self.width])


@dataclass(frozen=True, slots=True)
class ParetoFront:
    """A candidate that is best on some question and not replaceable; more fronts, more likely."""

    def choose(self, scores: Scores, rng: random.Random) -> int:
        """See `luthier.search.contracts.Selector`."""
        weights = pareto_weights(scores)
        tickets = [candidate for candidate, weight in sorted(weights.items()) for _ in range(weight)]
        return rng.choice(tickets)


@dataclass(frozen=True, slots=True)
class Latest:
    """The candidate that was accepted last, whatever it scores: one chain without a way back."""

    def choose(self, scores: Scores, rng: random.Random) -> int:
        """See `luthier.search.contracts.Selector`."""
        _check(scores)
        return len(scores) - 1


def selector_of(name: SelectorName, width: int = 4) -> Selector:
    """The selector of a setting; `width` is of "beam" alone.

    Raises:
        InputError: no such selector, or a beam of no width.
    """
    if name == "beam":
        return Beam(width)
    rules: dict[str, Selector] = {"pareto": ParetoFront(), "best": SelectBest(), "latest": Latest()}
    if name not in rules:
        known = ", ".join(get_args(SelectorName))
        raise InputError(f"field selector: {name!r} is unknown", where="search", fix=f"use one of {known}")
    return rules[name]


@dataclass(frozen=True, slots=True)
class Always:
    """Every child, whatever it scores (TextGrad's and OptoPrime's own step)."""

    def accepts(self, parent: Sequence[float], child: Sequence[float]) -> bool:
        """See `luthier.search.contracts.Acceptance`."""
        return True


@dataclass(frozen=True, slots=True)
class StrictImprovement:
    """The child's sum must be larger (GEPA's default)."""

    def accepts(self, parent: Sequence[float], child: Sequence[float]) -> bool:
        """See `luthier.search.contracts.Acceptance`."""
        return math.fsum(child) > math.fsum(parent)


@dataclass(frozen=True, slots=True)
class NotWorse:
    """The child's sum must not be smaller (gepa's `improvement_or_equal`)."""

    def accepts(self, parent: Sequence[float], child: Sequence[float]) -> bool:
        """See `luthier.search.contracts.Acceptance`."""
        return math.fsum(child) >= math.fsum(parent)


def ranking(scores: Scores) -> list[int]:
    """Candidates by mean score, best first, ties in order."""
    _check(scores)
    return sorted(range(len(scores)), key=lambda candidate: (-math.fsum(scores[candidate]), candidate))


def fronts(scores: Scores) -> list[frozenset[int]]:
    """For each question, the candidates that reach its best score."""
    _check(scores)
    best = [max(column) for column in zip(*scores, strict=True)]
    return [
        frozenset(candidate for candidate, row in enumerate(scores) if row[question] == value)
        for question, value in enumerate(best)
    ]


def survivors(scores: Scores) -> list[int]:
    """Members of fronts that no other survivor can replace everywhere, in order.

    From the lowest mean up: a candidate goes when each of its fronts holds another one that is still there. One pass
    is enough (gepa starts again after each): what leaves makes nobody else replaceable. This prunes like a set cover
    and is not dominance of score vectors. Of equal means the candidate of the earlier front is looked at first, then
    the earlier candidate, as in gepa 0.1.4 for up to eight candidates (beyond, a hash table orders them there).
    """
    fields = fronts(scores)
    staying = set().union(*fields)
    first = {candidate: min(n for n, field in enumerate(fields) if candidate in field) for candidate in sorted(staying)}
    order = sorted(first, key=lambda candidate: (math.fsum(scores[candidate]), first[candidate], candidate))
    for candidate in order:
        own = [field for field in fields if candidate in field]
        if all((field & staying) - {candidate} for field in own):
            staying.remove(candidate)
    return sorted(staying)


def pareto_weights(scores: Scores) -> dict[int, int]:
    """How many fronts each survivor is in: its weight when a parent is drawn."""
    fields = fronts(scores)
    return {candidate: sum(candidate in field for field in fields) for candidate in survivors(scores)}


def _check(scores: Scores) -> None:
    if not scores or not scores[0] or len({len(row) for row in scores}) != 1:
        raise InputError(
            "field scores: no candidate, no question, or rows of several lengths",
            where="selector",
            fix="give each candidate's scores on the same validation questions",
        )
