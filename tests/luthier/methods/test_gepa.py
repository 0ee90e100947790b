"""GEPA on programs whose landscape is known: what it finds, what it pays, and how it ends."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from luthier.errors import InputError, TargetError
from luthier.ledger.budget import Budget
from luthier.methods import gepa as method
from luthier.methods.gepa import GepaParams, GepaSearch, build
from luthier.search.candidate import Candidate
from luthier.search.contracts import TextDraft
from luthier.search.parts import Parts
from luthier.search.proposers.grammar import GrammarProposer
from luthier.search.reflective import Reflective
from luthier.search.selectors import Beam, NotWorse, SelectBest
from luthier.target import Request
from luthier.targets.scripted import prompt_text
from tests.luthier.methods.gepa_world import BINDING, Bench, Fork, OneHalf, asked, forked, halves, questions
from tests.luthier.search.mortal import KilledError, Mortal


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path / "one")


@pytest.fixture
def benches(tmp_path):
    return lambda name, *args, **options: Bench(tmp_path / name, *args, **options)


def made(proposer, **settings):
    return build(GepaParams(**settings), Parts(BINDING, proposer))


MERGING = GepaSearch(OneHalf(), iterations=16)
LIMIT = Budget(rollouts=150)


@pytest.mark.parametrize("engine", ["gepa", "own"])
def test_merge_joins_what_no_lineage_has_alone(benches, engine):
    merged = benches("merged").search(made(OneHalf(), engine=engine, merge=True), LIMIT)
    alone = benches("alone").search(made(OneHalf(), engine=engine, merge=False), LIMIT)
    assert merged.score == 1.0
    assert "alpha" in merged.best.text("left")
    assert "beta" in merged.best.text("right")
    assert alone.score == 0.375
    halves_digests = {row.candidate for row in merged.rows if row.event == "propose" and row.outcome == "new"}
    assert len(merged.best.parents) == 2
    assert set(merged.best.parents) <= halves_digests


def test_a_merge_is_logged_with_its_texts_and_tested_on_five_validation_questions(bench):
    result = bench.search(MERGING)
    (step,) = [row.step for row in result.rows if row.outcome == "merged"]
    made_of, test, accepted, full = result.rows[step : step + 4]
    assert Candidate.from_row(made_of.detail["child"]) == result.best
    assert (test.phase, len(test.detail["questions"]), test.detail["full"]) == ("merge", 5, False)
    assert set(test.detail["questions"]) <= {question.id for question in bench.validation}
    assert accepted.outcome == "accepted"
    assert (full.phase, full.detail["full"], full.best) == ("validation", True, 1.0)


@pytest.mark.parametrize("engine", ["gepa", "own"])
def test_the_pareto_front_leaves_the_trap_that_the_best_stays_in(benches, engine):
    found = {}
    for selector in ("pareto", "best"):
        bench = benches(selector, forked)
        bench.components = ("right",)
        search = made(Fork(), engine=engine, selector=selector, merge=False)
        found[selector] = bench.search(search, Budget(rollouts=200), seed=4).score
    assert found == {"pareto": 1.0, "best": 0.375}


@pytest.mark.parametrize("selector", ["beam", "latest"])
def test_every_selector_goes_with_the_package(bench, selector):
    result = bench.search(made(GrammarProposer(), selector=selector, acceptance="not_worse"), Budget(rollouts=120))
    assert result.reason.startswith("rollouts")
    assert result.outcomes["new"] > 3


def test_the_demonstrations_stay_as_they_are(bench):
    result = bench.search(MERGING)
    assert result.best.shots("left") == bench.start.shots("left") != ()


def test_proposers_read_the_module_s_own_calls(bench):
    seen = []

    class Reader:
        name = "reader"

        def propose(self, parent, component, evidence, *, rng, purpose):
            seen.append((component, evidence))
            return TextDraft(f"{purpose}")

    bench.search(made(Reader(), iterations=2))
    by_component = dict(seen)
    assert [name for name, _ in seen] == ["left", "right"]
    assert all(item.output == "blind" and len(item.inputs) == 1 for item in by_component["left"])
    assert all(dict(item.inputs)["first"] == "blind" for item in by_component["right"])
    assert {len(items) for _, items in seen} == {3}
    assert "expected 'right" in by_component["right"][0].feedback


def test_a_score_of_zero_everywhere_does_not_break_the_draw_of_an_ancestor(benches, monkeypatch):
    def hard(request: Request) -> str:
        return "wrong" if " kind 2" in prompt_text(request) else halves(request)

    def search(name):
        bench = benches(name, hard)
        bench.train = [question for question in bench.train if "kind 2" not in question.text]
        bench.validation = [question for question in questions("validation", 12, 104) if "kind 2" not in question.text]
        return bench.search(GepaSearch(OneHalf(), Beam(4), iterations=40))

    result = search("guarded")
    assert result.rows[1].best == 0.0
    assert result.score == 1.0
    monkeypatch.setattr(method, "FLOOR", 0.0)
    with pytest.raises(ValueError, match="Total of weights"):
        search("bare")


def test_twice_gives_equal_logs_and_bills(benches):
    pair = [benches(name) for name in ("a", "b")]
    for bench in pair:
        bench.search(made(OneHalf()), Budget(prompt_tokens=4000, completion_tokens=4000))
    assert pair[0].log() == pair[1].log()
    assert pair[0].bill() == pair[1].bill()


def test_seeds_differ(benches):
    logs = []
    for seed in (0, 1):
        bench = benches(str(seed))
        bench.search(MERGING, seed=seed)
        logs.append([row["detail"].get("questions") for row in map(json.loads, bench.log().splitlines())])
    assert logs[0] != logs[1]


@pytest.fixture(scope="module")
def free(tmp_path_factory):
    """The end of a search that no budget stopped."""
    return Bench(tmp_path_factory.mktemp("free")).search(MERGING)


@pytest.mark.parametrize(
    "limits",
    [
        *({"rollouts": n} for n in (0, 7, 8, 13, 14, 94, 95, 102, 103)),
        *({"calls": n} for n in (15, 16, 55)),
        *({"prompt_tokens": n} for n in (100, 2500)),
        *({"completion_tokens": n} for n in (100, 300)),
    ],
)
def test_no_limit_is_overshot_by_one_call_and_what_was_found_counts(benches, free, limits):
    limited = benches("limited")
    result = limited.search(MERGING, Budget(**limits))
    ((unit, allowed),) = limits.items()
    assert limited.spent(unit) <= allowed
    assert result.reason.startswith(f"{unit}: {allowed} allowed")
    steps = len(result.rows) - 1
    assert result.rows[:-1] == free.rows[:steps]
    assert steps < len(free.rows) - 1
    assert result.score == free.rows[steps - 1].best


OWN = build(GepaParams(engine="own", iterations=16), Parts(BINDING, OneHalf()))


@pytest.mark.parametrize(
    ("search", "batch"), [*((MERGING, batch) for batch in (1, 3, 20, 38)), (OWN, 20)], ids=lambda value: str(value)[:4]
)
def test_killed_in_an_evaluation_and_resumed_ends_as_if_it_had_not_been(benches, search, batch):
    whole, killed = benches("whole"), benches("killed")
    expected = whole.search(search)
    mortal = Mortal(killed.target, batch)
    with pytest.raises(KilledError):
        killed.search(search, target=mortal)
    assert killed.log() != whole.log()
    assert killed.search(search, target=mortal) == expected
    assert killed.log() == whole.log()
    assert killed.bill() == whole.bill()
    assert killed.target.calls == whole.target.calls


@pytest.mark.parametrize("step", [2, 4, 14, 49, 51])
def test_killed_after_any_step_and_resumed_goes_on(benches, step):
    whole, killed = benches("whole"), benches("killed")
    whole.search(MERGING)
    killed.search(MERGING)
    path = killed.folder / "run.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:step]) + lines[step][:30])
    killed.search(MERGING)

    # The ledger is not rewound, so rows after the cut hold the final spend; all else is equal.
    def without_spend(log):
        return [{name: value for name, value in row.items() if name != "spent"} for row in map(json.loads, log)]

    assert without_spend(killed.log().splitlines()) == without_spend(whole.log().splitlines())
    assert killed.bill() == whole.bill()


def test_a_larger_budget_goes_on_where_the_smaller_one_stopped(benches):
    whole, grown = benches("whole"), benches("grown")
    whole.search(MERGING, Budget(rollouts=70))
    for rollouts in (9, 30, 70):
        grown.search(MERGING, Budget(rollouts=rollouts))
    assert grown.log() == whole.log()
    assert grown.bill() == whole.bill()


@pytest.mark.parametrize(
    ("draft", "outcome"),
    [(TextDraft(""), "empty"), (TextDraft("Left."), "repeated"), (TextDraft("word " * 500), "too-long")],
    ids=["empty", "repeated", "too long"],
)
@pytest.mark.parametrize("engine", ["gepa", "own"])
def test_unusable_proposals_are_counted_cost_no_child_and_the_search_ends(bench, engine, draft, outcome):
    class Same:
        name = "same"

        def propose(self, parent, component, evidence, *, rng, purpose):
            return draft

    bench.components = ("left",)
    result = bench.search(made(Same(), engine=engine), Budget(rollouts=50))
    # 8 for the start, then the parent's 3 each time.
    assert bench.spent("rollouts") == 50
    assert result.outcomes == {outcome: (50 - 8) // 3}
    assert result.score == 0.25


@pytest.mark.parametrize("error", [TargetError("down"), ValueError("defect")], ids=["machine", "defect"])
def test_errors_of_a_proposer_are_not_swallowed_by_the_package(bench, error):
    calls = []

    class Broken:
        name = "broken"

        def propose(self, parent, component, evidence, *, rng, purpose):
            calls.append(purpose)
            raise error

    with pytest.raises(type(error)) as raised:
        bench.search(GepaSearch(Broken()), LIMIT)
    assert raised.value is error
    assert len(calls) == 1


def test_a_proposer_that_fails_ends_the_search(bench):
    class Silent:
        name = "silent"

        def propose(self, parent, component, evidence, *, rng, purpose):
            return TextDraft("", "no answer")

    with pytest.raises(TargetError, match="failed the proposer, calls without an answer: 1, the last one: no answer"):
        bench.search(GepaSearch(Silent()), LIMIT)
    assert bench.spent("rollouts") == 8 + 3


def test_a_perfect_mini_batch_is_not_edited(benches):
    bench = benches("perfect", lambda request: f"right {asked(prompt_text(request))[1]}")
    result = bench.search(GepaSearch(OneHalf(), iterations=5))
    assert (result.score, dict(result.outcomes)) == (1.0, {})
    assert bench.spent("rollouts") == 8 + 5 * 3


def test_mini_batches_that_do_not_divide_the_questions_are_paid_in_full(benches):
    """The package pads an epoch of 4 to 6 with the last question, so that it stands twice in a mini-batch."""
    bench = benches("padded", train=4)
    result = bench.search(GepaSearch(OneHalf(), iterations=2))
    batches = [row.detail["questions"] for row in result.rows if row.phase == "minibatch"]
    assert {len(batch) for batch in batches} == {3}
    assert any(len(set(batch)) == 2 for batch in batches)
    rollouts = sum(len(row.detail["questions"]) for row in result.rows if row.event == "evaluate")
    assert bench.spent("rollouts") == rollouts


def test_a_search_without_an_end_is_refused(bench):
    with pytest.raises(InputError, match="no end"):
        bench.search(GepaSearch(OneHalf()))


def test_a_replay_with_other_settings_is_refused(bench):
    bench.search(MERGING)
    with pytest.raises(InputError, match="differs from the logged one"):
        bench.search(replace(MERGING, merges=0))


def test_settings_choose_engine_and_parts():
    assert isinstance(made(OneHalf()), GepaSearch)
    own = made(OneHalf(), engine="own", merge=False, selector="beam", width=2, acceptance="not_worse", batch=5)
    assert isinstance(own, Reflective)
    assert (own.selector, own.acceptance, own.batch, own.name) == (Beam(2), NotWorse(), 5, "gepa")
    best = made(OneHalf(), selector="best", merge=False, iterations=7)
    assert (best.selector, best.merges, best.iterations) == (SelectBest(), 0, 7)
