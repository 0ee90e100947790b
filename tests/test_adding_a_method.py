"""docs/adding-a-method.md is true: its example, added as the page says, is taught, trained and scored."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from benchmarks.method_touches import LIST, NAME, OWN, PHASES, PROFILE, add_method, touched
from benchmarks.workspace import copy_project, environment

SETTINGS = """
target: { engine: scripted, model: "2" }
limits: { steps: 20, visits: 4, calls: 8, tokens: 4000 }
questions: { train: 17, validation: 17, test: 17 }
grid: { configurations: [direct, gcd, sort-words], train: 17, validation: 17 }
evaluate: { resamples: 200 }
cheapest:
  generator: { model: MODEL, max_tokens: 10 }
  sft: { learning_rate: 1.0e-2, batch: 4, epochs: 2, precision: fp32 }
"""


@pytest.mark.slow
def test_the_example_touches_its_file_the_list_and_the_pipeline_and_nothing_else(tmp_path, tiny_base):
    folder = copy_project(tmp_path / "copy", profile="smoke")
    add_method(folder)
    assert touched(folder) == {str(path) for path in (OWN, LIST, PHASES, PROFILE)}
    (folder / PROFILE).write_text(SETTINGS.replace("MODEL", str(tiny_base)))
    for stage in ("code", "questions", "grid", "teach", "sft", "evaluate"):
        method = ["--method", NAME] if stage in ("teach", "sft", "evaluate") else []
        told = subprocess.run(
            [sys.executable, "-m", f"stages.{stage}", *method],
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            text=True,
        )
        assert told.returncode == 0, f"{stage}: {told.stderr}"
    code = json.loads((folder / f"data/code/sft/{NAME}.json").read_text())["modules"]
    assert f"luthier.methods.{NAME}" in code
    assert "luthier.methods.mas_architect" not in code
    scores = json.loads((folder / f"data/evaluate/{NAME}/scores.json").read_text())
    lookups = {"nearest_row", "router"}
    assert {"sft", "target_alone", "best_fixed", *lookups} <= {*scores["test"]}
    opponents = {name.removeprefix("sft_minus_") for name in scores["differences"]}
    assert opponents - lookups == {"best_fixed", "target_alone"}
    assert len(opponents & lookups) == 1, "beside every trained checkpoint stands the best lookup"
    record = json.loads((folder / f"models/sft/{NAME}/training.json").read_text())
    assert (record["method"], record["phase"]) == (NAME, "sft")
