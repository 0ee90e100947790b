import random

import pytest

from luthier.execution import Execution, Step
from luthier.ledger.budget import Amount
from luthier.search.candidate import Candidate
from luthier.search.contracts import Evaluation, Scope
from luthier.search.demonstrations import Bootstrap, RandomSets, reference_label
from luthier.search.log import SearchLog
from luthier.search.session import Session


def ids(shots):
    return [item.question for item in shots]


def test_labels_only_is_the_sample_of_dspy(toy):
    session = toy.session(demonstrations=True)
    shots = Bootstrap(max_labelled=5).labelled(session)["prompt"]
    assert ids(shots) == [question.id for question in random.Random(0).sample(toy.train, 5)]
    assert shots[0].source == "labelled"
    assert [item.output for item in shots] == [q.reference for q in random.Random(0).sample(toy.train, 5)]


def test_it_takes_successes_in_order_until_there_are_enough(toy):
    """Without a fitting instruction only kind 3 succeeds: questions 3 and 7, and 7 is the last that runs."""
    session = toy.session(demonstrations=True)
    shots = Bootstrap(max_labelled=0).bootstrapped(session, toy.train, 2)["prompt"]
    assert [(item.inputs, item.output, item.source) for item in shots] == [
        ((("question", "kind 3 number 3"),), "right 3", "bootstrapped"),
        ((("question", "kind 3 number 7"),), "right 7", "bootstrapped"),
    ]
    assert toy.ledger().spent("alone").rollouts == 8


@pytest.mark.parametrize(("at_once", "rollouts"), [(1, 4), (3, 6), (12, 12)])
def test_more_at_once_costs_at_most_that_many_more(toy, at_once, rollouts):
    session = toy.session(demonstrations=True)
    shots = Bootstrap(max_labelled=0, at_once=at_once).bootstrapped(session, toy.train, 1)["prompt"]
    assert [item.output for item in shots] == ["right 3"]
    assert toy.ledger().spent("alone").rollouts == rollouts


def test_a_threshold_of_zero_is_honoured(toy):
    session = toy.session(demonstrations=True)
    shots = Bootstrap(max_labelled=0, threshold=0.0).bootstrapped(session, toy.train, 3)["prompt"]
    assert ids(shots) == [question.id for question in toy.train[:3]]


def test_labels_fill_up_from_the_questions_that_were_not_used(toy):
    session = toy.session(demonstrations=True)
    shots = Bootstrap(max_bootstrapped=2, max_labelled=6).bootstrapped(session, toy.train, 2)["prompt"]
    assert [item.source for item in shots] == ["bootstrapped"] * 2 + ["labelled"] * 4
    assert len(set(ids(shots))) == 6


def test_a_run_never_sees_its_own_demonstration(toys):
    """The target copies any demonstration of the question itself: with leave-one-out it finds none to copy."""
    prompts = []

    def spying(request):
        prompts.append(request.prompt[0].content)
        return "x"

    toy = toys("spy", answer=spying)
    session = toy.session(demonstrations=True)
    shown = session.start.with_shots(Bootstrap(max_labelled=12).labelled(session))
    session.evaluate(shown, toy.train, "minibatch")
    assert len(prompts) == 12
    for prompt, question in zip(prompts, toy.train, strict=True):
        assert f"{question.text} ->" not in prompt
        assert prompt.count(" -> ") == 11


def test_sets_are_those_of_dspy_under_seed_0(toy):
    session = toy.session(demonstrations=True)
    sets = Bootstrap(max_bootstrapped=3, max_labelled=2).sets(session, 5)
    assert sets[0] == {}
    assert sets[1] == Bootstrap(max_labelled=2).labelled(session)
    assert [item.output for item in sets[2]["prompt"]] == ["right 3", "right 7", "right 11"]
    assert len(sets) > 3
    for number, shots in enumerate(sets[3:]):
        order, size = list(toy.train), random.Random(number).randint(1, 3)
        random.Random(number).shuffle(order)
        right = [question.id for question in order if question.text.startswith("kind 3")][:size]
        assert ids(shots["prompt"])[:size] == right
    assert Bootstrap(max_bootstrapped=0, max_labelled=0).sets(session, 5) == [{}]


