"""Bootstrap over programs: DSPy's own choices, bill, threshold, repeated calls, kills, limits."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from luthier.errors import InputError
from luthier.harnesses.program.dspy_export import to_dspy
from luthier.harnesses.program.harness import ProgramHarness
from luthier.ledger.budget import Budget
from luthier.methods import bootstrap
from luthier.methods.bootstrap import BootstrapParams
from luthier.search.demonstrations import reference_label
from luthier.task import Score
from tests.luthier.methods.two_modules import PROGRAM, Dying, World, phases, score

SMALL = BootstrapParams(candidates=3, max_bootstrapped=4, max_labelled=0, at_once=1)
ONE = ProgramHarness.parse(
    """
wiring: |
  answer = reply(question)
modules:
  reply: {inputs: [question], outputs: [answer], instruction: Reply.}
"""
)
TWICE = ProgramHarness.parse(
    """
wiring: |
  first = read(question, question)
  second = read(question, first)
  third = read(question, second)
  answer = decide(third)
modules:
  read: {inputs: [question, before], outputs: [note], instruction: Note the question.}
  decide: {inputs: [note], outputs: [answer], instruction: Decide.}
"""
)


@pytest.fixture
def worlds(tmp_path):
    """A maker of worlds in folders of their own."""
    return lambda name, **options: World(tmp_path / name, **options)


def counting(request) -> str:
    """Right when the question's number and the demonstrations shown add up to a multiple of 3."""
    shown = len(request.prompt) // 2 - 1
    number = int(re.findall(r"number (\d+)", request.prompt[-1].content)[-1])
    return f"right {number}" if (number + shown) % 3 == 0 else "wrong"


def thrice(request) -> str:
    text = request.prompt[-1].content
    number = re.findall(r"number (\d+)", text)[-1]
    if text.endswith("Answer:"):
        return f"right {number}"
    return (
        f"{text.count('again') + 1}: number {number} again" if "again" not in text else f"number {number} again again"
    )


@pytest.mark.extras
@pytest.mark.parametrize(
    ("program", "answer", "label", "max_labelled"),
    [(PROGRAM, None, None, 0), (ONE, counting, reference_label, 5), (ONE, counting, None, 0)],
    ids=["two modules", "labels", "no labels"],
)
def test_it_makes_the_sets_and_scores_of_dspy(worlds, program, answer, label, max_labelled):
    """Both for real, over the same target: every candidate set, its demonstrations in order, its score per question."""
    dspy = pytest.importorskip("dspy", reason="dspy is not installed: pip install 'luthier[dspy]'")
    from benchmarks.dspy_engine import MeterEngine, ModuleAdapter, examples

    world = worlds("both", program=program, **({"answer": answer} if answer else {}))
    settings = SMALL.model_copy(update={"max_labelled": max_labelled})
    parts = world.parts(label=label)
    ours = world.search(bootstrap.build(settings, parts), seed=0)

    space: dict = {}
    exec(to_dspy(program).source, space)
    references = {question.text: question for question in (*world.train, *world.validation)}
    lm = dspy.LM("luthier/toy", engine=MeterEngine(world.meter(world.ledger(name="dspy"))), cache=False, num_retries=0)
    optimizer = dspy.BootstrapFewShotWithRandomSearch(
        metric=lambda example, made, trace=None: score(references[example.question], made.answer).value,
        max_bootstrapped_demos=settings.max_bootstrapped,
        max_labeled_demos=max_labelled,
        num_candidate_programs=settings.candidates,
        num_threads=1,
    )
    with dspy.context(lm=lm, adapter=ModuleAdapter()):
        found = optimizer.compile(
            space["Program"](), trainset=examples(world.train), valset=examples(world.validation)
        ).candidate_programs
    theirs = {item["seed"]: item for item in found}

    session = world.session(seed=0, name="sets")
    making = bootstrap.build(settings, parts).bootstrap
    sets = making.sets(session, settings.candidates + making.special)
    seeds = sorted(theirs)
    if not max_labelled:  # their labels-only set is then a second empty one, ours is left out
        seeds.remove(-2)
    for seed, shots in zip(seeds, sets, strict=True):
        for name, predictor in theirs[seed]["program"].named_predictors():
            fields = program.modules[name].fields
            wanted = [(demo.get("augmented", False), {k: demo[k] for k in fields}) for demo in predictor.demos]
            made = program.modules[name].outputs[0]
            got = [(s.source == "bootstrapped", {**dict(s.inputs), made: s.output}) for s in shots.get(name, ())]
            assert got == wanted, (seed, name)
        digest = session.start.with_shots(shots).digest
        row = next(row for row in ours.rows if row.phase == "validation" and row.candidate == digest)
        assert row.detail["scores"] == theirs[seed]["subscores"]
    assert any(len(shots) > 1 for made in sets for shots in made.values())
    assert ours.score == max(sum(theirs[seed]["subscores"]) for seed in seeds) / len(world.validation)


