"""Methods: one file per published system; `METHODS` is the one list of them."""

from __future__ import annotations

import difflib

from luthier.errors import InputError
from luthier.method import MethodCard
from luthier.methods.mas_architect import CARD as MAS_ARCHITECT

METHODS: dict[str, MethodCard] = {MAS_ARCHITECT.name: MAS_ARCHITECT}


def card(name: str) -> MethodCard:
    """The card of a method.

    Raises:
        InputError: the method is unknown; near matches are named.
    """
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise InputError(f"method {name!r} is unknown{hint}", fix=f"use one of {', '.join(sorted(METHODS))}")
    return METHODS[name]