@pytest.mark.parametrize("seed", [0, 7])
def test_one_stream_draws_the_sets_of_miprov2(toy, seed):
    """Orders and sizes out of one `Random(seed)`; without labels the second set is a shuffled one."""
    session = toy.session(demonstrations=True, seed=seed)
    sets = Bootstrap(max_bootstrapped=3, max_labelled=0, one_stream=True).sets(session, 6)
    stream, drawn = random.Random(seed), []
    for _ in range(4):
        order = list(toy.train)
        stream.shuffle(order)
        size = stream.randint(1, 3)
        drawn.append([question.id for question in order if question.text.startswith("kind 3")][:size])
    assert sets[0] == {}
    assert [item.output for item in sets[2]["prompt"]] == ["right 3", "right 7", "right 11"]
    assert [ids(shots["prompt"]) for shots in (sets[1], *sets[3:])] == drawn


def test_one_stream_keeps_labels_only_where_there_are_labels(toy):
    session = toy.session(demonstrations=True)
    sets = Bootstrap(max_bootstrapped=3, max_labelled=2, one_stream=True).sets(session, 4)
    assert sets[:2] == [{}, Bootstrap(max_labelled=2).labelled(session)]
    order, stream = list(toy.train), random.Random(session.seed)
    stream.shuffle(order)
    size = stream.randint(1, 3)
    assert ids(sets[3]["prompt"])[:size] == [q.id for q in order if q.text.startswith("kind 3")][:size]


def test_random_search_returns_the_first_best_and_pays_for_each_set(toys):
    """Here a demonstration is all that matters, so every set with one is perfect and the first of them wins."""

    def copying(request):
        text = request.prompt[0].content
        return f"right {text.split()[-1]}" if " -> right" in text or "kind 3" in text.splitlines()[-1] else "wrong"

    toy = toys("copy", answer=copying)
    result = toy.search(RandomSets(Bootstrap(2, 1), candidates=2), demonstrations=True)
    rows = [row for row in result.rows if row.event == "evaluate" and row.detail["full"]]
    assert [row.best for row in rows][:2] == [0.25, 1.0]
    assert result.best.shots("prompt") == Bootstrap(2, 1).labelled(toy.session(demonstrations=True))["prompt"]
    bootstrap = sum(len(row.detail["questions"]) for row in result.rows if row.phase == "bootstrap")
    assert toy.ledger().spent("alone").rollouts == len(rows) * len(toy.validation) + bootstrap
    assert bootstrap <= 3 * len(toy.train)


class Looping:
    """Runs a program whose component `step` is called three times; costs nothing."""

    def __call__(self, candidate, questions, phase):
        trace = tuple(Step("step", "llm", {"question": f"call {n}"}, f"output {n}") for n in range(3))
        rows = [Execution(q.id, candidate.digest, "program", "t", 0, "ok", "a", 1.0, trace=trace) for q in questions]
        return Evaluation(candidate.digest, tuple(rows))

    def worst_case(self, candidate, questions, phase):
        return Amount()


def test_a_component_called_several_times_gives_one_seeded_choice(toy):
    start = Candidate.make({"step": "s"})
    outputs = []
    for seed in (*range(12), 0):
        log = SearchLog(toy.folder / f"loop {len(outputs)}.jsonl")
        scope = Scope(("step",), demonstrations=True)
        session = Session(start, scope, toy.train, toy.validation, Looping(), toy.ledger(), log, seed=seed)
        shots = Bootstrap(max_labelled=0).bootstrapped(session, toy.train, 4)["step"]
        assert len(shots) == 4
        outputs.append(tuple(item.output for item in shots))
    assert outputs[0] == outputs[-1]
    drawn = [output for row in outputs for output in row]
    # 52 draws: the last call half of the time (26, standard deviation 3.6), else one of the earlier two.
    assert 12 <= drawn.count("output 2") <= 40
    assert set(drawn) == {"output 0", "output 1", "output 2"}


def test_a_component_without_a_label_gets_none(toy):
    session = toy.session(demonstrations=True)
    assert Bootstrap(label=lambda component, question: None).labelled(session) == {"prompt": ()}
    assert reference_label("prompt", toy.train[0]).output == "right 0"
