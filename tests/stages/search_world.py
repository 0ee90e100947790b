"""The tiny project of the stages `search` and `compare`, on a target whose landscape is known."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from luthier.context import StageContext
from luthier.target import Request
from luthier.targets.scripted import Fault, ScriptedTarget, prompt_text
from stages import search
from stages.entry import Options
from tests.stages.conftest import ASK, PROFILE

SEARCHES = ("bootstrap", "mipro", "textgrad", "optoprime", "gepa")
FAMILIES = ("gcd", "lcm", "weekday")
SEARCH_ASK = ASK + f"searches: [{', '.join(SEARCHES)}]\ntask: {{ source: '{','.join(FAMILIES)}' }}\n"
SECTIONS = """
search:
  train: 9
  validation: 6
  bootstrap: { candidates: 2, max_labelled: 2, at_once: 4 }
  mipro: { sets: 3, instructions: 2, trials: 4, minibatch: 3, full_every: 2 }
  textgrad: { iterations: 4 }
  optoprime: { iterations: 4 }
  gepa: { iterations: 6 }
compare: { seeds: [17], unit: calls, budgets: [60, 300], resamples: 200 }
"""
SEARCH_PROFILE = (
    PROFILE.replace('model: "2"', "model: gcd")
    .replace("train: 17, validation: 17, test: 17 }", "train: 12, validation: 6, test: 6, held_out: 2 }", 1)
    .replace("steps: 2,", "steps: 2, milestones: [1],")
    + SECTIONS
)
"""On its own scripted engine the target says `gcd` to everything, which is right for the router on one family."""


def reply(request: Request) -> str:
    """Routes gcd; lcm with "small steps" or "whole question" in its instruction, weekday with a demonstration."""
    text = prompt_text(request)
    before, _, asked = text.rpartition("Question:")
    if re.search("LCM|least common", asked):
        return "lcm" if "small steps" in before or "whole question" in before else "gcd"
    if re.search("divisor", asked, re.IGNORECASE):
        return "gcd"
    return "weekday" if re.search(r"\d", before) else "gcd"


class Landscape(StageContext):
    """A context whose target is `reply`, with faults."""

    faults: tuple[Fault, ...] = ()

    def open(self, settings: Any) -> ScriptedTarget:
        target = ScriptedTarget(reply, name="landscape", faults=self.faults)
        self.adopt(target)
        return target


def budgets(*values: float, unit: str = "calls") -> str:
    """The profile with these total budgets."""
    old = "unit: calls, budgets: [60, 300]"
    assert old in SEARCH_PROFILE
    return SEARCH_PROFILE.replace(old, f"unit: {unit}, budgets: [{', '.join(map(str, values))}]")


def search_landscape(method: str, *faults: Fault) -> dict[str, Any]:
    """Run the stage's work on the landscape; what result.json says for seed 17."""
    with Landscape("search", method) as context:
        context.faults = faults
        search.work(context, Options(method, False))
    return result(method)


def result(method: str, seed: int = 17) -> dict[str, Any]:
    """What the stage wrote."""
    return dict(json.loads((search.OUT / method / str(seed) / "result.json").read_text()))


def log(method: str, seed: int = 17) -> list[dict[str, Any]]:
    """The rows of log.jsonl."""
    lines = (search.OUT / method / str(seed) / "log.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def bill(method: str) -> list[tuple[Any, ...]]:
    """What the searches of this folder's store cost uncached, without seconds."""
    with StageContext("search", method) as context:
        runs = [run for run in context.ledger.runs() if run.startswith(f"search@{method}/")]
        return [
            (line.account, line.role, line.phase, line.alone.rollouts, line.alone.calls, line.alone.prompt_tokens)
            for line in context.ledger.totals(runs)
        ]


def write_project(folder: Path, ask: str = SEARCH_ASK, profile: str = SEARCH_PROFILE) -> Path:
    """The settings in a folder."""
    (folder / "profiles").mkdir(parents=True, exist_ok=True)
    (folder / "params.yaml").write_text(ask)
    (folder / "profiles" / "tiny.yaml").write_text(profile)
    return folder
