"""The base model's folder, and the line that each step prints."""

from __future__ import annotations

import re

import pytest

from luthier.errors import InputError
from luthier.training.record import base_folder, progress_line


def test_a_local_folder_is_taken_as_it_is(tmp_path):
    assert base_folder(str(tmp_path), tmp_path / "cache") == tmp_path


def test_a_missing_folder_names_field_and_fix(tmp_path):
    with pytest.raises(InputError, match=r"profile: field generator.model: no folder 'nowhere'. Fix: use 'embedded'"):
        base_folder("nowhere", tmp_path)


def test_each_step_is_one_line_with_its_numbers_and_the_time_left(capsys):
    show = progress_line("sft")
    show({"loss": 1.5, "step": 1.0, "of": 4.0, "completions/mean_length": 12.0})
    show({"train_runtime": 3.0})
    show({"reward": 0.25, "flat_groups": 0.5, "step": 4.0, "of": 4.0})
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"sft: step 1/4 loss 1.5 mean_length 12 \| \d+ s left", first)
    assert second == "sft: step 4/4 reward 0.25 flat_groups 0.5 | 0 s left"
