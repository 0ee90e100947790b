"""Generators: constant ones cost nothing, seeded ones repeat, a model's failures become problems."""

from __future__ import annotations

import pytest

from luthier.generator import ConstantGenerator, HarnessRequest, ModelGenerator, Proposal, RandomGenerator
from luthier.harnesses import parse
from luthier.harnesses.pool.random_graph import random_graph
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.store import Store
from luthier.methods.mas_architect import clean_completion, generator_request
from luthier.question import Question
from luthier.target import Usage
from luthier.targets.scripted import Fault, ScriptedTarget

QUESTIONS = [Question.make(task="toy", text=f"number {i}", reference=f"secret {i}", split="test") for i in range(4)]
REQUESTS = [HarnessRequest.of(question) for question in QUESTIONS]


def test_a_constant_generator_costs_nothing():
    harness = parse("graph", "answer = direct(question)")
    generator = ConstantGenerator("best", harness)
    assert (generator.name, generator.kind) == ("best", "graph")
    assert generator.propose(REQUESTS) == [Proposal(harness.text, Usage(), "")] * 4
    assert generator.propose([]) == []


def test_a_random_generator_depends_on_its_seed_and_the_question_alone():
    generator = RandomGenerator("random", "graph", random_graph, seed=3)
    found = generator.propose(REQUESTS)
    assert RandomGenerator("random", "graph", random_graph, seed=3).propose(REQUESTS[::-1]) == found[::-1]
    assert RandomGenerator("random", "graph", random_graph, seed=4).propose(REQUESTS) != found
    assert all(parse("graph", proposal.text).text == proposal.text for proposal in found)
    assert {proposal.usage for proposal in found} == {Usage()}


@pytest.fixture
def store(tmp_path):
    with_store = Store(tmp_path / "store.sqlite")
    yield with_store
    with_store.close()


def model(store, *faults: Fault) -> tuple[ModelGenerator, Ledger, ScriptedTarget]:
    target = ScriptedTarget(lambda request: f" answer = direct(question) # {request.prompt} ", faults=faults)
    ledger = Ledger(store, run="r")
    meter = Meter(target, store, ledger, role="generator", account="test", method="m", phase="sft")
    return ModelGenerator("sft", "graph", meter, generator_request(48), clean_completion), ledger, target


def test_a_model_writes_one_harness_per_question_in_one_batch_and_pays(store):
    generator, ledger, target = model(store)
    found = generator.propose(REQUESTS)
    assert [f"number {i}\nHarness:" in proposal.text for i, proposal in enumerate(found)] == [True] * 4
    assert target.batches == [4]
    assert found[0].usage == Usage(1, 4, 8)
    assert [line.role for line in ledger.totals()] == ["generator"]
    assert ledger.spent("paid", "test").calls == 4
    assert not any("secret" in proposal.text for proposal in found), "the reference is not shown"


def test_failures_become_problems_of_their_own_question(store):
    generator, _, _ = model(store, Fault("error", pattern="number 2"))
    found = generator.propose(REQUESTS)
    assert [bool(proposal.problem) for proposal in found] == [False, False, True, False]
    assert (found[2].text, found[2].usage) == ("", Usage())
    assert "failed on purpose" in found[2].problem


def test_a_packet_of_questions_is_one_request(store):
    generator, _, target = model(store)
    packet = HarnessRequest("three failures: number 0, number 1, number 2", tuple(QUESTIONS[:3]))
    (proposal,) = generator.propose([packet])
    assert "three failures" in proposal.text
    assert target.batches == [1]
    drawn = RandomGenerator("random", "graph", random_graph, seed=3)
    assert drawn.propose([packet]) != drawn.propose([HarnessRequest(packet.text, tuple(QUESTIONS[1:]))])
