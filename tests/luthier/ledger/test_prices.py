"""Every role has a place in the settings that prices it, and the error that asks for a price names that place."""

from __future__ import annotations

from typing import get_args

import pytest

from luthier.context import StageContext
from luthier.errors import InputError
from luthier.ledger.budget import Price
from luthier.ledger.prices import price_tags
from luthier.settings.load import Params
from luthier.target import Role, Usage


def priced(prompt: float, completion: float) -> dict[str, float]:
    return {"prompt_usd_per_million": prompt, "completion_usd_per_million": completion}


def params(target=None, generator=None, server=None, proposer=None, budget=None) -> Params:
    profile = {
        "target": {"engine": "scripted", "model": "hello", **(target or {})},
        "questions": {"train": 1, "validation": 1, "test": 1},
        "grid": {"configurations": ["direct"], "train": 1, "validation": 1},
        "mas_architect": {
            "generator": generator or {},
            "teach": {"server": {"engine": "openai", **server}} if server is not None else {},
            "sft": {"learning_rate": 1e-3, "batch": 1, "epochs": 1.0},
            "reinforce": {"learning_rate": 1e-3, "batch": 64, "steps": 1},
        },
        "proposer": None if proposer is None else {"engine": "openai", **proposer},
    }
    ask = {"profile": "p", "methods": ["mas_architect"], "budget": budget or {}}
    methods = {"mas_architect": profile.pop("mas_architect")}
    return Params.model_validate({"ask": ask, "profile": profile, "methods": methods, "file": "profiles/p.yaml"})


def test_every_role_takes_its_price_from_its_own_section():
    given = params(priced(1, 2), priced(3, 4), priced(5, 6), priced(7, 8))
    prices = {role: tag.price for role, tag in price_tags(given, "mas_architect").items()}
    assert prices.pop("trained") is None
    assert set(prices) == set(get_args(Role)), "no role is left without a place"
    target, proposer = Price(1, 2), Price(7, 8)
    assert prices == {
        "target": target,
        "judge": target,
        "user_simulator": target,
        "generator": Price(3, 4),
        "teacher": Price(5, 6),
        "proposer": proposer,
        "critic": proposer,
    }


def test_roles_without_a_section_of_their_own_are_the_target():
    prices = {role: tag.price for role, tag in price_tags(params(priced(1, 2)), "mas_architect").items()}
    assert {prices[role] for role in ("teacher", "proposer", "critic", "judge")} == {Price(1, 2)}
    assert prices["generator"] is None, "a small trained model does not cost what the target costs"


def test_a_stage_without_a_generator_has_no_price_for_one():
    assert "generator" not in price_tags(params(), "")


def test_half_a_price_is_unknown_and_the_missing_half_is_named():
    tag = price_tags(params(generator={"prompt_usd_per_million": 1.0}), "mas_architect")["generator"]
    assert tag.price is None
    assert tag.place == "profiles/p.yaml, field mas_architect.generator.completion_usd_per_million"


def test_trained_tokens_have_one_price_of_their_own():
    tag = price_tags(params(generator={"trained_usd_per_million": 3}), "mas_architect")["trained"]
    assert tag.price == Price(3, 3)
    tag = price_tags(params(generator=priced(1, 2)), "mas_architect")["trained"]
    assert tag.price is None
    assert tag.place == "profiles/p.yaml, field mas_architect.generator.trained_usd_per_million"


@pytest.mark.parametrize(
    ("role", "field"),
    [
        ("target", "target"),
        ("judge", "target"),
        ("generator", "mas_architect.generator"),
        ("teacher", "mas_architect.teach.server"),
        ("critic", "proposer"),
    ],
)
def test_a_price_limit_names_the_file_and_the_field_that_is_missing(tmp_path, role, field):
    given = params(server={}, proposer={}, budget={"price": 1.0})
    context = StageContext("evaluate", "mas_architect", params=given, root=tmp_path)
    with context, pytest.raises(InputError) as caught:
        context.check_prices(role)
    assert str(caught.value) == (
        f"profiles/p.yaml, field {field}.prompt_usd_per_million: role {role!r} has no price, so budget.price cannot"
        " be held. Fix: state the price there or remove budget.price."
    )


def test_an_unknown_price_is_no_obstacle_without_a_limit_on_it(tmp_path):
    with StageContext("evaluate", "mas_architect", params=params(budget={"calls": 1}), root=tmp_path) as context:
        roles = get_args(Role)
        assert len(roles) > 3
        context.check_prices(*roles)
        assert {context.ledger.amount(role, Usage(calls=1)).price for role in roles} == {None}


def test_a_priced_generator_can_be_limited(tmp_path):
    given = params(priced(1, 2), priced(3, 4), budget={"price": 1.0})
    with StageContext("evaluate", "mas_architect", params=given, root=tmp_path) as context:
        context.check_prices("target", "generator")
        assert context.meter("generator", "test").context.role == "generator"
