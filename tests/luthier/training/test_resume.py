"""Resumable state: only whole checkpoints count, and a curve holds nothing that two equal runs could differ in."""

from __future__ import annotations

import pytest

from luthier.training.resume import ResumeFolder


@pytest.fixture
def folder(tmp_path):
    def add(step: int, state: str | None = "{}"):
        path = tmp_path / "scratch" / f"checkpoint-{step}"
        path.mkdir(parents=True)
        (path / "model.safetensors").write_text("weights")
        if state is not None:
            (path / "trainer_state.json").write_text(state)

    return tmp_path / "scratch", add


def test_the_newest_whole_checkpoint_is_resumed(folder):
    path, add = folder
    assert ResumeFolder(path).latest() is None
    add(9)
    add(10)
    assert ResumeFolder(path).latest() == str(path / "checkpoint-10")


@pytest.mark.parametrize("state", [None, "", '{"global_step": 1'])
def test_a_half_written_checkpoint_is_deleted(folder, state):
    path, add = folder
    add(10)
    add(20, state)
    assert ResumeFolder(path).latest() == str(path / "checkpoint-10")
    assert not (path / "checkpoint-20").exists()


def test_the_state_is_gone_after_clear(folder):
    path, add = folder
    add(1)
    ResumeFolder(path).clear()
    assert not path.exists()


@pytest.mark.parametrize(
    ("rows", "batch", "epochs", "steps"), [(24, 2, 1.0, 4), (25, 2, 1.0, 5), (24, 8, 0.5, 1), (170, 16, 2.0, 8)]
)
def test_a_training_is_saved_about_three_times(rows, batch, epochs, steps):
    assert ResumeFolder.interval(rows, batch, epochs) == steps


def test_a_curve_keeps_small_numbers_and_drops_times_and_speeds():
    history = [
        {"loss": 1.23456789, "learning_rate": 3.3333333e-07, "step": 1, "epoch": 0.5, "step_time": 3.2},
        {"reward": 0.5, "kl": None, "num_tokens": 17, "step": 2, "train_samples_per_second": 9.0, "note": "x"},
        {"train_loss": 0.9, "train_runtime": 12.0, "step": 2},
    ]
    assert ResumeFolder.curve(history) == [
        {"epoch": 0.5, "learning_rate": 3.33333e-07, "loss": 1.23457, "step": 1.0},
        {"reward": 0.5, "step": 2.0},
    ]


def test_without_a_reader_there_is_no_callback():
    assert ResumeFolder.callbacks(None) == []
