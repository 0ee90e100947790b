"""A whole project folder at its smallest, on the scripted target: every stage runs for real, without the model."""

from __future__ import annotations

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
