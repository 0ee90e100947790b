"""Stage prefer with a method that asks the scripted target twice a question."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from luthier.context import StageContext
from luthier.files import read_rows
from luthier.method import MethodCard, Preferences
from luthier.methods import METHODS
from luthier.settings.base import Section
from luthier.settings.training import DpoParams, GeneratorParams
from luthier.target import Request
from stages import dpo, prefer, questions
from stages.entry import run_stage


class TwiceParams(Section):
    generator: GeneratorParams = GeneratorParams()
    dpo: DpoParams = DpoParams(learning_rate=1e-3, batch=1, epochs=1, precision="fp32")


class Twice:
    """Prefers the longer of two prompts; needs no generator, so it stands for any method with this phase."""

    card = MethodCard("twice", "Twice", "a test", "prompt", ("prefer", "dpo"), "t", "f", "o")
    section = TwiceParams
    keeps = True

    def prefer(self, context, asked):
        meter = context.meter("target", "data", split="train")
        answers = meter.complete([Request(f"{question.text} {word}", 4) for question in asked for word in ("a", "bb")])
        rows = [
            {
                "prompt": question.text,
                "chosen": "bb",
                "rejected": "a",
                "answers": [a.text for a in answers[2 * i : 2 * i + 2]],
            }
            for i, question in enumerate(asked)
        ]
        return Preferences(rows if self.keeps else [], {"asked": len(answers)})

    def forecast_prefer(self, context, asked):
        meter = context.meter("target", "data", split="train")
        return meter.forecast([Request(f"{question.text} {word}", 4) for question in asked for word in ("a", "bb")])

    def prompt(self, question):
        return question

    def generator(self, name, meter, context):
        raise AssertionError("nothing is trained here")


@pytest.fixture
def twice(project, monkeypatch) -> Twice:
    project(ask="profile: tiny\nseed: 17\nmethods: [twice]\n")
    method = Twice()
    monkeypatch.setitem(METHODS, "twice", method)
    assert run_stage("questions", questions.work, []) == 0
    return method


def run(*arguments: str) -> int:
    return run_stage("prefer", prefer.work, ["--method", "twice", *arguments], per_method=True)


def test_pairs_and_counts_are_written_and_the_forecast_is_what_is_asked(twice, capsys):
    assert run("--dry-run") == 0
    assert "34" in capsys.readouterr().out, "two calls for each of 17 questions"
    assert not Path("data/preferences").exists()
    assert run() == 0
    rows = list(read_rows(Path("data/preferences/twice/rows.jsonl")))
    assert len(rows) == 17
    assert {*rows[0]} == {"prompt", "chosen", "rejected", "answers"}
    assert json.loads(Path("data/preferences/twice/log.json").read_text()) == {"asked": 34, "rows": 17}


def test_no_pair_is_one_error_and_the_counts_stay(twice, capsys):
    twice.keeps = False
    assert run() == 1
    assert "data/preferences/twice/log.json: no preference row. Fix: ask more questions" in capsys.readouterr().err
    assert json.loads(Path("data/preferences/twice/log.json").read_text()) == {"asked": 34, "rows": 0}


def test_a_method_without_the_phase_is_refused(project, capsys):
    project()
    assert run_stage("prefer", prefer.work, ["--method", "mas_architect"], per_method=True) == 1
    assert "method 'mas_architect' is not Prefers" in capsys.readouterr().err


@pytest.mark.slow
def test_pairs_train_a_checkpoint_whose_cost_was_forecast(twice, tiny_base, capsys):
    profile = Path("profiles/tiny.yaml")
    kept = profile.read_text().split("mas_architect:")[0]
    profile.write_text(f"{kept}twice: {{ generator: {{ model: {tiny_base} }} }}\n")
    assert run() == 0
    assert run_stage("dpo", dpo.work, ["--method", "twice", "--dry-run"], per_method=True, trains=True) == 0
    told = capsys.readouterr().out
    assert "dpo: 17 pairs, 1 epochs, batch 1" in told
    assert run_stage("dpo", dpo.work, ["--method", "twice"], per_method=True, trains=True) == 0
    record = json.loads(Path("models/dpo/twice/training.json").read_text())
    assert (record["phase"], record["method"], record["rows"], len(record["curve"])) == ("dpo", "twice", 17, 17)
    assert record["parent"] == record["inputs"]["base"]
    with StageContext("dpo", "twice") as context:
        paid = {line.phase: line.paid.calls for line in context.ledger.totals()}
    assert paid == {"dpo update": 34, "dpo reference": 34}
    assert re.search(r"^calls\s+68\s", told.replace("  calls", "calls"), re.MULTILINE), "both models read both texts"
