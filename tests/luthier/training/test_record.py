"""The base model's folder, and the line that each step prints."""

from __future__ import annotations

import pytest

from luthier.errors import InputError
from luthier.training.record import base_folder, progress_line


def test_a_local_folder_is_taken_as_it_is(tmp_path):
    assert base_folder(str(tmp_path), tmp_path / "cache") == tmp_path


def test_a_missing_folder_names_field_and_fix(tmp_path):
    with pytest.raises(InputError, match=r"profile: field generator.model: no folder 'nowhere'. Fix: use 'embedded'"):
        base_folder("nowhere", tmp_path)


def test_each_step_is_one_line_with_its_numbers_and_the_time_left(capsys):
    seconds = iter([100.0, 103.0, 106.0, 109.0])  # the first step needs 100 s, the others 3 s
    show = progress_line("sft", lambda: next(seconds))
    show({"loss": 1.5, "step": 1.0, "of": 4.0, "completions/mean_length": 12.0})
    show({"train_runtime": 3.0})
    show({"loss": 1.0, "step": 2.0, "of": 4.0})
    show({"reward": 0.25, "flat_groups": 0.5, "step": 3.0, "of": 4.0})
    show({"loss": 1.0, "step": 4.0, "of": 4.0})
    assert capsys.readouterr().out.splitlines() == [
        "sft: step 1/4 loss 1.5 mean_length 12",
        "sft: step 2/4 loss 1 | 6 s left",
        "sft: step 3/4 reward 0.25 flat_groups 0.5 | 3 s left",
        "sft: step 4/4 loss 1 | 0 s left",
    ]


def test_a_resumed_training_measures_from_where_it_goes_on(capsys):
    seconds = iter([50.0, 54.0])
    show = progress_line("reinforce", lambda: next(seconds))
    show({"reward": 0.1, "step": 11.0, "of": 26.0})
    show({"reward": 0.1, "step": 12.0, "of": 26.0})
    assert capsys.readouterr().out.splitlines()[1].endswith("| 56 s left")
