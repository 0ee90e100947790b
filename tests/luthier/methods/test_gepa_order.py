"""No run of GEPA depends on the order of hashes, which the package's merge would."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from luthier.harnesses.prompt import PromptHarness
from luthier.methods.gepa import GepaSearch
from luthier.search.candidate import Candidate
from luthier.search.contracts import TextDraft
from luthier.search.selectors import NotWorse
from luthier.target import Request
from luthier.targets.scripted import prompt_text
from tests.luthier.methods.gepa_world import Bench, asked


@dataclass(frozen=True)
class Dice:
    name: str = "dice"

    def propose(self, parent, component, evidence, *, rng, purpose):
        return TextDraft(f"{component} {rng.random():.6f}")


def lottery(folder: Path) -> str:
    """The log of a run on a landscape of chance with six components, many equal means and merges of them."""

    def drawn(request: Request) -> str:
        text = prompt_text(request)
        number = asked(text)[1]
        return f"right {number}" if hashlib.sha256(text.encode()).digest()[0] < 110 else "wrong"

    bench = Bench(folder, drawn, train=24, validation=8)
    bench.components = tuple(f"part {letter}" for letter in "fabedc")
    bench.start = Candidate.make({name: f"{name} start" for name in bench.components})
    bench.build = lambda candidate: PromptHarness.parse(" ".join(t for _, t in candidate.texts) + " {question}")
    bench.search(GepaSearch(Dice(), acceptance=NotWorse(), iterations=40, merges=20))
    return bench.log()


def merge_of(numbered: bool) -> list[str]:
    """The texts that the package's merge takes of two equally good candidates that differ in eleven components."""
    from random import Random

    from gepa.proposer.merge import sample_and_attempt_merge_programs_by_common_predictors as merge

    keys = list(range(12)) if numbered else [f"part {letter}" for letter in "abcdefghijkl"]
    start = dict.fromkeys(keys, "start")
    one, two = ({**dict.fromkeys(keys, name), keys[0]: first} for name, first in (("one", "start"), ("two", "two")))
    made = merge([0.1, 0.5, 0.5], Random(0), [1, 2], ([], []), [start, one, two], [[None], [0], [0]])
    return [made[0][key] for key in keys]


def printed(call: str, hash_seed: int) -> str:
    """What a call prints in a process of its own."""
    script = f"import pathlib, test_gepa_order; print(test_gepa_order.{call})"
    env = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True).stdout


def test_numbers_free_the_package_s_merge_from_the_order_of_hashes():
    """With names it depends on PYTHONHASHSEED, which is why it is given numbers."""
    assert len({printed("merge_of(False)", seed) for seed in (1, 2)}) == 2
    assert len({printed("merge_of(True)", seed) for seed in (1, 2)}) == 1


def test_every_merge_ends_accepted_or_rejected(tmp_path):
    rows = [json.loads(line) for line in lottery(tmp_path / "one").splitlines()]
    ends = [row["outcome"] for place, row in enumerate(rows) if place > 1 and rows[place - 2]["outcome"] == "merged"]
    assert set(ends) == {"accepted", "rejected"}
    assert all(rows[place + 1]["phase"] == "merge" for place, row in enumerate(rows) if row["outcome"] == "merged")


def test_no_run_depends_on_the_order_of_hashes(tmp_path):
    logs = [printed(f"lottery(pathlib.Path({str(tmp_path / str(seed))!r}))", seed) for seed in (1, 2)]
    assert logs[0] == logs[1]
    assert logs[0].count('"merged"') >= 3
