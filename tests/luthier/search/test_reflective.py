import json
from dataclasses import replace
from itertools import pairwise

import pytest

from luthier.errors import BudgetExhausted, InputError, TargetError
from luthier.ledger.budget import Budget, Price
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import Meter
from luthier.search.candidate import Candidate
from luthier.search.proposers.grammar import GrammarProposer
from luthier.search.proposers.llm_proposer import ModelProposer
from luthier.search.reflective import Reflective
from luthier.search.selectors import Beam, NotWorse, SelectBest
from luthier.targets.scripted import Fault, ScriptedTarget
from tests.luthier.search.mortal import KilledError, Mortal

GRAMMAR = Reflective(GrammarProposer(), iterations=30)
WHOLE = {"batch": 12}
TOKENS = Budget(prompt_tokens=4000, completion_tokens=2000)


def rows_of(log):
    return [json.loads(line) for line in log.splitlines()]


def test_it_finds_what_each_kind_of_question_needs(toy):
    result = toy.search(Reflective(GrammarProposer(), iterations=60))
    assert result.reason == "finished"
    assert result.rows[1].best == 0.25
    assert result.score == 1.0
    for part in ("only the answer", "whole question", "small steps"):
        assert part in result.best.text("prompt")


def test_the_curve_rises_and_is_dated_after_the_evaluation_that_proved_it(toy):
    result = toy.search(GRAMMAR)
    curve = result.curve("rollouts")
    assert curve[0] == (len(toy.validation), 0.25)
    assert len(curve) > 1
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(curve))
    spent = 0
    for row in result.rows:
        spent += len(row.detail["questions"]) if row.event == "evaluate" else 0
        assert row.spent.rollouts == row.spent.calls == spent


def test_twice_gives_equal_logs_and_bills(toys):
    results = [toys(name) for name in ("a", "b")]
    for toy in results:
        toy.search(GRAMMAR, TOKENS)
    assert results[0].log() == results[1].log()
    assert results[0].bill() == results[1].bill()


def test_a_warm_store_gives_the_same_log_and_pays_nothing(toy):
    toy.search(GRAMMAR, TOKENS, name="cold")
    calls = toy.target.calls
    toy.search(GRAMMAR, TOKENS, name="warm")
    assert toy.target.calls == calls
    assert toy.log("cold") == toy.log("warm")
    assert toy.bill("cold") == toy.bill("warm")


def test_seeds_differ(toys):
    logs = [toys(str(seed)) for seed in (0, 1)]
    results = [toy.search(GRAMMAR, seed=seed) for seed, toy in enumerate(logs)]
    assert [row.candidate for row in results[0].rows] != [row.candidate for row in results[1].rows]


@pytest.mark.parametrize(
    "limits",
    [
        *({"rollouts": n} for n in (0, 7, 8, 13, 14, 29)),
        *({"calls": n} for n in (8, 31)),
        *({"prompt_tokens": n} for n in (10, 300, 999)),
        *({"completion_tokens": n} for n in (10, 300, 400)),
    ],
)
def test_no_limit_is_overshot_and_what_was_found_counts(toys, free, limits):
    limited = toys("limited")
    result = limited.search(GRAMMAR, Budget(**limits))
    (unit, allowed), *_ = limits.items()
    spent = limited.ledger().spent("alone")
    assert spent.get(unit) <= allowed
    assert result.reason.startswith(f"{unit}: {allowed} allowed")
    steps = len(result.rows) - 1
    assert result.rows[:-1] == free.rows[:steps]
    assert steps < len(free.rows) - 1
    assert (result.score is None) == (steps < 2)
    assert result.score == free.rows[steps - 1].best


def test_a_price_is_not_overshot_either(toy):
    ledger = Ledger(toy.store, Budget(price=0.02), run="run", prices={"target": Price(10.0, 10.0)}, counts="alone")
    result = toy.search(GRAMMAR, ledger=ledger)
    assert result.reason.startswith("price: 0.02 allowed")
    assert 0.01 < ledger.spent("alone").price <= 0.02
    assert result.curve("price")[-1][0] <= 0.02


