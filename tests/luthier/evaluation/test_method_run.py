"""A run survives its files, and its spend is measured as said."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from luthier.errors import InputError
from luthier.evaluation.method_run import (
    BudgetResult,
    MethodRun,
    Point,
    Spend,
    TotalBudget,
    measure,
    read_contenders,
    spends,
    write_contender,
)
from luthier.execution import Execution, Step
from luthier.ledger.budget import Amount, Price
from luthier.ledger.entries import Line
from luthier.target import Usage


@pytest.fixture
def contender():
    step = Step("n1", "llm", {"question": "q\u2028", "items": [1, 2]}, {"verdict": "yes"}, Usage(1, 8, 2, 0.5))
    execution = Execution(
        "q1", "h", "graph", "own", 3, "ok", "4", 1.0, "Correct.", trace=(step,), usage=Usage(1, 8, 2, 0.5)
    )
    amount = Amount(1, 2, 30, 4, None, 7)
    return MethodRun(
        method="m",
        label="M",
        kind="learned",
        task="t/1",
        target="own",
        home="own",
        seed=3,
        budget=TotalBudget("small", "tokens", 100),
        trained="weights",
        frozen="target",
        scope="all",
        spent=(Spend("train", "generator", amount, Amount()), Spend("test", "target", amount, amount)),
        curve=(Point(amount, 0.5, "sft", "test"),),
        trials=(BudgetResult("q1", "f", True, "answer = copy(question)", Usage(1, 5, 1, 0.25), execution),),
        target_price=Price(1.0, 2.0),
    )


def test_a_run_is_read_back_as_it_was(tmp_path, contender):
    path = write_contender(tmp_path / "deep", contender)
    assert path.name.startswith("t-1-m-small-seed-3-")
    assert read_contenders(tmp_path) == (contender,)
    other = replace(contender, target="second", budget=None, kind="fixed")
    assert write_contender(tmp_path, other) != path
    assert sorted(item.target for item in read_contenders(tmp_path)) == ["own", "second"]


def test_a_cut_or_foreign_file_is_named(tmp_path, contender):
    path = write_contender(tmp_path, contender)
    path.with_suffix(".jsonl").write_text("")
    with pytest.raises(InputError, match=r"small-seed-3.*json: field trials: 1 said, 0 found"):
        read_contenders(tmp_path)
    path.write_text(json.dumps({"trials": 0}))
    with pytest.raises(InputError, match="not a contender"):
        read_contenders(tmp_path)
    with pytest.raises(InputError, match="no contender in this folder"):
        read_contenders(tmp_path / "nothing")


def test_only_what_is_paid_before_use_is_in_the_budget(contender):
    assert contender.before_use == Amount(1, 2, 30, 4, None, 7)
    assert measure(contender.before_use, "tokens") == 34
    assert measure(contender.before_use, "seconds") is None
    assert measure(contender.before_use, "price") == 7e-12
    assert contender.budget.used(contender.before_use) == 34
    assert TotalBudget("calls", "calls", 5).used(contender.before_use) == 2


def test_a_use_costs_generator_and_target(contender):
    trial = contender.trials[0]
    assert contender.use_cost(trial, "tokens") == 16
    assert contender.target_cost(trial, "tokens") == 10
    assert contender.use_cost(trial, "seconds") == 0.75
    assert contender.target_cost(trial, "price") == pytest.approx(8e-6 + 4e-6)
    assert contender.use_cost(trial, "price") is None  # nobody stated the generator's price
    free = replace(trial, generator=Usage())
    assert contender.use_cost(free, "price") == pytest.approx(12e-6)
    unmeasured = replace(trial, execution=replace(trial.execution, usage=Usage(1, 8, 2, 0.0)))
    assert contender.use_cost(unmeasured, "seconds") is None


def test_ledger_lines_are_added_by_account_and_role_update_passes_apart():
    def line(role, phase, tokens):
        amount = Amount(prompt_tokens=tokens)
        return Line("train", role, "m", phase, Amount(), amount, 1, 0, 0)

    lines = [
        line("target", "a", 5),
        line("generator", "a update", 2),
        line("target", "b", 1),
        line("generator", "a", 4),
    ]
    found = spends(lines, lambda line: line.phase.endswith("update"))
    assert [(s.role, s.trained, s.alone.prompt_tokens, s.paid.prompt_tokens) for s in found] == [
        ("generator", False, 4, 0),
        ("generator", True, 2, 0),
        ("target", False, 6, 0),
    ]


def test_a_token_of_an_update_pass_counts_three_times_in_tokens_alone(contender):
    update = Amount(0, 3, 100, 20, 5.0, 9)
    trained = replace(contender, spent=(*contender.spent, Spend("train", "generator", update, update, trained=True)))
    assert trained.before_use == Amount(1, 5, 130, 24, None, 16)
    assert trained.spent_before_use("tokens") == 34 + 3 * 120
    assert trained.spent_before_use("price") == 16e-12
    assert trained.budget.used(trained.before_use, trained.trained_before_use) == 394
    assert TotalBudget("reads", "prompt_tokens", 200).used(trained.before_use, trained.trained_before_use) == 130
    assert measure(Amount(prompt_tokens=10), "tokens", Amount(prompt_tokens=4)) == 18


def test_wrong_fields_are_refused(contender):
    with pytest.raises(InputError, match="field kind: 'taught' is unknown"):
        replace(contender, kind="taught")
    with pytest.raises(InputError, match="field trials: empty"):
        replace(contender, trials=())
    with pytest.raises(InputError, match="question q1 stands there twice"):
        replace(contender, trials=contender.trials * 2)
    with pytest.raises(InputError, match=r"field budget\.unit: 'euro' is unknown"):
        TotalBudget("small", "euro", 1)
