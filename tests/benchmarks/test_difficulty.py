from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks import record
from benchmarks.difficulty import DRAWERS, Draw, demonstrations_gain, draw_all, measure, report
from luthier.harnesses import parse
from luthier.question import Question
from luthier.target import Request
from luthier.targets.scripted import ScriptedTarget
from luthier.tasks import open_task


def whole(request: Request) -> str:
    return request.prompt if isinstance(request.prompt, str) else "\n".join(m.content for m in request.prompt)


@pytest.mark.parametrize("name", sorted(DRAWERS))
def test_draws_are_valid_seeded_and_differ(name: str) -> None:
    train = open_task(name).questions("train", 200, 0)
    draws = draw_all(name, train, 8, 0)
    again = draw_all(name, train, 8, 0)
    assert len(draws) == 8 * len(DRAWERS[name][1])
    assert [draw.harness.digest for draw in draws] == [draw.harness.digest for draw in again]
    assert len({draw.harness.digest for draw in draws if draw.demonstrations}) == sum(
        d.demonstrations > 0 for d in draws
    )
    for draw in draws:
        assert draw.harness.text.count("out:") % max(draw.demonstrations, 1) == 0
        assert ("out:" in draw.harness.text) == (draw.demonstrations > 0)


def test_a_reader_of_passages_scores_and_a_mute_one_does_not() -> None:
    task = open_task("twohop", "birth_region")
    questions = task.questions("validation", 10, 0)
    bridges = {q.text: q.metadata["_gold"]["bridge"] for q in questions}

    def able(request: Request) -> str:
        asked = whole(request).rsplit("Question: ", 1)[1].split("\n")[0]
        if whole(request).rstrip().endswith("Look up:"):
            return bridges[asked]
        return re.findall(r"region of (\w+)", whole(request))[0]

    draws = draw_all("twohop", task.questions("train", 50, 0), 2, 0)[:2]
    (first, _) = measure(task, draws, questions, ScriptedTarget(able, name="able"))
    assert list(first) == [q.id for q in questions]
    assert sum(first.values()) >= 9
    (mute, _) = measure(task, draws, questions, ScriptedTarget(lambda request: "", name="mute"))
    assert sum(mute.values()) == 0


def test_the_gain_is_chosen_on_one_half_and_read_on_the_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = [Question.make(task="toy", text=f"{n}", reference="x", split="validation") for n in range(4)]
    harness = parse("prompt", "Answer.")
    draws = [Draw(0, harness), Draw(0, harness), Draw(4, harness), Draw(4, harness)]
    values = [(0, 0, 1, 1), (1, 0, 0, 0), (1, 1, 1, 0), (0, 1, 1, 1)]  # winners on the first half: second and third
    scores = [{q.id: float(v) for q, v in zip(questions, row, strict=True)} for row in values]
    held = [q.id for q in questions[2:]]
    assert demonstrations_gain(draws, scores, questions) == (
        {held[0]: 1.0, held[1]: 0.0},
        {held[0]: 0.0, held[1]: 0.0},
    )
    monkeypatch.setattr(record, "RESULTS", tmp_path / "results.jsonl")
    report("toy", draws, scores, questions)
    spread, gain = (json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines())
    assert (spread["name"], spread["value"], spread["ours"], spread["peer"]) == ("toy_spread", 50.0, 75.0, 25.0)
    assert (gain["name"], gain["value"], gain["n"]) == ("toy_demonstrations", 50.0, 2)
    assert "toy  4 demonstrations: 75.0 / 75.0 / 75.0" in capsys.readouterr().err
