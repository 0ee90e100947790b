"""Families of ours that take two or three tools in sequence, such that no shorter program gets them right."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import combinations
from random import Random
from typing import Any

from luthier.tasks.generated.words import WORDS
from luthier.tasks.question_draft import Draft, worded

_STEPS: Mapping[str, Callable[[Any], Any]] = {
    "sort": sorted,
    "first": lambda value: value[0],
    "last": lambda value: value[-1],
    "reverse": lambda value: value[::-1],
    "length": len,
    "gcd": lambda value: math.gcd(*value),
    "lcm": lambda value: math.lcm(*value),
    "square": lambda value: value**2,
}
_TWIN = {"first": "last", "last": "first"}


def run_program(steps: tuple[str, ...], value: Any) -> Any:
    """Apply named steps in order; None when a step cannot use what it gets."""
    for step in steps:
        try:
            value = _STEPS[step](value)
        except TypeError:
            return None
    return value


def wrong_programs(steps: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Programs that must not reach the answer: each proper subsequence, and the wrong end of the list.

    The wrong end is only asked of programs that end in a length, where it could agree by chance.
    """
    shorter = [subset for size in range(len(steps)) for subset in combinations(steps, size)]
    if steps[-1] == "length":
        shorter.append(tuple(_TWIN.get(step, step) for step in steps))
    return shorter


def program(steps: tuple[str, ...], *wordings: str) -> Callable[[int], Draft | None]:
    """The family whose answer is what `steps` make of a list of words, or of two numbers for "gcd" and "lcm".

    Args:
        steps: Names of `_STEPS`.
        *wordings: Templates over {words}, or over {a} and {b}.
    """

    def draft(seed: int) -> Draft | None:
        rng = Random(f"{' > '.join(steps)}:{seed}")
        if steps[0] in ("gcd", "lcm"):
            divisor = rng.randint(2, 12)
            value: list[Any] = [divisor * factor for factor in rng.sample(range(1, 13), 2)]
            subject = " ".join(str(number) for number in sorted(value))
        else:
            value = rng.sample(WORDS, rng.randint(3, 4))
            subject = ", ".join(value)
        answer = run_program(steps, value)
        if any(run_program(wrong, value) == answer for wrong in wrong_programs(steps)):
            return None
        shown = {"a": str(value[0]), "b": str(value[1]), "words": ", ".join(str(item) for item in value)}
        return Draft(subject, worded(seed, subject, wordings, **shown), str(answer))

    return draft
