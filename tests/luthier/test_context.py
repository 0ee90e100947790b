"""The context opens what the settings name, on first use, and names its runs so that a restart continues them."""

from __future__ import annotations

import pytest

from luthier.context import StageContext, spec_of
from luthier.errors import InputError
from luthier.settings.load import Params


def params(**changes) -> Params:
    target = {"engine": "scripted", "model": "hello", **changes.pop("target", {})}
    teach = changes.pop("teach", {})
    profile = {
        "target": target,
        "questions": {"train": 1, "validation": 1, "test": 1},
        "grid": {"configurations": ["direct"], "train": 1, "validation": 1},
        "mas_architect": {
            "teach": teach,
            "sft": {"learning_rate": 1e-3, "batch": 1, "epochs": 1},
            "reinforce": {"learning_rate": 1e-3, "batch": 64, "steps": 1},
        },
    }
    ask = {"profile": "p", "methods": ["mas_architect"], **changes}
    methods = {"mas_architect": profile.pop("mas_architect")}
    return Params.model_validate({"ask": ask, "profile": profile, "methods": methods, "file": "profiles/p.yaml"})


def test_the_target_is_opened_on_first_use_and_closed_with_the_bench(tmp_path):
    with StageContext("grid", params=params(), root=tmp_path) as context:
        assert not (tmp_path / ".cache").exists(), "nothing is opened before it is needed"
        target = context.target
        assert context.target is target
        context.store.count("calls")
        assert (tmp_path / ".cache" / "store.sqlite").exists()
        assert target.closed is False
    assert target.closed is True


def test_a_run_keeps_its_name_over_restarts_and_budgets_and_nothing_else(tmp_path):
    def name(stage="grid", method="", **changes):
        return StageContext(stage, method, params=params(**changes), root=tmp_path).run

    assert name() == name() == name(budget={"calls": 3})
    others = {name("teach"), name(method="mas_architect"), name(seed=3), name(target={"model": "other"})}
    assert len(others | {name()}) == 5


def test_only_a_server_is_asked_again(tmp_path):
    served = {"engine": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1", "retries": 3}
    context = StageContext("teach", "mas_architect", params=params(teach={"server": served}), root=tmp_path)
    assert (context._attempts("target"), context._attempts("teacher")) == (1, 4)


def test_a_price_limit_needs_prices(tmp_path):
    context = StageContext("grid", params=params(budget={"price": 1.0}), root=tmp_path)
    with context, pytest.raises(InputError, match=r"role 'target' has no price, so budget.price cannot be held"):
        context.meter("target", "data")
    priced = {"prompt_usd_per_million": 1.0, "completion_usd_per_million": 2}
    with StageContext("grid", params=params(budget={"price": 1}, target=priced), root=tmp_path) as context:
        assert context.meter("target", "data").context.account == "data"


def test_the_specification_carries_every_engine_setting():
    spec = spec_of(params(target={"batch": 3, "timeout_seconds": 2.5, "revision": "r"}).profile.target)
    assert (spec.engine, spec.model, spec.batch, spec.timeout_seconds, spec.revision) == (
        "scripted",
        "hello",
        3,
        2.5,
        "r",
    )


def test_a_meter_pays_in_the_name_of_its_stage(tmp_path):
    with StageContext("teach", "mas_architect", params=params(), root=tmp_path) as context:
        billed = context.meter("target", "data", split="train", scope="step 3").context
    assert billed.values == ("data", "target", "mas_architect", "teach", "train", 17, "step 3")
