"""Stages on a model behind HTTP: a key that leaks nowhere, a server that goes, one that has nothing but chat."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from luthier.files import read_rows
from luthier.harnesses.pool.configurations import pool
from stages import grid, questions
from stages.entry import TRY_AGAIN, run_stage
from tests.luthier.targets.canned_server import Canned, answering, refused, said
from tests.stages.conftest import PROFILE

KEY = "sk-proj-4f9aQxZzQ0b77q"
SCRIPTED = 'target: { engine: scripted, model: "2" }'


def begin(
    project: Callable[..., Path], url: str, configurations: str = "direct, gcd, sort-words", more: str = ""
) -> Path:
    target = f"target: {{ engine: openai, model: smol, base_url: '{url}', retries: 1, outage_seconds: 0{more} }}"
    profile = PROFILE.replace(SCRIPTED, target).replace("direct, gcd, sort-words", configurations)
    folder = project(profile=profile)
    assert run_stage("questions", questions.work, []) == 0
    return folder


@pytest.mark.parametrize(("status", "answered"), [(401, 0), (401, 5), (500, 5)])
def test_a_key_reaches_no_file_and_no_line(
    project: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    status: int,
    answered: int,
) -> None:
    count = iter(range(10_000))

    def reply(path: str, body: dict[str, Any]) -> Canned:
        return said("2") if next(count) < answered else refused(f"Incorrect API key provided: {KEY}", status)

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr("luthier.targets.support.attempts.FIRST_WAIT_SECONDS", 0.01)
    with answering(reply) as server:
        folder = begin(project, server.url)
        assert run_stage("grid", grid.work, []) == TRY_AGAIN
        assert server.keys == {f"Bearer {KEY}"}
    told = capfd.readouterr()
    assert re.search(r"grid: .*\[hidden\].* Fix: ", told.err)
    assert "Traceback" not in told.err
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.name == "store.sqlite" for path in files)
    for text in (told.out, told.err, *(path.read_bytes().decode("latin-1") for path in files)):
        assert not any(KEY[place : place + 8] in text for place in range(len(KEY) - 7))


def test_a_stage_goes_on_where_a_bad_key_stopped_it(
    project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = [5]

    def reply(path: str, body: dict[str, Any]) -> Canned:
        allowed[0] -= 1
        return said("2") if allowed[0] >= 0 else refused("bad key", 401)

    with answering(reply) as server:
        begin(project, server.url, "direct", ", concurrency: 1")
        assert run_stage("grid", grid.work, []) == TRY_AGAIN
        assert len(server.posts()) == 6
        allowed[0] = 10_000
        assert run_stage("grid", grid.work, []) == 0
        assert len(server.posts()) == 6 + 34 - 5


def test_a_chat_only_server_runs_every_configuration(project: Callable[..., Path]) -> None:
    """Raw prompts, choices of routers and judges, sampled answers: all of the pool that runs on this task."""
    names = [item.name for item in pool() if item.harness is not None]

    def reply(path: str, body: dict[str, Any]) -> Canned:
        listed = re.search(r"nothing else: (.*)", body["messages"][-1]["content"])
        return said(listed.group(1).split(" | ")[0] if listed else "2")

    with answering(reply, raw=False) as server:
        begin(project, server.url, ", ".join(names))
        assert run_stage("grid", grid.work, []) == 0
        asked = [body for body in server.posts() if "nothing else: " in str(body)]
    rows = list(read_rows(Path("data/grid/executions.jsonl")))
    assert len(rows) == 34 * len(names)
    assert not [row for row in rows if row["outcome"] == "infra_error"]
    assert asked