def test_the_ledger_stops_a_search_behind_every_rule(toy):
    class Never:
        def reason(self, budget, spent, need, steps):
            return ""

    result = toy.search(GRAMMAR, Budget(rollouts=21), stopping=Never())
    assert "budget exhausted" in result.reason
    assert toy.ledger().spent("alone").rollouts == 21
    assert result.score == 0.25


@pytest.mark.parametrize("batch", [1, 2, 6, 13])
def test_killed_and_replayed_ends_as_if_it_had_not_been(toys, batch):
    whole, killed = toys("whole"), toys("killed")
    expected = whole.search(GRAMMAR, TOKENS)
    mortal = Mortal(killed.target, batch)
    with pytest.raises(KilledError):
        killed.search(GRAMMAR, TOKENS, target=mortal)
    assert len(rows_of(killed.log())) < len(rows_of(whole.log()))
    calls = killed.target.calls
    assert killed.search(GRAMMAR, TOKENS, target=mortal) == expected
    assert killed.log() == whole.log()
    assert killed.bill() == whole.bill()
    assert killed.target.calls == whole.target.calls > calls


def test_killed_between_the_payment_and_the_log(toys):
    whole, killed = toys("whole"), toys("killed")
    whole.search(GRAMMAR, TOKENS)
    killed.search(GRAMMAR, TOKENS)
    path = killed.folder / "run.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:9]) + lines[9][:40])
    killed.search(GRAMMAR, TOKENS)

    # The ledger of the whole run is not rewound, so the rows after the cut hold the final spend; all else is equal.
    def without_spend(log):
        return [{name: value for name, value in row.items() if name != "spent"} for row in rows_of(log)]

    assert without_spend(killed.log())[:10] == without_spend(whole.log())[:10]
    assert killed.bill() == whole.bill()


def test_a_larger_budget_goes_on_where_the_smaller_one_stopped(toys):
    whole, grown = toys("whole"), toys("grown")
    whole.search(GRAMMAR, Budget(rollouts=60))
    grown.search(GRAMMAR, Budget(rollouts=25))
    rows = grown.search(GRAMMAR, Budget(rollouts=60)).rows
    assert [row.spent.rollouts for row in rows] == sorted(row.spent.rollouts for row in rows)
    assert rows[1].spent.rollouts == len(grown.validation)
    assert grown.log() == whole.log()
    assert grown.bill() == whole.bill()


def test_a_smaller_budget_cannot_claim_what_a_larger_one_found(toy):
    toy.search(GRAMMAR, Budget(rollouts=60))
    with pytest.raises(InputError, match="the budget allows 25"):
        toy.search(GRAMMAR, Budget(rollouts=25))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_search_with_a_model_goes_on_as_if_it_had_not_stopped(toys, temperature):
    """The writer's text differs from prompt to prompt, and equal prompts at temperature 0 are paid each time."""

    def write(request):
        number = len(request.prompt[0].content) + request.seed
        return ("Write only the answer.", "Read the whole question.", "Take small steps.", "")[number % 4]

    logs, bills = [], []
    for name, budgets in (("whole", (90,)), ("grown", (20, 45, 90))):
        toy = toys(name)
        for rollouts in budgets:
            ledger = toy.ledger(Budget(rollouts=rollouts))
            writer = replace(proposer(toy, ledger, write), temperature=temperature)
            toy.search(Reflective(writer, SelectBest(), NotWorse(), batch=6), ledger=ledger)
        logs.append(toy.log())
        bills.append(toy.bill())
    assert logs[0] == logs[1]
    assert bills[0] == bills[1]
    assert logs[0].count('"propose"') > 5


def test_a_replay_with_other_settings_is_refused(toy):
    toy.search(GRAMMAR, Budget(rollouts=25))
    with pytest.raises(InputError, match="differs from the logged one"):
        toy.search(Reflective(GrammarProposer(), SelectBest(), iterations=30), Budget(rollouts=25))
    with pytest.raises(InputError, match="differs from the logged one"):
        toy.search(GRAMMAR, Budget(rollouts=25), seed=3)


@pytest.mark.parametrize(
    "search",
    [
        Reflective(GrammarProposer(), SelectBest(), iterations=40),
        Reflective(GrammarProposer(), Beam(4), NotWorse(), iterations=40),
        Reflective(GrammarProposer(), components="all", batch=5, iterations=40),
    ],
    ids=["best", "beam", "all"],
)
def test_other_parts_search_too(toy, search):
    assert toy.search(search).score > 0.25


