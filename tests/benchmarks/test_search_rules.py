from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.search_rules import calls_spent, found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project in which a search with seed 17 ended after 7 calls, another one after 9."""
    for method, counts in (("gepa", (0, 3, 7)), ("mipro", (0, 9))):
        written = tmp_path / "data" / "search" / method / "17"
        written.mkdir(parents=True)
        rows = [json.dumps({"step": step, "spent": {"calls": calls}}) for step, calls in enumerate(counts)]
        (written / "log.jsonl").write_text("\n".join(rows) + "\n")
        (written / "result.json").write_text("{}")
    return tmp_path


def test_the_calls_of_a_search_are_those_of_its_last_step(folder: Path) -> None:
    assert [calls_spent(folder, method) for method in ("gepa", "mipro")] == [7, 9]


@pytest.mark.parametrize("name", ["log.jsonl", "result.json"])
def test_what_a_search_found_is_told_apart_by_every_file_of_it_alone(folder: Path, name: str) -> None:
    before = found(folder, "gepa"), found(folder, "mipro")
    assert before[0] != before[1]
    assert (found(folder, "gepa"), found(folder, "mipro")) == before
    path = folder / "data" / "search" / "gepa" / "17" / name
    path.write_text(path.read_text() + " ")
    assert found(folder, "gepa") != before[0]
    assert found(folder, "mipro") == before[1]
