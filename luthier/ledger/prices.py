"""Prices: for every role, where the settings say what its tokens cost, and what they say.

A judge and a user simulator are the frozen target in another role. A price that nobody stated stays unknown
and is printed so; only `budget.price` cannot do without it, and then the field to fill in is named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from luthier.ledger.budget import Price, Tariff
from luthier.settings.load import Params
from luthier.settings.target import TargetParams
from luthier.settings.training import GeneratorParams
from luthier.target import Role


@dataclass(frozen=True, slots=True)
class PriceTag:
    """What a role's tokens cost.

    Attributes:
        price: None when a number of it is not stated.
        place: File and field that state it; of an unknown price the field that is missing.
    """

    price: Price | None
    place: str


def price_tags(params: Params, method: str) -> dict[Tariff, PriceTag]:
    """The price tag of everything that can be paid for a method ("" or a search: without generator).

    `target`, `judge` and `user_simulator` cost what `target` says; `teacher` what `teach.server` of the method
    says, `proposer` and `critic` what `proposer` says, and both the target's where there is no such section;
    `generator` what `generator` of the method says, and `trained` tokens have one price there for all of them.
    """
    file = f"profiles/{params.ask.profile}.yaml"
    profile = params.profile
    sections: dict[Role, tuple[TargetParams | GeneratorParams, str]] = {
        role: (profile.target, "target") for role in get_args(Role) if role != "generator"
    }
    if profile.proposer is not None:
        sections |= {"proposer": (profile.proposer, "proposer"), "critic": (profile.proposer, "proposer")}
    generator, teacher = params.generator(method), params.teacher(method)
    if generator is not None:
        sections["generator"] = (generator, f"{method}.generator")
    if teacher is not None:
        sections["teacher"] = (teacher, f"{method}.teach.server")
    tags: dict[Tariff, PriceTag] = {
        role: _tag(section, f"{file}, field {place}") for role, (section, place) in sorted(sections.items())
    }
    if generator is not None:
        usd = generator.trained_usd_per_million
        place = f"{file}, field {method}.generator.trained_usd_per_million"
        tags["trained"] = PriceTag(None if usd is None else Price(usd, usd), place)
    return tags


def _tag(section: TargetParams | GeneratorParams, place: str) -> PriceTag:
    prompt, completion = section.prompt_usd_per_million, section.completion_usd_per_million
    if prompt is None or completion is None:
        missing = "prompt" if prompt is None else "completion"
        return PriceTag(None, f"{place}.{missing}_usd_per_million")
    return PriceTag(Price(prompt, completion), f"{place}.prompt_usd_per_million")