@pytest.mark.extras
@pytest.mark.parametrize(("program", "label", "max_labelled"), [(PROGRAM, None, 0), (ONE, reference_label, 5)])
@pytest.mark.parametrize("seed", [0, 7])
def test_one_stream_makes_the_sets_that_miprov2_makes(worlds, program, label, max_labelled, seed):
    """Both for real, over the same target: all demonstrations of all sets, in order."""
    dspy = pytest.importorskip("dspy", reason="dspy is not installed: pip install 'luthier[dspy]'")
    from dspy.teleprompt.utils import create_n_fewshot_demo_sets

    from benchmarks.dspy_engine import MeterEngine, ModuleAdapter, examples

    world = worlds("both", program=program, **({"answer": counting} if label else {}))
    making = replace(bootstrap.build(SMALL, world.parts(label=label)).bootstrap, max_labelled=max_labelled)
    ours = replace(making, one_stream=True).sets(world.session(seed=seed, name="sets"), 6)

    space: dict = {}
    exec(to_dspy(program).source, space)
    references = {question.text: question for question in world.train}
    lm = dspy.LM("luthier/toy", engine=MeterEngine(world.meter(world.ledger(name="dspy"))), cache=False, num_retries=0)
    with dspy.context(lm=lm, adapter=ModuleAdapter()):
        student = space["Program"]()
        theirs = create_n_fewshot_demo_sets(
            student,
            num_candidate_sets=6,
            trainset=examples(world.train),
            max_labeled_demos=max_labelled,
            max_bootstrapped_demos=SMALL.max_bootstrapped,
            metric=lambda example, made, trace=None: score(references[example.question], made.answer).value,
            teacher_settings={},
            rng=random.Random(seed),
        )
    for place, (name, _) in enumerate(student.named_predictors()):
        module = program.modules[name]
        wanted = [[{field: demo[field] for field in module.fields} for demo in demos] for demos in theirs[place]]
        got = [[{**dict(s.inputs), module.outputs[0]: s.output} for s in shots.get(name, ())] for shots in ours]
        assert got == wanted
        assert len({str(demos) for demos in got}) > 2, "the sets differ"


@pytest.mark.parametrize("selector", ["random_sets", "tpe"])
def test_the_bill_is_the_formula(worlds, selector):
    """(N + 3) V, and the bootstrap runs of N + 1 sets; here no run fills a set before the questions end."""
    world = worlds("bill", validation=60)
    settings = SMALL.model_copy(update={"selector": selector, "at_once": 16, "max_labelled": 1})
    label = {"read": lambda q: reference_label("read", q)}

    def labels(component, question):
        return label[component](question) if component in label else None

    result = world.search(bootstrap.build(settings, world.parts(label=labels)))
    assert result.reason == "finished"
    assert phases(result, "validation") == (settings.candidates + 3) * 60
    assert phases(result, "bootstrap") == (settings.candidates + 1) * len(world.train)
    assert world.spent().rollouts == phases(result, "validation") + phases(result, "bootstrap")
    assert world.spent().calls == 2 * world.spent().rollouts


def test_tpe_chooses_for_each_module(worlds):
    """Under the start's instruction demonstrations of `decide` only hurt; those of `read` do nothing."""
    world = worlds("tpe")
    result = world.search(
        bootstrap.build(SMALL.model_copy(update={"selector": "tpe", "candidates": 12}), world.parts())
    )
    assert result.score == 0.25
    validated = world.session().log._old
    assert len({row.candidate for row in validated if row.phase == "validation"}) > 6


