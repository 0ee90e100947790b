"""Methods: one file per published system; `METHODS` is the one list of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeVar

from luthier.context import StageContext
from luthier.errors import InputError
from luthier.method import PHASES, Method, MethodCard, Prefers, Reinforces, Searches, Teaches, Trains
from luthier.methods import bootstrap, gepa, mas_architect, mipro, optoprime, textgrad
from luthier.settings.base import Section
from luthier.settings.load import PARAMS_FILE, PHASES_FILE, Params, near
from luthier.settings.training import GeneratorParams

_NEEDS: Mapping[str, type[Method]] = {
    "teach": Teaches,
    "prefer": Prefers,
    "reinforce": Reinforces,
    "search": Searches,
}
"""What a method of a phase implements; the other phases need `Trains`."""
SectionT = TypeVar("SectionT", bound=Section)
MethodT = TypeVar("MethodT", bound=Method)


def listed(*methods: Method) -> dict[str, Method]:
    """Methods by name.

    Raises:
        InputError: one has no card, a phase that it does not implement, or the name of another one.
    """
    found: dict[str, Method] = {}
    for method in methods:
        where = f"{type(method).__module__}.{type(method).__qualname__}"
        card = getattr(method, "card", None)
        if not isinstance(card, MethodCard):
            raise InputError("a method without a card", where=where, fix="give it `card`, a MethodCard")
        if card.name in found:
            raise InputError(f"two methods are called {card.name!r}", where=where, fix="rename one of them")
        for phase in card.phases:
            if phase not in PHASES:
                raise InputError(
                    f"phase {phase!r} of {card.name} is unknown", where=where, fix=f"use some of {', '.join(PHASES)}"
                )
            needed = _NEEDS.get(phase, Trains)
            if not isinstance(method, needed):
                raise InputError(
                    f"{card.name} has phase {phase!r}, but is not {needed.__name__}",
                    where=where,
                    fix=f"write the methods of luthier.method.{needed.__name__}",
                )
        found[card.name] = method
    return found


METHODS: dict[str, Method] = listed(
    mas_architect.METHOD,
    bootstrap.METHOD,
    mipro.METHOD,
    textgrad.METHOD,
    optoprime.METHOD,
    gepa.METHOD,
)


def method_of(name: str) -> Method:
    """A method by its name.

    Raises:
        InputError: the method is unknown; near matches are named.
    """
    if name not in METHODS:
        raise InputError(
            f"method {name!r} is unknown{near(name, METHODS)}", fix=f"use one of {', '.join(sorted(METHODS))}"
        )
    return METHODS[name]


def having(name: str, ability: type[MethodT]) -> MethodT:
    """A method that can do something: `having("gepa", Searches)`.

    Raises:
        InputError: the method is unknown, or cannot.
    """
    method = method_of(name)
    if not isinstance(method, ability):
        able = [key for key, item in METHODS.items() if isinstance(item, ability)]
        raise InputError(
            f"method {name!r} is not {ability.__name__}", fix=f"use one of {', '.join(sorted(able)) or 'none yet'}"
        )
    return method


def settings_of(params: Params, name: str, part: str, kind: type[SectionT]) -> SectionT:
    """A part of a method's settings: `settings_of(params, "mas_architect", "sft", SftParams)`.

    Raises:
        InputError: the method is unknown, has no such part, or a field of its section is wrong.
    """
    section = method_of(name).section
    value = getattr(params.section(name, section), part, None)
    if not isinstance(value, kind):
        raise InputError(
            f"method {name!r} has no settings {part!r} of {kind.__name__}",
            where=section.__module__,
            fix=f"write `{part}: {kind.__name__}` in {section.__name__}",
        )
    return value


def generator_of(context: StageContext) -> GeneratorParams:
    """The trainable model of a stage's method."""
    return settings_of(context.params, context.method, "generator", GeneratorParams)


def card(name: str) -> MethodCard:
    """The card of a method.

    Raises:
        InputError: the method is unknown; near matches are named.
    """
    return method_of(name).card


def learned() -> tuple[str, ...]:
    """Names of the methods that learn: those with a checkpoint."""
    return tuple(name for name, method in METHODS.items() if method.card.checkpoints)


def searches() -> tuple[str, ...]:
    """Names of the methods that search."""
    return tuple(name for name, method in METHODS.items() if "search" in method.card.phases)


def check_asked(field: Literal["methods", "searches"], name: str) -> None:
    """Check that a method asked for in this field of `params.yaml` learns, or searches.

    Raises:
        InputError: it is unknown, or does not; near matches are named.
    """
    known = learned() if field == "methods" else searches()
    if name not in known:
        raise InputError(
            f"field {field}: {name!r} is unknown{near(name, known)}",
            where=PARAMS_FILE,
            fix=f"use one of {', '.join(known)}",
        )


def check_settings(params: Params) -> None:
    """Check what the settings say of methods: names, phases, and every section of the profile.

    Raises:
        InputError: a method is unknown, the pipeline's phases of it are not its own, or a field of its section is
            unknown, of the wrong type or out of range.
    """
    for name in params.ask.methods:
        check_asked("methods", name)
    for name in params.ask.searches:
        check_asked("searches", name)
    if params.phases:
        check_phases(params.phases)
    for name in params.methods:
        if name not in METHODS:
            known = (*METHODS, *type(params.profile).model_fields)
            raise InputError(
                f"field {name}: unknown{near(name, known)}",
                where=params.file,
                fix=f"known here: {', '.join(sorted(known))}",
            )
        params.section(name, METHODS[name].section)


def check_phases(phases: Mapping[str, Mapping[str, str]]) -> None:
    """Hold the phases of `pipeline.yaml` against the cards.

    Args:
        phases: By stage, the methods that it builds.

    Raises:
        InputError: a stage or method is unknown, or a method's stages are not its phases.
    """
    for stage in phases:
        if stage not in (*PHASES, "evaluate"):
            raise InputError(
                f"field phases.{stage}: unknown{near(stage, PHASES)}",
                where=PHASES_FILE,
                fix=f"use some of {', '.join(PHASES)}, evaluate",
            )
    for name in {name for methods in phases.values() for name in methods}:
        if name not in METHODS:
            raise InputError(
                f"method {name!r} is unknown{near(name, METHODS)}",
                where=PHASES_FILE,
                fix=f"use some of {', '.join(sorted(METHODS))}",
            )
        wanted = {*METHODS[name].card.phases} | ({"evaluate"} if METHODS[name].card.checkpoints else set())
        built = {stage for stage, methods in phases.items() if name in methods}
        if missing := wanted - built:
            raise InputError(
                f"field phases.{min(missing)}: {name} is missing, though its card has this phase",
                where=PHASES_FILE,
                fix=f"add {name} to {', '.join(sorted(missing))}",
            )
        if extra := built - wanted:
            raise InputError(
                f"field phases.{min(extra)}: {name} has no such phase",
                where=PHASES_FILE,
                fix=f"remove {name} from {', '.join(sorted(extra))}",
            )
