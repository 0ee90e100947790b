"""MIPRO and MIPROv2 over programs: credit across modules, sizes, bill, kills, limits, the grounded proposer."""

from __future__ import annotations

import pytest

from luthier.errors import InputError, TargetError
from luthier.ledger.budget import Budget
from luthier.methods import mipro
from luthier.methods.mipro import MiproParams
from luthier.search.demonstrations import reference_label
from luthier.search.proposers.llm_proposer import ModelProposer
from luthier.search.tpe import default_trials
from luthier.targets.scripted import Fault, ScriptedTarget
from luthier.task import Score
from tests.luthier.methods.two_modules import KEY, Dying, World, phases

SMALL = MiproParams(sets=4, trials=6, max_bootstrapped=4, max_labelled=0)


@pytest.fixture
def worlds(tmp_path):
    """A maker of worlds in folders of their own."""
    return lambda name, **options: World(tmp_path / name, **options)


def is_optimal(candidate) -> bool:
    return KEY in candidate.text("read") and len(candidate.shots("decide")) >= 3


def coordinate_wise(session, space, validations: int) -> None:
    """One variable after the other, the best value stays: the same space and as many validations."""
    choice = [0] * len(space.variables)
    best = session.validate(session.start).mean
    left = validations - 1
    for place, (_, size) in enumerate(space.variables):
        for value in range(1, size):
            if left == 0:
                return
            left -= 1
            tried = [*choice[:place], value, *choice[place + 1 :]]
            mean = session.validate(space.candidate(session.start, tuple(tried))).mean
            if mean > best:
                best, choice = mean, tried


def test_it_finds_what_pays_only_together_and_beats_coordinate_wise_choice(worlds):
    for seed in range(3):
        world = worlds(f"joint {seed}")
        settings = MiproParams(sets=6, instructions=4, max_labelled=0)
        search = mipro.build(settings, world.parts())
        result = world.search(search, seed=seed)
        assert result.reason == "finished"
        assert result.score == 1.0
        assert is_optimal(result.best)
        session = world.session(seed=seed, name="coordinates")
        space = search.plan(session).space(session)
        coordinate_wise(session, space, 1 + search.trials(2, True))
        assert session.best_score == 0.25
        assert session.best == session.start


@pytest.mark.parametrize(
    ("version", "demonstrations", "modules", "instructions", "trials"),
    [("v2", True, 2, 3, 20), ("v2", False, 2, 6, 10), ("v1", True, 1, 3, 10), ("v1", False, 4, 6, 20)],
)
def test_sizes_follow_the_published_rules(worlds, version, demonstrations, modules, instructions, trials):
    search = mipro.build(MiproParams(version=version), worlds("rules").parts())
    assert search.instructions(demonstrations) == instructions
    assert search.trials(modules, demonstrations) == trials
    assert trials == default_trials(modules * (1 + demonstrations), 6)


@pytest.mark.parametrize(
    ("version", "validation", "trials", "rollouts"),
    [("v2", 50, 3, 50 * 4), ("v2", 52, 6, 52 + 35 * 6 + 2 * 52), ("v1", 40, 5, 40 + 35 * 5 + 40), ("v1", 20, 1, 60)],
)
def test_the_bill_is_the_formula_and_what_bootstrap_and_grounding_cost(worlds, version, validation, trials, rollouts):
    world = worlds("bill", validation=validation)
    settings = SMALL.model_copy(update={"version": version, "trials": trials})
    result = world.search(mipro.build(settings, world.parts()))
    planned = next(row.detail for row in result.rows if row.outcome == "planned")
    searched = phases(result, "validation") + phases(result, "minibatch")
    assert planned["rollouts"] == searched == rollouts
    # Four sets: none, unshuffled and two shuffled bootstraps; one new instruction of two.
    assert phases(result, "bootstrap") == 3 * len(world.train)
    assert phases(result, "grounding") == mipro.GROUNDING_BATCH
    assert world.spent().rollouts == rollouts + 3 * len(world.train) + mipro.GROUNDING_BATCH
    assert world.spent().calls == 2 * world.spent().rollouts
    assert planned["note"].startswith("close to random search")


def test_without_demonstrations_in_the_scope_only_instructions_change(worlds):
    world = worlds("instructions")
    result = world.search(mipro.build(SMALL, world.parts()), demonstrations=False)
    assert result.reason == "finished"
    assert phases(result, "bootstrap") == 0
    assert all(not row.detail.get("candidate", {}).get("demonstrations") for row in result.rows)
    assert result.score == 0.25


