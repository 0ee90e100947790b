"""A whole project folder at its smallest, on the scripted target: every stage runs for real, without the model."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

ASK = "profile: tiny\nseed: 17\nmethods: [mas_architect]\n"
PROFILE = """
target: { engine: scripted, model: "2" }
limits: { steps: 20, visits: 4, calls: 8, tokens: 4000 }
questions: { train: 17, validation: 17, test: 17 }
grid: { configurations: [direct, gcd, sort-words], train: 17, validation: 17 }
mas_architect:
  generator: { model: MODEL, max_tokens: 10 }
  teach: { variations: 4, confirm: 1 }
  sft: { learning_rate: 1.0e-2, batch: 4, epochs: 2, precision: fp32 }
  reinforce:
    { learning_rate: 1.0e-3, batch: 8, precision: fp32, steps: 2, questions: 2, samples: 4, probe_samples: 0 }
evaluate: { resamples: 200 }
"""


@pytest.fixture
def project(tmp_path, monkeypatch) -> Callable[..., Path]:
    """A function (ask=, profile=) that writes the settings and makes the folder the working directory."""

    def write(ask: str = ASK, profile: str = PROFILE) -> Path:
        (tmp_path / "profiles").mkdir(exist_ok=True)
        (tmp_path / "params.yaml").write_text(ask)
        (tmp_path / "profiles" / "tiny.yaml").write_text(profile)
        monkeypatch.chdir(tmp_path)
        return tmp_path

    return write


@pytest.fixture(scope="session")
def drawn(tmp_path_factory) -> Path:
    """The questions of the project of `tests.stages.search_world`, drawn once."""
    from stages import questions
    from stages.entry import run_stage
    from tests.stages.search_world import write_project

    folder = write_project(tmp_path_factory.mktemp("drawn"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run_stage("questions", questions.work, []) == 0
    return folder / "data" / "questions"


@pytest.fixture
def begin(drawn, tmp_path, monkeypatch) -> Callable[..., Path]:
    """A function (name, ask=, profile=) that makes a project with these questions the working directory."""
    from tests.stages.search_world import SEARCH_ASK, SEARCH_PROFILE, write_project

    def make(name: str = "project", ask: str = SEARCH_ASK, profile: str = SEARCH_PROFILE) -> Path:
        folder = write_project(tmp_path / name, ask, profile)
        shutil.copytree(drawn, folder / "data" / "questions", dirs_exist_ok=True)
        monkeypatch.chdir(folder)
        return folder

    return make
