"""Deciding a syllogism exactly, by looking for a countermodel.

reasoning-gym 0.1.25 calls some invalid conclusions valid (13 % of its questions at the default settings:
"All ants are dolphins. Some dolphins are not spiders. So some ants are not spiders."), so the suite asks
only those whose answer this module confirms.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import product

_STATEMENT = re.compile(r"(All|No|Some) (\w+) are (not )?(\w+)")


def follows(premises: tuple[str, ...], conclusion: str) -> bool | None:
    """Whether a conclusion follows; None when that depends on whether the named groups may be empty.

    A world is a set of kinds of individuals (each in or out of each group); a conclusion follows when it
    holds in every world where the premises hold. With three groups there are 2^8 worlds.

    Raises:
        ValueError: a statement has another form than "All|No|Some A are [not] B".
    """
    statements = tuple(_parse(statement) for statement in (*premises, conclusion))
    groups = sorted({group for _, one, other in statements for group in (one, other)})
    places = {group: place for place, group in enumerate(groups)}
    return _decide(
        tuple((quantifier, places[one], places[other]) for quantifier, one, other in statements), len(groups)
    )


@cache
def _decide(statements: tuple[tuple[str, int, int], ...], groups: int) -> bool | None:
    kinds = list(product((False, True), repeat=groups))
    always = always_inhabited = True
    for bits in range(1 << len(kinds)):
        world = [kind for place, kind in enumerate(kinds) if bits >> place & 1]
        if not all(_holds(statement, world) for statement in statements[:-1]) or _holds(statements[-1], world):
            continue
        always = False
        if all(any(kind[group] for kind in world) for group in range(groups)):
            always_inhabited = False
    return always if always == always_inhabited else None


def _parse(statement: str) -> tuple[str, str, str]:
    match = _STATEMENT.fullmatch(statement.strip().rstrip(".?"))
    if match is None:
        raise ValueError(f"not a syllogism's statement: {statement!r}")
    return (f"{match[1]} not" if match[3] else match[1]), match[2], match[4]


def _holds(statement: tuple[str, int, int], world: list[tuple[bool, ...]]) -> bool:
    quantifier, one, other = statement
    match quantifier:
        case "All":
            return all(kind[other] for kind in world if kind[one])
        case "No":
            return not any(kind[one] and kind[other] for kind in world)
        case "Some":
            return any(kind[one] and kind[other] for kind in world)
        case _:
            return any(kind[one] and not kind[other] for kind in world)
