"""Phase sft on a tiny real model: what the loss covers, that it learns, repeats, and survives a kill."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from luthier.settings.training import SftParams
from luthier.training import checkpoint, sft
from luthier.training.sft import SftRow
from tests.conftest import GRAPHS, PROMPTS
from tests.luthier.training.bills import bill_in, ledger_in, spent
from tests.luthier.training.likelihoods import log_probabilities

ROWS = [SftRow(prompt, graph) for graph in GRAPHS for prompt in PROMPTS]


class Killed(BaseException):
    """Stands for a process that ends in the middle."""


def settings(**changes) -> SftParams:
    values = {"learning_rate": 2e-3, "batch": 2, "epochs": 1.0, "precision": "fp32"}
    return SftParams(**{**values, **changes})


def train(base: Path, folder: Path, params: SftParams, rows=ROWS, kill_at: int = 0):
    def report(row):
        if row.get("step") == kill_at:
            raise Killed

    return sft.train(
        rows,
        base,
        folder / "out",
        params,
        seed=3,
        record={"phase": "sft"},
        scratch=folder / "scratch",
        bill=bill_in(folder),
        report=report,
    )


@pytest.mark.slow
def test_the_loss_covers_the_completion_and_the_end_token_and_nothing_else(tiny_base, tmp_path):
    """The first logged loss is the mean negative log-likelihood of those tokens, computed here without TRL."""
    model, tokenizer = checkpoint.load(tiny_base)
    long = SftRow("Question: " + "a b " * 600 + "\nHarness:\n", GRAPHS[3])
    rows = [*ROWS[:3], long]
    losses: list[float] = []
    for row in rows:
        losses += [-value for value in log_probabilities(model, tokenizer, row.prompt, row.completion)]
    assert len(tokenizer(long.prompt)["input_ids"]) > 1024, "no length cuts the harness off"
    curve = train(tiny_base, tmp_path, settings(batch=4), rows=rows)
    assert curve[0]["loss"] == pytest.approx(sum(losses) / len(losses), abs=1e-4)


@pytest.mark.slow
def test_five_steps_lower_the_loss(tiny_base, tmp_path):
    curve = train(tiny_base, tmp_path, settings(batch=4, epochs=5.0), rows=ROWS[:4])
    assert [row["step"] for row in curve] == [1, 2, 3, 4, 5]
    assert curve[-1]["loss"] < curve[0]["loss"] - 0.1


@pytest.mark.slow
def test_a_killed_training_goes_on_and_ends_with_the_same_bytes(tiny_base, tmp_path):
    whole = train(tiny_base, tmp_path / "whole", settings())
    with pytest.raises(Killed):
        train(tiny_base, tmp_path / "killed", settings(), kill_at=11)
    assert not (tmp_path / "killed" / "out").exists()
    kept = tmp_path / "killed" / "scratch" / "checkpoint-10"
    assert kept.is_dir()
    resumed = train(tiny_base, tmp_path / "killed", settings())
    again = train(tiny_base, tmp_path / "again", settings())
    assert whole == resumed == again
    digests = {checkpoint.digest(tmp_path / name / "out") for name in ("whole", "killed", "again")}
    assert len(digests) == 1
    assert not (tmp_path / "killed" / "scratch").exists()


@pytest.mark.slow
def test_every_token_of_an_update_is_entered_and_a_kill_changes_no_total(tiny_base, tmp_path):
    """Two epochs of 24 rows: each row's tokens twice, those of the harness and its end token apart."""
    _, tokenizer = checkpoint.load(tiny_base)
    read = sum(len(tokenizer(row.prompt)["input_ids"]) for row in ROWS)
    trained = sum(len(tokenizer(row.completion)["input_ids"]) + 1 for row in ROWS)
    train(tiny_base, tmp_path / "whole", settings(epochs=2.0))
    whole = spent(ledger_in(tmp_path / "whole"))
    expected = (len(ROWS), 2 * len(ROWS), 2 * read, 2 * trained)
    assert whole == {("reinforce update", "paid"): expected, ("reinforce update", "alone"): expected}
    with pytest.raises(Killed):
        train(tiny_base, tmp_path / "killed", settings(epochs=2.0), kill_at=11)
    train(tiny_base, tmp_path / "killed", settings(epochs=2.0))
    resumed = spent(ledger_in(tmp_path / "killed"))
    assert resumed["reinforce update", "alone"][1:] == expected[1:]
    assert resumed["reinforce update", "paid"][1] == 2 * len(ROWS) + 2, "step 11, of two rows, was done twice"
    assert (ledger_in(tmp_path / "killed").spent("alone").seconds or 0) > 0


@pytest.mark.slow
def test_a_batch_that_sixteen_does_not_divide_is_not_made_smaller(tiny_base, tmp_path):
    curve = train(tiny_base, tmp_path, settings(batch=24))
    assert [row["step"] for row in curve] == [1]


@pytest.mark.slow
def test_only_the_last_layers_change_when_asked(tiny_base, tmp_path):
    from safetensors.torch import load_file

    train(tiny_base, tmp_path, settings(layers=1, batch=24, learning_rate=0.1))
    before, after = load_file(tiny_base / "model.safetensors"), load_file(tmp_path / "out" / "model.safetensors")
    changed = {name for name in after if not before[name].half().equal(after[name])}
    assert set(after) == set(before)
    assert changed == {name for name in before if ".layers.1." in name or name == "model.norm.weight"}


LOGGED = """
import sys
import subprocess
import sys
from pathlib import Path
from tests.luthier.training.test_sft import settings, train, ROWS
train(Path(sys.argv[1]), Path(sys.argv[2]), settings(batch=4), rows=ROWS[:4])
"""


@pytest.mark.slow
def test_nothing_of_the_libraries_stands_in_the_log(tiny_base, tmp_path):
    command = [sys.executable, "-c", LOGGED, str(tiny_base), str(tmp_path)]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
