"""Methods: one file per published system; `METHODS` is the one list of them."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from luthier.errors import InputError
from luthier.method import MethodCard
from luthier.methods.bootstrap import CARD as BOOTSTRAP
from luthier.methods.gepa import CARD as GEPA
from luthier.methods.mas_architect import CARD as MAS_ARCHITECT
from luthier.methods.mipro import CARD as MIPRO
from luthier.methods.optoprime import CARD as OPTOPRIME
from luthier.methods.textgrad import CARD as TEXTGRAD

if TYPE_CHECKING:
    from luthier.search.parts import Parts
    from luthier.search.session import Search

Searcher = Callable[[Any, "Parts"], "Search"]
"""Settings of the method (`luthier.settings.search`) and parts -> the search."""

METHODS: dict[str, MethodCard] = {
    item.name: item for item in (MAS_ARCHITECT, BOOTSTRAP, MIPRO, TEXTGRAD, OPTOPRIME, GEPA)
}


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


def searcher(name: str) -> Searcher:
    """What builds a search method.

    Raises:
        InputError: the method is unknown or does not search.
    """
    from luthier.methods import bootstrap, gepa, mipro, optoprime, textgrad

    builders: dict[str, Searcher] = {
        "bootstrap": bootstrap.build,
        "gepa": gepa.build,
        "mipro": mipro.build,
        "optoprime": optoprime.build,
        "textgrad": textgrad.build,
    }
    if name not in builders:
        raise InputError(f"method {name!r} does not search", fix=f"use one of {', '.join(sorted(builders))}")
    return builders[name]