def test_nothing_to_choose_is_an_end(worlds):
    world = worlds("nothing")
    settings = SMALL.model_copy(update={"instructions": 1, "sets": 1})
    result = world.search(mipro.build(settings, world.parts()))
    assert (result.reason, result.score) == ("finished", 0.25)
    assert world.spent().rollouts == len(world.validation)


def test_random_choice_runs_the_same_schedule(worlds):
    world = worlds("random")
    settings = SMALL.model_copy(update={"selector": "random"})
    result = world.search(mipro.build(settings, world.parts()))
    tpe = worlds("tpe")
    tpe.search(mipro.build(SMALL, tpe.parts()))
    assert result.reason == "finished"
    assert world.spent().rollouts == tpe.spent().rollouts
    chosen = [[row.candidate for row in w.session().log._old if row.phase == "validation"] for w in (world, tpe)]
    assert chosen[0] != chosen[1]


def test_seeds_differ_and_zero_is_one(worlds):
    logs = []
    for seed in (0, 0, 9):
        world = worlds(f"seed {len(logs)}")
        world.search(mipro.build(SMALL, world.parts()), seed=seed)
        logs.append([row.candidate for row in world.session(seed=seed).log._old if row.event == "evaluate"])
    assert logs[0] == logs[1]
    assert logs[0] != logs[2]


def test_twice_and_killed_anywhere_give_the_same_log_and_bill(worlds):
    whole, again = worlds("whole"), worlds("again")
    results = [world.search(mipro.build(SMALL, world.parts())) for world in (whole, again)]
    assert whole.log() == again.log()
    assert whole.bill() == again.bill()
    calls = whole.target.calls
    for at in (3, calls // 3, calls - 2):
        killed = worlds(f"killed {at}")
        search = mipro.build(SMALL, killed.parts())
        with pytest.raises(KeyboardInterrupt):
            killed.search(search, target=Dying(killed.target, at))
        assert killed.search(search).best == results[0].best
        assert killed.log() == whole.log()
        assert killed.bill() == whole.bill()


def test_no_limit_is_passed_and_a_stop_keeps_the_best_so_far(worlds):
    world = worlds("free")
    free = world.search(mipro.build(SMALL, world.parts()))
    every = world.spent()
    for unit in ("rollouts", "calls", "completion_tokens", "prompt_tokens"):
        for share in (0.02, 0.3, 0.97):
            limit = int(every.get(unit) * share)
            stopped = worlds(f"{unit} {share}")
            result = stopped.search(mipro.build(SMALL, stopped.parts()), Budget(**{unit: limit}))
            assert stopped.spent().get(unit) <= limit
            assert unit in result.reason.replace(" ", "_")
            rows = [row.candidate for row in result.rows[:-1]]
            assert rows == [row.candidate for row in free.rows[: len(rows)]]
            if share > 0.1 and unit != "completion_tokens":  # 64 are reserved for each call, 3 are written
                assert result.score is not None


def test_a_budget_below_one_validation_is_a_counted_end(worlds):
    world = worlds("poor")
    result = world.search(mipro.build(SMALL, world.parts()), Budget(rollouts=len(world.validation) - 1))
    assert (result.score, result.best) == (None, world.binding.candidate())
    assert "rollouts" in result.reason
    assert world.spent().rollouts == 0


def test_no_training_questions_are_refused(worlds):
    with pytest.raises(InputError, match="field train: empty"):
        worlds("empty", train=0).session()


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        (lambda question, answer: 1 / 0, "the metric raised ZeroDivisionError"),
        (lambda question, answer: Score(float("nan")), "the metric gave nan"),
        (lambda question, answer: Score(2.0), r"the metric gave 2\.0"),
    ],
)
def test_a_broken_metric_is_one_error_and_its_repair_goes_on(worlds, metric, problem):
    world, whole = worlds("broken", metric=metric), worlds("whole")
    search = mipro.build(SMALL, world.parts())
    with pytest.raises(InputError, match=problem):
        world.search(search)
    world.metric = whole.metric
    whole.search(search)
    world.search(search, Budget(rollouts=whole.spent().rollouts))
    assert world.log() == whole.log()
    assert world.bill() == whole.bill()


# --- a model that proposes -----------------------------------------------------------------------------------


