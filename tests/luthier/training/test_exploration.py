"""Distil, then explore, whole and small: a tiny model, the scripted target, the real executor, ledger and reward."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from luthier.execution import Execution, Limits
from luthier.executors.execute import Job, execute
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.store import Store
from luthier.methods import mas_architect
from luthier.question import Question
from luthier.rewards.tiered import TieredReward
from luthier.settings.training import ReinforceParams, SftParams
from luthier.targets.scripted import ScriptedTarget
from luthier.tasks.generated.mixed import MixedSuite
from luthier.training import checkpoint, policy_gradient, sft
from luthier.training.bill import LedgerBill
from luthier.training.sampler import Sampler
from tests.conftest import GRAPHS
from tests.luthier.training.bills import CONTEXT, bill_in, spent

BEST = {kind: f"a = words(question)\nb = sort(a)\nanswer = {kind}(b)" for kind in ("first", "last")}
"""The only graph of the grammar that is right: the words do not stand in alphabetical order."""


def asked(kind: str, words: str) -> Question:
    reference = sorted(words.split(", "))[0 if kind == "first" else -1]
    return Question.make(task="mixed", family=kind, text=f"{kind} of {words}", reference=reference, split="train")


QUESTIONS = {
    q.id: q for kind in ("first", "last") for words in ("b, a, d, c", "f, e, h, g") for q in [asked(kind, words)]
}
PROMPTS = {key: mas_architect.generator_prompt(question.text) for key, question in QUESTIONS.items()}


MAX_TOKENS = 10


def is_best(question: Question, text: str) -> bool:
    """By canonical text, so that another spelling of the same graph counts."""
    harness = mas_architect.as_harness(text)
    return harness.text == BEST[question.family]


def share_of_best(folder: Path, samples: int, temperature: float = 1.0) -> float:
    sampler = Sampler(*checkpoint.load(folder), max_tokens=MAX_TOKENS, temperature=temperature)
    drawn = sampler.sample(list(PROMPTS.values()), samples, seed=11)
    pairs = zip(QUESTIONS.values(), drawn, strict=True)
    hits = [is_best(question, sampler.text(sample)) for question, group in pairs for sample in group]
    return sum(hits) / len(hits)


@pytest.mark.slow
def test_exploration_raises_the_best_graph_from_chance_to_the_greedy_choice(tiny_base, tmp_path):
    rows = [sft.SftRow(prompt, graph) for prompt in PROMPTS.values() for graph in GRAPHS]
    taught = SftParams(learning_rate=2e-2, batch=24, epochs=100, precision="fp32")
    sft.train(
        rows,
        tiny_base,
        tmp_path / "sft",
        taught,
        seed=1,
        record={},
        scratch=tmp_path / "a",
        bill=bill_in(tmp_path / "a"),
    )
    chance = 1 / len(GRAPHS)
    assert share_of_best(tmp_path / "sft", 100) == pytest.approx(chance, abs=0.08)

    target = ScriptedTarget([(r"of ([a-z, ]+)\nWords:$", r"\1")], default="unknown")
    store = Store(tmp_path / "store.sqlite")
    ledger = Ledger(store, run="reinforce")

    def run(jobs: Sequence[Job], scope: str) -> list[Execution]:
        meter = Meter(target, store, ledger, role="target", account="train", method="m", phase="reinforce", scope=scope)
        return execute(jobs, MixedSuite().score, meter, Limits())

    explored = ReinforceParams(
        learning_rate=3e-3, batch=64, precision="fp32", steps=35, questions=4, samples=16, temperature=1.0,
        probe_samples=4, save_every=100,
    )  # fmt: skip
    judge = mas_architect.judge(QUESTIONS, run, MixedSuite().score, Limits(), TieredReward(), seed=1)
    curve = policy_gradient.train(
        PROMPTS, tmp_path / "sft", tmp_path / "rl", explored, max_tokens=MAX_TOKENS, seed=1, judge=judge, record={},
        scratch=tmp_path / "b", bill=LedgerBill(ledger, CONTEXT, "b", tmp_path / "b"),
    )  # fmt: skip
    assert curve[0]["correct"] < 0.4
    assert share_of_best(tmp_path / "rl", 100) > 0.85
    assert share_of_best(tmp_path / "rl", 1, temperature=1e-4) == 1.0
    assert ledger.spent("alone", "train").rollouts == 35 * 64 + 4 * 4
    assert spent(ledger)["reinforce update", "paid"][0] == 35
    store.close()
