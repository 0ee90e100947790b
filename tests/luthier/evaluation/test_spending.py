"""The bill of a learned method at each checkpoint, on a real ledger whose entries are worked by hand."""

from __future__ import annotations

import pytest

from luthier.context import StageContext
from luthier.errors import InputError
from luthier.evaluation.method_run import Spend
from luthier.evaluation.spending import Milestone, milestones
from luthier.ledger.budget import Amount
from luthier.ledger.entries import Context, Entry
from luthier.ledger.ledger import Ledger
from luthier.settings.load import Params

METHOD = "mas_architect"


def params(**changes) -> Params:
    profile = {
        "target": {"engine": "scripted", "model": "hello"},
        "questions": {"train": 1, "validation": 1, "test": 1},
        "grid": {"configurations": ["direct"], "train": 1, "validation": 1},
        METHOD: {
            "teach": {},
            "sft": {"learning_rate": 1e-3, "batch": 1, "epochs": 1},
            "reinforce": {"learning_rate": 1e-3, "batch": 64, "steps": 3},
        },
    }
    ask = {"profile": "p", "methods": [METHOD], **changes}
    return Params.model_validate({"ask": ask, "profile": profile, "methods": {METHOD: profile.pop(METHOD)}})


def amount(calls: int) -> Amount:
    return Amount(calls=calls, prompt_tokens=100 * calls, completion_tokens=10 * calls, seconds=1.0, picodollars=calls)


def alone(spend: Spend) -> int:
    """Its calls; all other units of these entries are multiples."""
    assert spend.alone.prompt_tokens == 100 * spend.alone.calls
    return spend.alone.calls


def enter(
    context: StageContext, stage: str, *entries: tuple[str, str, str, str, str, int], cached: bool = False
) -> None:
    """Write (account, role, phase, split, scope, calls) into the run of a stage."""
    method = "" if stage == "grid" else METHOD
    ledger = Ledger(context.store, run=StageContext(stage, method, params=context.params, root=context.root).run)
    rows = [
        Entry(
            Context(account, role, method, phase, split, 17, scope),
            f"{stage} {account} {role} {phase} {split} {scope}",
            "answer",
            cached,
            Amount() if cached else amount(calls),
            amount(calls),
        )
        for account, role, phase, split, scope, calls in entries
    ]
    ledger.settle([], rows)


def enter_all(context: StageContext) -> None:
    """Every number is a power of two, so that a sum tells what is in it."""
    enter(
        context,
        "grid",
        ("data", "target", "grid", "train", "", 1),
        ("data", "target", "grid", "validation", "", 2**20),
    )
    enter(
        context,
        "teach",
        ("data", "target", "teach", "train", "", 2),
        ("data", "target", "teach", "train", "confirm", 4),
        ("data", "teacher", "teach", "train", "", 8),
    )
    enter(context, "sft", ("train", "generator", "sft update", "train", "step 0", 16))
    enter(
        context,
        "reinforce",
        ("train", "generator", "reinforce", "train", "probe 0", 32),
        ("train", "target", "reinforce", "train", "probe 0", 64),
        *[
            row
            for step, number in enumerate((128, 1024, 8192))
            for row in (
                ("train", "generator", "reinforce", "train", f"step {step}", number),
                ("train", "target", "reinforce", "train", f"step {step}", 2 * number),
                ("train", "generator", "reinforce update", "train", f"step {step}", 4 * number),
            )
        ],
    )


@pytest.fixture
def context(tmp_path):
    with StageContext("evaluate", METHOD, params=params(), root=tmp_path) as opened:
        yield opened


def calls(milestone: Milestone) -> dict[tuple[str, str, bool], int]:
    return {(spend.account, spend.role, spend.trained): alone(spend) for spend in milestone.spent}


