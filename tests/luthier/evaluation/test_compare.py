"""Comparing runs: figures worked by hand, and everything that makes a comparison unfair is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from luthier.errors import InputError
from luthier.evaluation.compare import compare
from luthier.evaluation.method_run import BudgetResult, MethodRun, Point, Spend, TotalBudget
from luthier.execution import Execution
from luthier.ledger.budget import Amount, Price
from luthier.target import Usage

BUDGET = TotalBudget("small", "tokens", 1000)
FAMILIES = {"a": "x", "b": "x", "c": "x", "d": "y"}


def run(method, kind, seed, scores, *, spent=0, generator=0, target=10, held_out=(), **changes):
    """Scores of the questions a, b, c, d; every use costs the same."""
    trials = tuple(
        BudgetResult(
            question,
            family,
            family in held_out,
            "text",
            Usage(1, generator, 0, 0.5) if generator else Usage(),
            Execution(question, "h", "graph", "own", seed, "ok", "1", score, usage=Usage(1, target - 4, 4, 0.25)),
        )
        for (question, family), score in zip(FAMILIES.items(), scores, strict=True)
    )
    amount = Amount(prompt_tokens=spent, seconds=None, picodollars=None)
    values = {
        "method": method,
        "label": method.upper(),
        "kind": kind,
        "task": "t",
        "target": "own",
        "home": "own",
        "seed": seed,
        "budget": None if kind == "fixed" else BUDGET,
        "trained": "weights",
        "frozen": "target",
        "scope": "all texts",
        "spent": ()
        if kind == "fixed"
        else (Spend("search" if kind == "searched" else "train", "target", amount, amount),),
        "curve": (),
        "trials": trials,
    }
    return MethodRun(**(values | changes))


@pytest.fixture
def runs():
    """Learned costs 600 before use and 6 + 10 a use, searched 200 and 36; two seeds each, one of the fixed one."""
    return [
        run("l", "learned", 1, (1, 1, 1, 0), spent=500, generator=6, held_out=("y",)),
        run("l", "learned", 2, (1, 1, 0, 1), spent=700, generator=6, held_out=("y",)),
        run("s", "searched", 1, (1, 0, 0, 0), spent=200, target=36),
        run("s", "searched", 2, (1, 1, 0, 0), spent=200, target=36),
        run("f", "fixed", 0, (0, 0, 0, 1)),
    ]


def only(comparison):
    (group,) = comparison.groups
    return group


def test_means_over_seeds_families_and_questions(runs):
    group = only(compare(runs, "f"))
    learned = group.standing("l")
    assert learned.score.mean == 0.75  # questions 1, 1, 1/2, 1/2
    assert learned.equal_weight == pytest.approx((5 / 6 + 1 / 2) / 2)
    assert learned.by_family == pytest.approx({"x": 5 / 6, "y": 1 / 2})
    assert (learned.spread.means, learned.spread.deviation) == ((0.75, 0.75), 0.0)
    searched = group.standing("s")
    assert searched.spread.means == (0.25, 0.5)
    assert searched.spread.deviation == pytest.approx(0.25 / 2**0.5)
    assert [item.method for item in group.standings] == ["l", "s", "f"]


def test_spend_is_per_seed_and_use_holds_generator_and_target(runs):
    group = only(compare(runs, "f"))
    learned = group.standing("l")
    assert (learned.before_use, learned.use_cost, learned.target_cost) == (600, 16, 10)
    assert (group.standing("s").before_use, group.standing("s").use_cost) == (200, 36)
    assert group.standing("f").before_use == 0


def test_pairs_count_rescued_and_regressed_questions(runs):
    group = only(compare(runs, "f"))
    found = {(pair.ours, pair.theirs): pair.difference for pair in group.pairs}
    assert set(found) == {("l", "s"), ("l", "f"), ("s", "f")}
    assert (found["l", "s"].interval.mean, found["l", "s"].rescued, found["l", "s"].regressed) == (0.375, 3, 0)
    assert (found["l", "f"].rescued, found["l", "f"].regressed) == (3, 1)
    assert group.against_baseline("f", "f") is None


def test_break_even_against_the_search_and_never_against_a_free_one(runs):
    """(600 - 200) / (36 - 16) = 20; seeds give 500, 600 or 700 before use, so 15 to 25."""
    search, fixed = only(compare(runs, "f")).crossings
    assert (search.result.verdict, search.result.uses) == ("from", 20)
    assert (search.result.low, search.result.high) == (15, 25)
    assert (fixed.other, fixed.result.verdict, fixed.result.uses) == ("f", "never", None)


def test_the_front_holds_what_nothing_else_beats(runs):
    front = {item.method: item.on_front for item in only(compare(runs, "f")).standings}
    assert front == {"l": True, "s": False, "f": True}


def test_one_seed_gives_no_interval_over_seeds_and_is_read_over_questions(runs):
    several = {(pair.ours, pair.theirs): pair for pair in only(compare(runs, "f")).pairs}
    assert several
    assert all(pair.over_seeds is not None for pair in several.values())  # the fixed one has nothing to draw
    alone = {(pair.ours, pair.theirs): pair for pair in only(compare([runs[0], runs[2], runs[4]], "f")).pairs}
    assert set(alone) == set(several)
    assert all(pair.over_seeds is None for pair in alone.values())
    assert all(pair.widest == pair.difference.interval for pair in alone.values())


def test_below_best_is_significantly_below_the_best_score(runs):
    """l scores 1, 1, 1/2, 1/2; one that is right nowhere is below it on every question, s on three of four."""
    runs.append(run("z", "fixed", 0, (0, 0, 0, 0)))
    below = {item.method: item.below_best for item in only(compare(runs, "f")).standings}
    assert below == {"l": False, "s": False, "f": False, "z": True}


def test_held_out_families_and_second_targets_are_two_figures(runs):
    away = run("l", "learned", 1, (1, 0, 0, 0), spent=500, generator=6, held_out=("y",), target=10)
    group = only(compare([*runs, replace(away, target="other")], "f"))
    learned = group.standing("l")
    assert (learned.seen.mean, learned.seen.n, learned.unseen.mean, learned.unseen.n) == (
        pytest.approx(5 / 6),
        3,
        0.5,
        1,
    )
    assert group.standing("s").unseen is None
    (transfer,) = group.transfers
    assert (transfer.target, transfer.seeds, transfer.score.n) == ("other", (1,), 3)
    assert (transfer.score.mean, transfer.home.mean) == (pytest.approx(1 / 3), 1.0)  # of family x; y is the other axis
    assert (transfer.difference.rescued, transfer.difference.regressed) == (0, 2)
    assert learned.score.mean == 0.75  # the second target did not move it


def test_curves_average_over_seeds_on_validation_alone(runs):
    def at(spent, score, split="validation"):
        return Point(Amount(prompt_tokens=spent), score, "step", split)

    runs[2] = replace(runs[2], curve=(at(10, 0.2), at(100, 0.6)))
    runs[3] = replace(runs[3], curve=(at(50, 0.4), at(60, 0.9, "test")))
    bands = only(compare(runs, "f")).standing("s").curve
    assert [(b.spent, b.mean, b.low, b.high) for b in bands] == [
        (50, pytest.approx(0.3), 0.2, 0.4),
        (100, pytest.approx(0.5), 0.4, 0.6),
    ]


def test_tasks_are_pooled_and_weighted_equally(runs):
    others = [replace(item, task="u", trials=item.trials[:1]) for item in runs]
    found = {item.method: item for item in compare([*runs, *others], "f").overall}
    assert found["l"].pooled.mean == pytest.approx(4 / 5)  # 3 of 4 questions, and 1 of 1
    assert found["l"].equal_weight == pytest.approx((3 / 4 + 1) / 2)
    assert found["l"].tasks == 2


def test_budgets_make_groups_and_fixed_contenders_stand_in_each(runs):
    larger = [replace(item, budget=TotalBudget("large", "tokens", 5000)) for item in runs[:4]]
    groups = compare([*runs, *larger], "f").groups
    assert [(group.budget_name, len(group.standings)) for group in groups] == [("large", 3), ("small", 3)]


def test_fewer_than_three_seeds_are_no_headline(runs):
    assert compare(runs, "f").warnings == ("t, budget small: 2 seeds, not a headline; a result to quote needs 3.",)
    third = [replace(runs[0], seed=3), replace(runs[2], seed=3)]
    assert compare([*runs, *third], "f").warnings == ()


def test_price_and_seconds_are_units_too(runs):
    dollar = Price(1e6, 1e6)
    known = Amount(prompt_tokens=1, seconds=50.0, picodollars=3 * 10**12)
    priced = [
        replace(
            item,
            target_price=dollar,
            generator_price=dollar,
            spent=tuple(replace(spend, alone=known) for spend in item.spent),
        )
        for item in runs
    ]
    learned = only(compare(priced, "f", unit="price")).standing("l")
    assert (learned.before_use, learned.use_cost) == (3.0, 16.0)
    learned = only(compare(priced, "f", unit="seconds")).standing("l")
    assert (learned.before_use, learned.use_cost) == (50.0, 0.75)


def broken(runs, place, **changes):
    return [replace(item, **changes) if index == place else item for index, item in enumerate(runs)]


def lost(item):
    first = item.trials[0]
    return (replace(first, execution=replace(first.execution, outcome="infra_error", score=None)), *item.trials[1:])


def test_unequal_or_unknown_things_are_refused_by_name(runs):
    cases = {
        r"1 questions stand on one side only \(first: d\)": broken(runs, 2, trials=runs[2].trials[:3]),
        "field scope: 'one text' differs from 'all texts'": broken(runs, 2, scope="one text"),
        "field home: 'other' differs": broken(runs, 2, home="other"),
        "field budget: no limit": broken(runs, 2, budget=None),
        "field budget: spent 700 of 600 tokens": [
            replace(item, budget=TotalBudget("small", "tokens", 600)) if item.budget else item for item in runs
        ],
        "field budget: TotalBudget.* differs": broken(runs, 2, budget=TotalBudget("small", "tokens", 999)),
        "method s has no run with budget 'small' and seed 2": runs[:3] + runs[4:],
        "field spent: nothing before use": broken(runs, 2, spent=()),
        "the machine failed on 1 questions": broken(runs, 2, trials=lost(runs[2])),
        "the same run stands there twice": [*runs, runs[0]],
        "no contenders": [],
    }
    for message, contenders in cases.items():
        with pytest.raises(InputError, match=message):
            compare(contenders, "f")


def test_another_budget_name_is_another_budget(runs):
    with pytest.raises(InputError, match="method l has no run with budget 'other' and seed 1"):
        compare(broken(runs, 2, budget=TotalBudget("other", "tokens", 1000)), "f")


def test_a_missing_baseline_or_price_is_refused(runs):
    with pytest.raises(InputError, match=r"baseline 'g' has no run.*Fix: use one of f, l, s"):
        compare(runs, "g")
    with pytest.raises(InputError, match=r"field spent: unknown in price.*Fix: state the price"):
        compare(runs, "f", unit="price")


def test_a_transfer_without_its_home_is_refused(runs):
    with pytest.raises(InputError, match=r"method l was not scored on its own target with the seeds \[9\]"):
        compare([*runs, replace(runs[0], target="other", seed=9)], "f")


def test_the_order_of_runs_does_not_matter(runs):
    assert compare(runs, "f") == compare(list(reversed(runs)), "f")
