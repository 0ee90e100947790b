"""A key never leaves the client: neither whole nor in part, in no encoding, to no store, line or tag."""

from __future__ import annotations

import base64
import json
import sqlite3
import traceback
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from luthier.errors import InputError, TargetError
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.store import Store
from luthier.target import Failure, Request
from luthier.targets.openai import OpenAITarget
from luthier.targets.server.redaction import Redactor
from tests.luthier.targets.canned_server import Canned, answering, models, refused, said

KEY = 'sk-proj-4f9aQ~x/Zz+0b77"q'


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        f"Bearer {KEY}.",
        KEY[:14] + "...",
        "..." + KEY[-10:],
        quote(KEY, safe=""),
        json.dumps(KEY),
        "x" * 290 + KEY,
        KEY * 3,
    ],
)
def test_no_piece_of_a_key_is_left(text: str) -> None:
    told = Redactor(KEY)(f"Incorrect API key provided: {text}, see the account page")
    assert "[hidden]" in told or len(text) > 290
    assert not any(KEY[place : place + 8] in told for place in range(len(KEY) - 7))


def test_short_keys_are_hidden_as_words_and_placeholders_are_not() -> None:
    assert Redactor("EMPTY")("the key EMPTY is wrong, EMPTYING") == "the key [hidden] is wrong, EMPTYING"
    assert Redactor("a")("a word") == "a word"


def test_a_told_text_is_one_printable_line() -> None:
    assert Redactor("none")("a\x1b[31m\nb\ud800\x00c") == "a\ufffd[31m b\ufffd\ufffdc"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
@pytest.mark.parametrize("form", ["message", "text", "inside 200", "model"])
def test_a_key_that_the_server_repeats_reaches_nobody(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], status: int, form: str
) -> None:
    def reply(path: str, body: dict[str, Any]) -> Canned:
        if form == "message":
            return refused(f"Incorrect API key provided: {KEY}", status)
        if form == "text":
            return Canned(f"<p>{KEY}</p>".encode(), status)
        if form == "model":
            return said(model=KEY)
        return Canned({"error": {"message": f"key {KEY[:12]}...", "code": status}})

    with answering(reply) as server, closing(Store(tmp_path / "store.sqlite")) as store:
        target = OpenAITarget(server.url, "smol", api_key=KEY, retries=1, first_wait_seconds=0.01, outage_seconds=0.0)
        assert server.keys == {f"Bearer {KEY}"}
        meter = Meter(target, store, Ledger(store, run="r"), role="target", account="search", method="m", phase="p")
        told: list[str] = []
        for _ in range(2):
            try:
                (answer,) = meter.complete([Request("a question")])
                assert isinstance(answer, Failure)
                told += ["".join(traceback.format_exception(answer.error)), str(answer.attempts)]
            except TargetError as error:
                told += ["".join(traceback.format_exception(error))]
        target.close()
    written = (tmp_path / "store.sqlite").read_bytes() + b"".join(path.read_bytes() for path in tmp_path.glob("store*"))
    told += [written.decode("latin-1"), *capfd.readouterr()]
    secrets = [KEY[place : place + 8] for place in range(len(KEY) - 7)] + [base64.b64encode(KEY.encode()).decode()]
    assert not any(secret in text for text in told for secret in secrets)


def test_a_model_list_that_repeats_the_key_and_an_address_with_a_password() -> None:
    with answering(lambda path, body: said(), listed=models(KEY)) as server:
        address = server.url.replace("http://", "http://me:hunter22secret@")
        with pytest.raises(TargetError) as caught:
            OpenAITarget(address, "smol", api_key=KEY)
        told = "".join(traceback.format_exception(caught.value))
        assert KEY not in told
        assert "hunter22" not in told
        assert "[hidden]" in told


def test_a_key_that_is_none_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("schlüssel", "line\nbreak"):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        with pytest.raises(InputError, match="OPENAI_API_KEY") as caught:
            OpenAITarget("http://127.0.0.1:9/v1", "smol")
        assert key not in str(caught.value)


def test_an_address_that_is_none_is_one_clear_error() -> None:
    for url in ("", "http://", "http://h:99999/v1", "http://[::1/v1", "ftp://h/v1", "http://h\x00/v1"):
        with pytest.raises(InputError, match="is not a web address"):
            OpenAITarget(url, "smol")


def test_a_dead_store_row_of_a_problem_is_readable(tmp_path: Path) -> None:
    """The problem of a failed try stands in the ledger's table as it was told."""
    with (
        answering(lambda path, body: refused(f"no {KEY} \ud800", 400)) as server,
        closing(Store(tmp_path / "s.sqlite")) as store,
    ):
        target = OpenAITarget(server.url, "smol", api_key=KEY)
        meter = Meter(target, store, Ledger(store, run="r"), role="target", account="search", method="m", phase="p")
        meter.complete([Request("a question")])
        target.close()
    with sqlite3.connect(tmp_path / "s.sqlite") as db:
        assert db.execute("SELECT problem FROM entries").fetchall() == [
            ("the server answered 400 (no [hidden] \ufffd)",)
        ]
