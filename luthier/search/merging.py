"""System-aware merge: two candidates that improved different components of a common ancestor give one child.

GEPA's merge as gepa 0.1.4 does it (the paper's Algorithm 4 draws from the whole pool instead of the
survivors of pruning). A merge is tried in the iteration after an accepted child; it is run on five validation
questions, on some of which each parent is the better one, and validated when its sum there is not below either
parent's. Ours: draws have seeds of their own; of ancestors that all score 0 each is as likely (gepa fails there);
components are walked in the order of their names (gepa: in hash order).
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from luthier.search.candidate import Candidate
from luthier.search.selectors import survivors

SUBSAMPLE = 5
"""Validation questions of a test, and the least that a validation set must have."""
_DRAWS = 100
_EACH = 2


@dataclass(frozen=True, slots=True)
class Member:
    """A validated candidate: itself, its validation scores, and the places of its parents in the pool."""

    candidate: Candidate
    scores: tuple[float, ...]
    parents: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """A child and how it is tested.

    Attributes:
        child: With both parents' digests. parents: Their places in the pool.
        questions: Places of validation questions. bar: Least sum of scores on them that is accepted.
    """

    child: Candidate
    parents: tuple[int, int]
    questions: tuple[int, ...]
    bar: float


@dataclass
class Merging:
    """When to merge, in one run.

    Attributes:
        most: Accepted merges after which none is planned any more; 0 for no merge.
    """

    most: int
    _due: int = field(default=0, init=False)
    _accepted: int = field(default=0, init=False)
    _fresh: bool = field(default=False, init=False)
    _tried: set[tuple[int, ...]] = field(default_factory=set, init=False)
    _made: set[tuple[int, int, str]] = field(default_factory=set, init=False)

    def found(self) -> None:
        """A child of a proposal was accepted."""
        self._fresh = True
        self._due += self._accepted < self.most

    def accepted(self) -> None:
        """A merge was accepted."""
        self._due -= 1
        self._accepted += 1

    def draft(self, pool: Sequence[Member], rng: random.Random) -> Merge | None:
        """The merge to test now, None when none is due or none is possible."""
        ready, self._fresh = self._fresh and self._due > 0, False
        if not ready or len(pool[0].scores) < SUBSAMPLE:
            return None
        choice = survivors([member.scores for member in pool])
        for _ in range(_DRAWS if len(choice) > 1 else 0):
            one, two = sorted(rng.sample(choice, 2))
            ancestors = [a for a in shared_ancestors(pool, one, two) if (one, two, a) not in self._tried]
            if not ancestors:
                continue
            means = [math.fsum(pool[place].scores) for place in ancestors]
            ancestor = rng.choices(ancestors, means if any(means) else None)[0]
            child = merged(pool, one, two, ancestor, rng)
            if (one, two, child.digest) in self._made:
                continue
            self._tried.add((one, two, ancestor))
            self._made.add((one, two, child.digest))
            questions = subsample(pool[one].scores, pool[two].scores, rng)
            bar = max(math.fsum(pool[place].scores[n] for n in questions) for place in (one, two))
            return Merge(child, (one, two), questions, bar)
        return None


def shared_ancestors(pool: Sequence[Member], one: int, two: int) -> list[int]:
    """Common ancestors worth merging over: not better than either, and one of the two kept a text the other changed.

    None when one of the two is an ancestor of the other.
    """
    first, second = lineage(pool, one), lineage(pool, two)
    if one in second or two in first:
        return []
    limit = min(math.fsum(pool[place].scores) for place in (one, two))
    return [
        place
        for place in sorted(first & second)
        if math.fsum(pool[place].scores) <= limit and _complementary(pool, one, two, place)
    ]


def lineage(pool: Sequence[Member], place: int) -> set[int]:
    """Places of all ancestors."""
    found: set[int] = set()
    open_places = list(pool[place].parents)
    while open_places:
        parent = open_places.pop()
        if parent not in found:
            found.add(parent)
            open_places.extend(pool[parent].parents)
    return found


def merged(pool: Sequence[Member], one: int, two: int, ancestor: int, rng: random.Random) -> Candidate:
    """The child: of each component the changed text; where both changed it, the better one's (a tie is drawn)."""
    texts = [_texts(pool, place) for place in (one, two)]
    means = [math.fsum(pool[place].scores) for place in (one, two)]
    chosen = {}
    for name, old in pool[ancestor].candidate.texts:
        first, second = texts[0][name], texts[1][name]
        if first == second or second == old:
            chosen[name] = first
        elif first == old:
            chosen[name] = second
        else:
            chosen[name] = texts[rng.choice((0, 1)) if means[0] == means[1] else int(means[1] > means[0])][name]
    parents = [pool[place].candidate.digest for place in (one, two)]
    return Candidate.make(chosen, dict(pool[ancestor].candidate.demonstrations), parents)


def subsample(one: Sequence[float], two: Sequence[float], rng: random.Random) -> tuple[int, ...]:
    """Places of questions: two where the first is better, two where the second is, ties, then any others."""
    groups: tuple[list[int], list[int], list[int]] = ([], [], [])
    for place, (first, second) in enumerate(zip(one, two, strict=True)):
        groups[0 if first > second else 1 if second > first else 2].append(place)
    chosen: list[int] = []
    for group in groups:
        chosen += rng.sample(group, min(len(group), _EACH, SUBSAMPLE - len(chosen)))
    rest = [place for place in range(len(one)) if place not in chosen]
    return (*chosen, *rng.sample(rest, SUBSAMPLE - len(chosen)))


def _texts(pool: Sequence[Member], place: int) -> Mapping[str, str]:
    return dict(pool[place].candidate.texts)


def _complementary(pool: Sequence[Member], one: int, two: int, ancestor: int) -> bool:
    first, second = _texts(pool, one), _texts(pool, two)
    return any(
        first[name] != second[name] and old in (first[name], second[name])
        for name, old in pool[ancestor].candidate.texts
    )