def test_milestones_are_the_sums_worked_by_hand(context):
    enter_all(context)
    found = milestones(context, [2, 1])
    assert [item.stage for item in found] == ["sft", "reinforce_1", "reinforce_2", "reinforce"]
    data = {("data", "target", False): 1 + 2 + 4, ("data", "teacher", False): 8}
    assert calls(found[0]) == {**data, ("train", "generator", True): 16}
    for milestone, steps in zip(found[1:], ((128,), (128, 1024), (128, 1024, 8192)), strict=True):
        assert calls(milestone) == {
            **data,
            ("train", "generator", False): 32 + sum(steps),
            ("train", "target", False): 64 + 2 * sum(steps),
            ("train", "generator", True): 16 + 4 * sum(steps),
        }


def test_the_tenth_step_is_not_before_the_second_milestone(context):
    enter_all(context)
    enter(context, "reinforce", ("train", "target", "reinforce", "train", "step 10", 2**18))
    second, last = milestones(context, [2])[1:]
    assert calls(last)["train", "target", False] - calls(second)["train", "target", False] == 2 * 8192 + 2**18


def test_a_step_on_several_devices_counts_all_of_them(context):
    enter_all(context)
    enter(context, "reinforce", ("train", "generator", "reinforce update", "train", "step 0 rank 1", 2**18))
    first = milestones(context, [1])[1]
    assert calls(first)["train", "generator", True] == 16 + 4 * 128 + 2**18


def test_what_a_warm_store_gave_counts_as_if_alone_and_was_not_paid(context):
    enter(context, "grid", ("data", "target", "grid", "train", "", 1), cached=True)
    enter(context, "teach", ("data", "target", "teach", "train", "", 2))
    enter(context, "sft", ("train", "generator", "sft update", "train", "step 0", 16))
    enter(context, "reinforce", ("train", "target", "reinforce", "train", "step 0", 32))
    (data,) = [spend for spend in milestones(context, [])[0].spent if spend.account == "data"]
    assert (data.alone.calls, data.paid.calls) == (3, 2)


def test_another_run_of_a_stage_counts_only_when_there_is_no_present_one(context, tmp_path):
    """Settings of another stage give a run another name; DVC leaves the stage alone, and its entries stay there."""
    enter_all(context)
    context.close()
    other = params(task={"seed": 8})
    with StageContext("evaluate", METHOD, params=other, root=tmp_path) as later:
        before = milestones(later, [1])
        assert calls(before[0])["data", "target", False] == 1 + 2 + 4
        enter(later, "grid", ("data", "target", "grid", "train", "", 2**10))
        assert calls(milestones(later, [1])[0])["data", "target", False] == 2**10 + 2 + 4
    with StageContext("evaluate", METHOD, params=params(), root=tmp_path) as again:
        assert calls(milestones(again, [1])[0])["data", "target", False] == 1 + 2 + 4, "each run has its own"


def test_the_run_of_another_seed_is_never_taken(context, tmp_path):
    enter_all(context)
    context.close()
    with (
        StageContext("evaluate", METHOD, params=params(seed=18), root=tmp_path) as other,
        pytest.raises(InputError, match="the ledger has no entry of stage grid"),
    ):
        milestones(other, [1])


@pytest.mark.parametrize(
    ("missing", "fix"),
    [
        ("grid", "run `dvc repro -f grid` with this store"),
        ("teach", "run `dvc repro -f teach@mas_architect` with this store"),
        ("sft", "run `dvc repro -f sft@mas_architect` with this store"),
        ("reinforce", "run `dvc repro -f reinforce@mas_architect` with this store"),
    ],
)
def test_a_stage_without_entries_is_one_error_with_its_command(context, missing, fix):
    for stage in ("grid", "teach", "sft", "reinforce"):
        if stage != missing:
            enter(context, stage, ("train", "target", stage, "train", "", 1))
    with pytest.raises(InputError, match=f"the ledger has no entry of stage {missing}, so what it cost") as caught:
        milestones(context, [])
    assert caught.value.fix == fix
    assert caught.value.where.endswith(".cache/store.sqlite")
