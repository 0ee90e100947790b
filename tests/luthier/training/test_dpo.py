"""Phase dpo on a tiny real model: the loss by hand, that it learns, repeats, pays, and survives a kill."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from luthier.settings.training import DpoParams
from luthier.training import checkpoint, dpo
from luthier.training.dpo import PreferenceRow
from tests.conftest import GRAPHS, PROMPTS
from tests.luthier.training.bills import bill_in, ledger_in, spent
from tests.luthier.training.likelihoods import log_probabilities

ROWS = [PreferenceRow(prompt, GRAPHS[0], graph) for graph in GRAPHS[1:4] for prompt in PROMPTS]


class Killed(BaseException):
    """Stands for a process that ends in the middle."""


def settings(**changes) -> DpoParams:
    return DpoParams(**{"learning_rate": 2e-3, "batch": 1, "epochs": 1.0, "precision": "fp32", **changes})


def train(base: Path, folder: Path, params: DpoParams, rows=ROWS, kill_at: int = 0):
    def report(row):
        if row.get("step") == kill_at:
            raise Killed

    return dpo.train(
        rows, base, folder / "out", params,
        seed=3, record={"phase": "dpo"}, scratch=folder / "scratch", bill=bill_in(folder), report=report,
    )  # fmt: skip


def margin(folder: Path, row: PreferenceRow) -> float:
    """log p(chosen) - log p(rejected), each over its tokens and the end token."""
    model, tokenizer = checkpoint.load(folder)
    chosen, rejected = (
        sum(log_probabilities(model, tokenizer, row.prompt, text)) for text in (row.chosen, row.rejected)
    )
    return chosen - rejected


@pytest.mark.slow
def test_the_loss_is_that_of_the_paper_and_falls(tiny_base, tmp_path):
    """At the start policy and reference agree, so the loss is log 2; after one step it is -log sigmoid(beta * gain)."""
    row = ROWS[0]
    curve = train(tiny_base, tmp_path, settings(beta=0.5, epochs=2.0), rows=[row])
    assert curve[0]["loss"] == pytest.approx(math.log(2), abs=1e-5)
    train(tiny_base, tmp_path / "one", settings(beta=0.5, epochs=1.0), rows=[row])
    gain = margin(tmp_path / "one" / "out", row) - margin(tiny_base, row)
    assert gain > 0, "the chosen text has gained on the rejected one"
    assert curve[1]["loss"] == pytest.approx(math.log(1 + math.exp(-0.5 * gain)), abs=1e-4)


@pytest.mark.slow
def test_more_steps_widen_the_margin(tiny_base, tmp_path):
    curve = train(tiny_base, tmp_path, settings(batch=4, epochs=4.0), rows=ROWS[:4])
    assert [row["step"] for row in curve] == [1, 2, 3, 4]
    assert curve[-1]["loss"] < curve[0]["loss"]
    assert margin(tmp_path / "out", ROWS[0]) > margin(tiny_base, ROWS[0])


@pytest.mark.slow
def test_a_killed_training_goes_on_and_ends_with_the_same_bytes(tiny_base, tmp_path):
    whole = train(tiny_base, tmp_path / "whole", settings())
    with pytest.raises(Killed):
        train(tiny_base, tmp_path / "killed", settings(), kill_at=11)
    assert not (tmp_path / "killed" / "out").exists()
    resumed = train(tiny_base, tmp_path / "killed", settings())
    assert whole == resumed
    assert checkpoint.digest(tmp_path / "whole" / "out") == checkpoint.digest(tmp_path / "killed" / "out")


@pytest.mark.slow
def test_both_texts_and_the_reference_are_paid(tiny_base, tmp_path):
    _, tokenizer = checkpoint.load(tiny_base)
    pairs = [(row.prompt, text) for row in ROWS for text in (row.chosen, row.rejected)]
    read = sum(len(tokenizer(prompt)["input_ids"]) for prompt, _ in pairs)
    trained = sum(len(tokenizer(text)["input_ids"]) + 1 for _, text in pairs)
    train(tiny_base, tmp_path, settings())
    paid = spent(ledger_in(tmp_path))
    assert paid["reinforce update", "paid"] == (len(ROWS), len(pairs), read, trained)
    assert paid["reinforce reference", "paid"] == (len(ROWS), len(pairs), read + trained, 0)
