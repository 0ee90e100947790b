from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.scorer_fuzz import case_changing, cases, fuzz, sandboxed, tried
from luthier.tasks import TASKS
from luthier.tasks.benchmarks import options


def test_no_mutated_answer_makes_a_scorer_raise_or_wait(tmp_path: Path) -> None:
    assert fuzz(400, 11, tmp_path) == []


def test_every_scorer_and_every_case_changing_letter_is_tried(tmp_path: Path) -> None:
    assert {case.task for case in cases(tmp_path)} == set(TASKS)
    assert {"İ", "ı", "ſ", "K", "ß", "ﬁ", "ΐ"} <= set(case_changing())


def test_the_fuzz_finds_the_fault_it_is_made_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "_LETTERED", re.compile(r"\(?([a-z])\)?", re.IGNORECASE))
    (case,) = (case for case in cases(tmp_path) if case.task == "mmlu")
    failure = tried(case, "İ")
    assert failure is not None
    assert failure.problem.startswith("ValueError")


@pytest.mark.slow
def test_the_judge_of_programs_never_raises_for_an_answer(tmp_path: Path) -> None:
    assert sandboxed(5, 11, tmp_path) == []
