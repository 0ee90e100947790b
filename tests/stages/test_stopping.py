"""A stop that is asked for in the middle of a stage, at the worst moment: while its last wave is under way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from luthier.files import read_rows
from luthier.stopping import STOP_FILE, STOPPED
from stages import grid, questions
from stages.entry import run_stage
from tests.luthier.targets.canned_server import Canned, answering, said
from tests.stages.conftest import PROFILE

QUESTIONS = 17
SCRIPTED = 'target: { engine: scripted, model: "2" }'


@pytest.mark.parametrize("way", ["SIGINT", "SIGTERM", "stop file"])
@pytest.mark.parametrize("last", [QUESTIONS, 2 * QUESTIONS])
def test_a_stop_in_the_last_wave_of_a_step_or_of_the_stage_is_obeyed(
    project: Callable[..., Path], capfd: pytest.CaptureFixture[str], way: str, last: int
) -> None:
    """`last` is the number of the call with which training questions, or the stage, are done."""
    answers = iter(range(1, 10_000))

    def reply(path: str, body: dict[str, Any]) -> Canned:
        if next(answers) == last:
            if way == "stop file":
                STOP_FILE.touch()
            else:
                os.kill(os.getpid(), signal.Signals[way])
        return said("2")

    with answering(reply) as server:
        target = f"target: {{ engine: openai, model: smol, base_url: '{server.url}' }}"
        project(profile=PROFILE.replace(SCRIPTED, target).replace("direct, gcd, sort-words", "direct"))
        assert run_stage("questions", questions.work, []) == 0
        assert run_stage("grid", grid.work, []) == STOPPED
        assert "grid: stopped on request; what was done is kept" in capfd.readouterr().err
        assert len(server.posts()) == last
        assert not Path("data/grid").exists()
        assert run_stage("grid", grid.work, []) == 0
        assert len(server.posts()) == 2 * QUESTIONS
    assert len(list(read_rows(Path("data/grid/executions.jsonl")))) == 2 * QUESTIONS


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stage_of_the_real_model_stops_with_its_own_status_and_goes_on(
    project: Callable[..., Path], number: signal.Signals
) -> None:
    """The signal comes with the first line of progress, while the model loads; the whole grid is one wave."""
    root = Path(__file__).resolve().parents[2]
    profile = PROFILE.replace(SCRIPTED, "target: { engine: openvino, model: embedded }")
    small = "configurations: [direct], train: 2, validation: 2"
    folder = project(
        profile=profile.replace("configurations: [direct, gcd, sort-words], train: 17, validation: 17", small)
    )
    (folder / ".cache").mkdir(exist_ok=True)
    (folder / ".cache" / "weights").symlink_to(root / ".cache" / "weights")
    assert run_stage("questions", questions.work, []) == 0
    command = [sys.executable, "-m", "stages.grid"]
    environment = os.environ | {"PYTHONPATH": str(root)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    told = ""
    while "0/2 done" not in told:
        line = process.stderr.readline()
        assert line, told
        told += line
    process.send_signal(number)
    told += process.stderr.read()
    assert process.wait() == STOPPED, told
    assert "stopping after this wave" in told
    assert "Traceback" not in told
    assert not Path("data/grid").exists()
    assert subprocess.run(command, env=environment, check=False, capture_output=True).returncode == 0
