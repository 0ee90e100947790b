"""Damage to a store that real executions wrote: it is named, or it changes nothing that is read; and it is repaired."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from luthier.errors import StoreError
from luthier.executors.execute import Job, execute
from luthier.harnesses import parse
from luthier.ledger.ledger import Amount, Budget, Context, Entry, Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.repair import METHOD, Repaired, repair
from luthier.ledger.store import Store, StoredCall
from luthier.question import Question
from luthier.target import Completion, Request, Usage
from luthier.targets.scripted import ScriptedTarget, prompt_text
from luthier.task import Score

HARNESSES = [parse("prompt", f"# raw max_tokens=8\nSay {word}: {{question}}") for word in ("one", "two", "drei ü")]
QUESTIONS = [Question.make(task="toy", text=f"thing {n} " * 9, reference=str(n), split="train") for n in range(30)]
RUNS = ("first", "second")
LIMIT = Budget(calls=100)


@dataclass
class Written:
    """A store, the keys of its rows, and what is read from it while it is whole."""

    path: Path
    keys: dict[str, list[str]]
    content: dict[str, Any]


def answered(path: Path, run: str) -> None:
    with closing(Store(path)) as store:
        target = ScriptedTarget(lambda request: f"word {len(prompt_text(request))} end")
        ledger = Ledger(store, run=run)
        meter = Meter(target, store, ledger, role="target", account="data", method="grid", phase="grid")
        jobs = [Job(harness, question) for question in QUESTIONS for harness in HARNESSES]
        execute(jobs, lambda asked, text: Score(float(len(text) % 2), f"scored {text}"), meter)
        if run == RUNS[-1]:
            ledger.reserve_many("data", [Amount(calls=3, prompt_tokens=50)])  # never settled


def read(path: Path, keys: dict[str, list[str]]) -> dict[str, Any]:
    """Everything that a store and its ledger say."""
    found: dict[str, Any] = {}
    with closing(Store(path)) as store:
        for name in keys:
            found[name] = getattr(store, name)(keys[name])
            found[f"count of {name}"] = store.count(name)
        ledgers = {run: Ledger(store, LIMIT, run=run) for run in RUNS}
        for run, ledger in ledgers.items():
            found[run] = [ledger.spent("paid"), ledger.spent("alone"), ledger.lost(), list(ledger.entries())]
            found[f"reserved in {run}"] = ledger.reserve_many("data", [Amount(calls=1)] * 12, wait=False)[0]
        found["all"] = [
            ledger.totals(RUNS),
            ledger.runs(),
            ledger.latest("f"),
            ledger.pace("scripted"),
            ledger.lost(RUNS),
        ]
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    path = tmp_path_factory.mktemp("written") / "store.sqlite"
    for run in RUNS:
        answered(path, run)
    with closing(sqlite3.connect(path)) as db:
        keys = {name: [key for (key,) in db.execute(f"SELECT key FROM {name}")] for name in ("calls", "executions")}
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    content = read(copy, keys)
    assert len(content["calls"]) == len(content["executions"]) == 90
    assert content["first"][0].calls == 90
    return Written(path, keys, content)


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return repr(one) == repr(other)


def attempt(action: Callable[[], Any]) -> tuple[Any, StoreError | None]:
    try:
        return action(), None
    except StoreError as error:
        return None, error


def put(folder: Path, data: bytes) -> Path:
    for file in folder.iterdir():
        file.unlink()
    path = folder / "store.sqlite"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", ["bit", "byte", "cut"])
def test_damage_is_named_or_changes_nothing_and_a_repair_ends_it(written: Written, tmp_path: Path, kind: str) -> None:
    rng = random.Random(f"damage {kind}")
    whole = written.path.read_bytes()
    named, lost = 0, 0
    rounds = 20 if kind == "cut" else 150
    for _ in range(rounds):
        place = rng.randrange(len(whole))
        data = bytearray(whole)
        if kind == "cut":
            del data[place:]
        else:
            data[place] = data[place] ^ (1 << rng.randrange(8)) if kind == "bit" else rng.randrange(256)
        path = put(tmp_path, data)
        found, problem = attempt(lambda path=path: read(path, written.keys))
        if problem is None:
            assert same(found, written.content), f"silent change at byte {place}"
            continue
        named += 1
        assert problem.fix
        assert "store.sqlite" in problem.where
        _, refused = attempt(lambda path=path: repair(path))
        if refused is not None:
            lost += 1
            assert "move" in refused.fix, refused
            continue
        found = read(path, written.keys)
        for name in written.keys:
            assert found[name].items() <= written.content[name].items()
        for run in RUNS:
            for now, before in zip(found[run][:2], written.content[run][:2], strict=True):
                assert now.calls <= before.calls
                assert now.prompt_tokens <= before.prompt_tokens
    assert named > rounds / 4
    print(kind, "named", named, "of", rounds, "lost", lost)
    assert lost < rounds / 2


@pytest.fixture
def path(written: Written, tmp_path: Path) -> Path:
    return put(tmp_path, written.path.read_bytes())


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.text_factory = bytes
        for statement in statements:
            db.execute(statement)


ALTERED = [
    ("UPDATE entries SET paid_calls = 0 WHERE seq = 7", "entries"),
    ("UPDATE entries SET run = 'other' WHERE seq = 7", "entries"),
    ("UPDATE tallies SET calls = calls - 60 WHERE run = 'first' AND basis = 'paid'", "tallies"),
    ("UPDATE reservations SET calls = 0 WHERE id = (SELECT MIN(id) FROM reservations)", "reservations"),
]


@pytest.mark.parametrize(("statement", "table"), ALTERED)
def test_an_altered_row_of_the_ledger_reopens_no_limit(
    written: Written, path: Path, statement: str, table: str
) -> None:
    change(path, statement)
    for run in RUNS:
        with closing(Store(path)) as store, pytest.raises(StoreError, match=rf"table {table}.*luthier store repair"):
            Ledger(store, LIMIT, run=run)
    repaired = repair(path)
    assert repaired.dropped == 1
    assert repaired.entered == (("first",) if table == "entries" else ())
    found = read(path, written.keys)
    for run in RUNS:
        for now, before in zip(found[run][:2], written.content[run][:2], strict=True):
            assert now.usage.seconds == pytest.approx(before.usage.seconds)
            assert replace(now, seconds=0) == replace(before, seconds=0)
        assert len(found[f"reserved in {run}"]) == len(written.content[f"reserved in {run}"])
    made_up = [entry for entry in found["first"][3] if entry.context.method == METHOD]
    assert [entry.paid.calls for entry in made_up] == ([1] if table == "entries" else [])
    assert repair(path) == Repaired(0, (), None)


def test_a_row_with_a_byte_that_is_no_utf8_is_named_and_repaired(written: Written, path: Path) -> None:
    key = written.keys["calls"][3]
    change(path, f"UPDATE calls SET completion = CAST(completion || X'FF' AS TEXT) WHERE key = '{key}'")
    with closing(Store(path)) as store, pytest.raises(StoreError, match=rf"{key}.*luthier store repair"):
        store.calls(written.keys["calls"])
    repaired = repair(path)
    assert (repaired.dropped, repaired.entered) == (1, ())
    assert repaired.damaged == path.with_name("store.sqlite.damaged")
    assert repaired.damaged.is_file()
    with closing(Store(path)) as store:
        assert set(store.calls(written.keys["calls"])) == set(written.keys["calls"]) - {key}


def test_a_link_to_a_store_stays_one(path: Path) -> None:
    link = path.with_name("link.sqlite")
    link.symlink_to(path)
    change(path, "UPDATE calls SET fingerprint = 'x' WHERE key = (SELECT MIN(key) FROM calls)")
    assert repair(link).damaged == path.with_name("store.sqlite.damaged")
    assert link.is_symlink()
    assert repair(path) == Repaired(0, (), None)


def test_a_key_that_is_not_found_may_stand_in_a_damaged_row(written: Written, path: Path) -> None:
    key = written.keys["calls"][3]
    change(path, f"UPDATE calls SET key = '{key[:-1]}x' WHERE key = '{key}'")
    with closing(Store(path)) as store:
        assert len(store.calls(written.keys["calls"][4:])) == 86
        with pytest.raises(StoreError, match="does not match its digest"):
            store.calls([key])


def test_a_file_of_the_version_before_is_read_as_it_was_and_gets_its_digests(written: Written, path: Path) -> None:
    tables = ("entries", "tallies", "reservations")
    change(path, "UPDATE schema SET version = 1", *(f"ALTER TABLE {name} DROP COLUMN digest" for name in tables))
    assert same(read(path, written.keys), written.content)
    change(path, "UPDATE entries SET paid_calls = 0 WHERE seq = 7")
    with closing(Store(path)) as store, pytest.raises(StoreError, match="table entries"):
        Ledger(store, run="first")


def test_half_characters_are_kept(tmp_path: Path) -> None:
    request, answer = Request("half \ud800"), Completion("\udc00 of it", "stop", Usage(1, 1, 1))
    store = Store(tmp_path / "store.sqlite")
    call = StoredCall(request.key("m"), "m", request, answer)
    store.put_calls([call])
    assert store.calls([call.key]) == {call.key: answer}
    entry = Entry(Context("data", "target", "m", "p"), "x\ud800", "answer", False, Amount(1), Amount(1), "said \udfff")
    Ledger(store, run="r").settle([], [entry])
    assert [kept.problem for kept in Ledger(store, run="r").entries()] == ["said \\udfff"]