@pytest.mark.parametrize(("threshold", "kept"), [(0.0, [0, 1, 2]), (1.0, [0, 4, 8])])
def test_a_threshold_of_zero_is_honoured(worlds, threshold, kept):
    world = worlds("threshold")
    search = bootstrap.build(SMALL.model_copy(update={"threshold": threshold}), world.parts())
    session = world.session()
    shots = search.bootstrap.bootstrapped(session, world.train, 3)["decide"]
    assert [dict(shot.inputs)["question"] for shot in shots] == [f"number {n}" for n in kept]


def test_a_module_called_several_times_gives_one_seeded_recorded_choice(worlds):
    taken = []
    for seed in (0, 0, 1, 2, 3):
        world = worlds(f"thrice {len(taken)}", program=TWICE, answer=thrice)
        result = world.search(bootstrap.build(SMALL, world.parts()), seed=seed)
        made = [row.detail for row in result.rows if row.outcome == "bootstrapped"]
        assert made
        for detail in made:
            shots = {item["question"]: item for item in detail["set"]["demonstrations"]["read"]}
            choices = {item["question"]: item for item in detail["choices"]}
            assert set(shots) == set(choices) == set(detail["questions"])
            for question, choice in choices.items():
                assert (choice["component"], choice["of"]) == ("read", 3)
                before = dict(shots[question]["inputs"])["before"]
                assert before.count("again") == choice["call"]
        taken.append([choice["call"] for detail in made for choice in detail["choices"]])
    assert taken[0] == taken[1]
    assert len({tuple(row) for row in taken}) > 2
    assert {call for row in taken for call in row} == {0, 1, 2}


@pytest.mark.parametrize("selector", ["random_sets", "tpe"])
def test_twice_and_killed_anywhere_give_the_same_log_and_bill(worlds, selector):
    settings = SMALL.model_copy(update={"selector": selector, "at_once": 4})
    whole, again = worlds("whole"), worlds("again")
    results = [world.search(bootstrap.build(settings, world.parts())) for world in (whole, again)]
    assert whole.log() == again.log()
    assert whole.bill() == again.bill()
    calls = whole.target.calls
    for at in (1, calls // 3, calls - 2):
        killed = worlds(f"killed {at}")
        search = bootstrap.build(settings, killed.parts())
        with pytest.raises(KeyboardInterrupt):
            killed.search(search, target=Dying(killed.target, at))
        assert killed.search(search).best == results[0].best
        assert killed.log() == whole.log()
        assert killed.bill() == whole.bill()


def test_no_limit_is_passed_and_what_was_found_counts(worlds):
    world = worlds("free")
    free = world.search(bootstrap.build(SMALL, world.parts()))
    for limit in (0, 7, 8, 9, 40, 70, world.spent().rollouts - 1):
        stopped = worlds(f"limit {limit}")
        result = stopped.search(bootstrap.build(SMALL, stopped.parts()), Budget(rollouts=limit))
        assert stopped.spent().rollouts <= limit
        assert "rollouts" in result.reason
        assert result.score == (0.25 if limit >= 8 else None)
        rows = [row.candidate for row in result.rows[:-1]]
        assert rows == [row.candidate for row in free.rows[: len(rows)]]


def test_instructions_alone_are_refused_before_anything_is_paid(worlds):
    for selector in ("random_sets", "tpe"):
        world = worlds(selector)
        search = bootstrap.build(SMALL.model_copy(update={"selector": selector}), world.parts())
        with pytest.raises(InputError, match=r"instructions only.*demonstrations: true"):
            world.search(search, demonstrations=False)
        assert world.target.calls == 0


def test_a_metric_that_gives_no_number_is_one_error(worlds):
    world = worlds("broken", metric=lambda question, answer: Score(float("nan")))
    with pytest.raises(InputError, match=r"question \w+: the metric gave nan, not a number from 0 to 1"):
        world.search(bootstrap.build(SMALL, world.parts()))
