"""Stages on broken servers: none ends well with a hole in its rows, and each goes on once the server is mended."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.broken_servers import Server, asked_of, holes
from stages import grid, questions, search, teach
from stages.entry import TRY_AGAIN, run_stage
from tests.stages.conftest import ASK, PROFILE

METHOD = ["--method", "mas_architect"]


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Server, Server]]:
    """A healthy target and a healthy proposer, and a project that asks them, with its questions."""
    (tmp_path / "profiles").mkdir()
    (tmp_path / "params.yaml").write_text(ASK.replace("tiny", "broken") + "searches: [textgrad]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("luthier.targets.support.attempts.FIRST_WAIT_SECONDS", 0.01)
    with asked_of(tmp_path, "broken") as servers:
        assert run_stage("questions", questions.work, []) == 0
        yield servers


# The benchmark has all kinds, through DVC.
@pytest.mark.parametrize(
    "kind", ["wrong key", "key that expires half-way", "another model listed", "500", "no choices", "no usage"]
)
def test_a_grid_with_a_hole_is_no_grid_and_a_mended_server_fills_it(
    broken: tuple[Server, Server], capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    target, _ = broken
    target.breaks(kind)
    assert run_stage("grid", grid.work, []) == TRY_AGAIN
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert message.startswith("grid: ")
    assert target.url in message
    assert "Fix: " in message
    assert not Path("data/grid").exists()
    if kind == "wrong key":
        assert target.posts <= 8, "a refused key is asked by the calls in flight, not by all"
    target.breaks("")
    assert run_stage("grid", grid.work, []) == 0
    assert holes(Path()) == 0
    assert json.loads(Path("data/grid/summary.json").read_text())["best_on_validation"]


def test_the_teacher_and_a_search_do_not_end_well_without_their_machines(
    broken: tuple[Server, Server], capsys: pytest.CaptureFixture[str]
) -> None:
    target, proposer = broken
    assert run_stage("grid", grid.work, []) == 0
    Path(".cache/store.sqlite").unlink()  # it has the answers that the teacher would ask for
    target.breaks("500")
    assert run_stage("teach", teach.work, METHOD, per_method=True) == TRY_AGAIN
    assert not Path("data/teach").exists()
    target.breaks("")
    proposer.breaks("500")
    assert run_stage("search", search.work, ["--method", "textgrad"], per_method=True, searches=True) == TRY_AGAIN
    assert "out of memory" in capsys.readouterr().err
    assert not Path("data/search").exists()


def test_a_teacher_without_rows_says_why(project: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    """The target says "never" to everything, which is right nowhere."""
    project(profile=PROFILE.replace('model: "2"', 'model: "never"'))
    assert run_stage("questions", questions.work, []) == 0
    assert run_stage("grid", grid.work, []) == 0
    capsys.readouterr()
    assert run_stage("teach", teach.work, METHOD, per_method=True) == 1
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert "no teacher row: of" in message
    assert "wrong" in message
    assert Path("data/teach/mas_architect/log.json").exists()
    assert not Path("data/teach/mas_architect/rows.jsonl").exists()