@pytest.mark.parametrize(("components", "together"), [("round_robin", 1), ("all", 2)])
def test_components_are_edited_in_turn_or_together(toy, components, together):
    toy.start = Candidate.make({"first": "Read.", "second": "Answer."})
    result = toy.search(Reflective(GrammarProposer(), SelectBest(), components=components, iterations=12))
    proposals = [row for row in result.rows if row.event == "propose"]
    by_iteration, last = [], None
    for row in proposals:
        if last != row.step - 1:
            by_iteration.append([])
        by_iteration[-1].append(row.detail["component"])
        last = row.step
    if together == 2:
        assert all(names == ["first", "second"] for names in by_iteration)
    else:
        assert [names[0] for names in by_iteration] == (["first", "second"] * 6)[: len(by_iteration)]
    assert len(by_iteration) >= 6
    assert result.score > 0.25


def test_a_search_without_an_end_is_refused(toy):
    with pytest.raises(InputError, match="no end"):
        toy.search(Reflective(GrammarProposer()))


def proposer(session_toy, ledger, answer, faults=()):
    target = ScriptedTarget(answer, name="writer", faults=faults)
    meter = Meter(target, session_toy.store, ledger, role="proposer", account="search", method="m", phase="propose")
    return ModelProposer(meter, temperature=0.0)


def test_a_model_proposes_and_its_calls_are_in_the_bill(toy):
    ledger = toy.ledger(Budget(rollouts=80))
    writer = proposer(toy, ledger, lambda request: "Better:\n```\nWrite only the answer.\n```\n")
    result = toy.search(Reflective(writer, **WHOLE), ledger=ledger)
    assert result.score == 0.5
    assert result.best.text("prompt") == "Write only the answer."
    assert result.outcomes["new"] == 1
    assert result.outcomes["repeated"] > 1
    assert set(result.outcomes) == {"new", "repeated"}
    bill = {(role, phase): alone for _, role, phase, alone in toy.bill()}
    assert bill["proposer", "propose"].calls == sum(result.outcomes.values())
    assert bill["proposer", "propose"].prompt_tokens > 0


def test_empty_and_long_texts_are_outcomes_and_cost_no_rollout(toy):
    ledger = toy.ledger(Budget(rollouts=80))
    replies = iter(["", "```\n\n```", "word " * 500] + ["Write only the answer."] * 20)
    result = toy.search(Reflective(proposer(toy, ledger, lambda request: next(replies)), **WHOLE), ledger=ledger)
    assert result.outcomes["empty"] == 2
    assert result.outcomes["too-long"] == 1
    assert result.score == 0.5


def test_a_proposer_that_fails_ends_the_search_and_a_repaired_one_goes_on(toy):
    ledger = toy.ledger(Budget(rollouts=80))
    broken = proposer(toy, ledger, lambda request: "x", [Fault("error", pattern=".")])
    with pytest.raises(TargetError, match="failed the proposer, calls without an answer: 1, the last one: writer"):
        toy.search(Reflective(broken, **WHOLE), ledger=ledger)
    assert broken.meter.target.calls == 1
    again = toy.ledger(Budget(rollouts=80))
    result = toy.search(
        Reflective(proposer(toy, again, lambda request: "Write only the answer."), **WHOLE), ledger=again
    )
    assert "failed" not in result.outcomes
    assert result.score == 0.5


def test_a_machine_that_fails_a_question_ends_the_search_without_a_score(toys):
    toy = toys("broken", faults=[Fault("error", pattern="number 101")])
    with pytest.raises(TargetError, match="failed 1 of 8 executions"):
        toy.search(GRAMMAR)
    assert [row["event"] for row in rows_of(toy.log())] == ["start"]


def test_budget_errors_of_the_proposer_end_the_search_cleanly(toy):
    ledger = toy.ledger(Budget(completion_tokens=560))
    result = toy.search(Reflective(proposer(toy, ledger, lambda request: "word " * 80)), ledger=ledger)
    assert result.score == 0.25
    assert ledger.spent("alone").completion_tokens <= 560
    assert not isinstance(BudgetExhausted, Exception)