def writer(request) -> str:
    """Writes KEY for `read` and says what it was asked in each other call."""
    text = request.prompt[0].content
    if "Write the instruction" not in text:
        return f"<{text.split()[0]} {len(text.split())} words>"
    module = text.split("The module ")[1].split()[0]
    return f"```\n{KEY} I am {module}, of {len(text)} characters.\n```"


class Writing:
    """The world with a model as proposer; remembers what that was asked."""

    def __init__(self, world, *, faults=()):
        self.world, self.seen = world, []
        self.model = ScriptedTarget(self.write, name="writer", faults=faults)

    def write(self, request):
        self.seen.append(request.prompt[0].content)
        return writer(request)

    def search(self, settings=SMALL, budget=None, *, model=None, **options):
        ledger = self.world.ledger(budget)
        meter = self.world.meter(ledger, model or self.model, role="proposer", phase="propose")
        search = mipro.build(settings, self.world.parts(proposer=ModelProposer(meter)))
        return self.world.search(search, ledger=ledger, **options)


def test_a_model_is_grounded_in_data_program_and_demonstrations(worlds):
    world = worlds("model", train=23)
    writing = Writing(world)
    settings = SMALL.model_copy(update={"instructions": 3})
    result = writing.search(settings)
    views, modules, proposals = 3, 2, 2 * 2
    lines = [line for line in world.ledger().totals() if line.role == "proposer"]
    assert sum(line.alone.calls for line in lines) == len(writing.seen) == views + 1 + 1 + modules + proposals
    assert phases(result, "grounding") == 0
    tasks = [text for text in writing.seen if "Write the instruction" in text]
    for text in tasks:
        assert "<These" not in text  # summaries of views, not views
        assert "The data: <Several" in text
        assert "The program: <This" in text
        assert "Its part: <A" in text
    read = next(text for text in tasks if "The module read" in text)
    assert "question: number 0\n  -> quick note of 0  (score 1 of 1)" in read
    assert read.count("-> quick note") == 3
    assert "number 22\nAnswer: right 22" in next(text for text in writing.seen if "number 22" in text)
    assert result.outcomes == {"new": 4}
    assert result.score == 1.0


def test_with_scores_alone_the_model_sees_no_answer(worlds):
    writing = Writing(worlds("score"))
    writing.search(feedback="score")
    assert writing.seen
    for text in writing.seen:
        assert "right" not in text.replace("(nothing)", "").split("Runs of the module")[0]
        assert "note of" not in text


def test_a_search_with_a_model_killed_anywhere_ends_the_same(worlds):
    whole = Writing(worlds("whole"))
    whole.search()
    for at in range(0, whole.model.calls, 2):
        killed = Writing(worlds(f"killed {at}"))
        with pytest.raises(KeyboardInterrupt):
            killed.search(model=Dying(killed.model, at))
        killed.search()
        assert killed.world.log() == whole.world.log()
        assert killed.world.bill() == whole.world.bill()


def test_a_model_that_cannot_be_paid_ends_the_search_within_the_limit(worlds):
    free = Writing(worlds("free"))
    free.search()
    before = 2 * (8 + 3 * 16)  # one validation and three bootstraps, two calls each
    for calls in range(before, before + free.model.calls, 2):
        poor = Writing(worlds(f"poor {calls}"))
        result = poor.search(budget=Budget(calls=calls))
        assert poor.world.spent().calls == calls
        assert "calls" in result.reason
        assert result.score == 0.25


def test_a_machine_failure_ends_the_search_and_the_next_start_asks_again(worlds):
    writing = Writing(worlds("faulty"), faults=[Fault("error", at=frozenset({1}))])
    settings = SMALL.model_copy(update={"instructions": 3})
    with pytest.raises(TargetError, match="failed the proposer"):
        writing.search(settings)
    result = writing.search(settings)
    assert result.outcomes == {"new": 4}
    assert result.reason == "finished"


def test_labels_are_used_where_there_are_some(worlds):
    world = worlds("labels")

    def label(component, question):
        return reference_label(component, question) if component == "read" else None

    settings = SMALL.model_copy(update={"max_labelled": 6})
    result = world.search(mipro.build(settings, world.parts(label=label)))
    made = [row.detail["set"]["demonstrations"] for row in result.rows if row.outcome == "bootstrapped"]
    assert {item["source"] for shots in made for item in shots["decide"]} == {"bootstrapped"}
    assert any(item["source"] == "labelled" for shots in made for item in shots["read"])
