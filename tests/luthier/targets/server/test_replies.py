"""The table of docs/servers.md, row by row, over real HTTP: which replies are answers and which are faults."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from luthier.errors import TargetError
from luthier.target import Completion, Failure, Message, Request
from luthier.targets.openai import OpenAITarget
from tests.luthier.targets.canned_server import Canned, CannedServer, answering, refused, said

ROOT = Path(__file__).resolve().parents[4]
CHAT = Request((Message("user", "Two and two?"),), max_tokens=32, stop=("STOP",))
SPENT = {"prompt_tokens": 9, "completion_tokens": 3}


@contextmanager
def asked(
    reply: Callable[[str, dict[str, Any]], Canned], **settings: Any
) -> Iterator[tuple[OpenAITarget, CannedServer]]:
    with answering(reply) as server:
        values = {"retries": 1, "first_wait_seconds": 0.01, "timeout_seconds": 1.0, "outage_seconds": 0.0} | settings
        target = OpenAITarget(server.url, "smol", **values)
        try:
            yield target, server
        finally:
            target.close()


@dataclass(frozen=True)
class Row:
    """One reply and what must come of it: the text of an answer, or the problem of a fault after so many posts."""

    reply: Canned | Callable[[dict[str, Any]], Canned]
    text: str = ""
    finish: str = "stop"
    problem: str = ""
    posts: int = 1
    settings: dict[str, Any] = field(default_factory=dict)


def unless(test: Callable[[dict[str, Any]], bool], refusal: Canned) -> Callable[[dict[str, Any]], Canned]:
    """A server that refuses a request unless its body passes the test."""
    return lambda body: said() if test(body) else refusal


def too_many(limit: int, words: str) -> Callable[[dict[str, Any]], Canned]:
    return unless(lambda body: body["max_tokens"] <= limit, refused(words))


O_SERIES = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
THINKS = {"thinking_tokens": 100}
ANSWERS: dict[str, list[Row]] = {
    "text that ends with `stop`": [Row(said("four"), "four"), Row(said("four", "eos_token"), "four")],
    "text that ends with `length`": [Row(said("fo", "length"), "fo", "length")],
    "text with a lone surrogate": [
        Row(said("a\ud800b"), "a\ufffdb"),
        Row(said("\ud83d\ude00"), "\U0001f600"),
        Row(said(None, refusal="no \udfff"), "no \ufffd"),
    ],
    "empty text that ends with `stop`": [Row(said("", written=1), ""), Row(said("STOP and more"), "")],
    "`refusal` instead of content": [Row(said(None, refusal="I will not."), "I will not.")],
    "thoughts in `<think>` before an answer": [
        Row(said("<think>2+2, STOP</think>\n\nfour"), "four", settings=THINKS),
        Row(said("<think>2+2</think>four"), "four"),
        Row(said("<think>\n\n</think>\n\nfour"), "four"),
    ],
    "`</think>` without its begin": [Row(said("2+2 is </think> four"), "four", settings=THINKS)],
    "thoughts in `reasoning_content` beside an answer": [
        Row(said("four", reasoning_content="2+2"), "four"),
        Row(said("four", reasoning="2+2"), "four", settings=THINKS),
    ],
    "thoughts until the room is used, `thinking_tokens` set": [
        Row(said(None, "length", reasoning_content="well"), "", "length", settings=THINKS),
        Row(said("<think>well", "length"), "", "length", settings=THINKS),
        Row(said("<think>well</think>", "stop"), "", settings=THINKS),
    ],
    "a prompt longer than the context (400, 413, any wording)": [
        Row(refused(words, status, **more), "", "length", posts=posts)
        for words, status, more, posts in (
            ("This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input "
             "tokens, which exceeds this limit even without any output tokens.", 400, {"param": "input_tokens"}, 1),
            ("The decoder prompt (length 3001) is longer than the maximum model length of 2048.", 400, {}, 1),
            ("the request exceeds the available context size, try increasing it", 400,
             {"type": "exceed_context_size_error"}, 1),
            ("the request exceeds the available context size", 500, {"type": "exceed_context_size_error"}, 1),
            ("This model's maximum context length is 8192 tokens. However, you requested 9032 tokens (9000 in the "
             "messages, 32 in the completion).", 400, {"code": "context_length_exceeded"}, 1),
            ("The input (3000 tokens) is longer than the model's context length (2048 tokens).", 400, {}, 1),
            ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens", 422, {}, 1),
            ("prompt is too long", 400, {}, 6),
            ("Payload Too Large", 413, {}, 6),
        )
    ],
    "`max_tokens` too large though the prompt fits": [
        Row(too_many(20, "max_tokens=32 cannot be greater than max_model_len=21."), "four", posts=2),
        Row(too_many(10, "max_tokens is too large: 32. It supports at most 10 completion tokens."), "four", posts=2),
        Row(too_many(8, "maximum context length is 64 tokens. However, you requested 88 (56 in the messages, 32 in "
                        "the completion)."), "four", posts=2),
        Row(too_many(5, "reduce the length, please"), "four", posts=4),
    ],
    "`max_tokens` unknown": [Row(unless(lambda body: "max_tokens" not in body, refused(O_SERIES)), "four", posts=2)],
    "`stop` unknown": [
        Row(lambda body: refused("Unsupported parameter: 'stop'", param="stop") if "stop" in body else said("a STOP b"),
            "a ", posts=2)
    ],
    "`temperature` unknown": [
        Row(unless(lambda body: "temperature" not in body,
                   refused("Unsupported value: 'temperature' does not support 0 here.", param="temperature")),
            "four", posts=2)
    ],
}  # fmt: skip
FAULTS: dict[str, list[Row]] = {
    "thoughts until the room is used, `thinking_tokens` 0": [
        Row(said(None, "length", reasoning_content="well"), problem="target.thinking_tokens"),
        Row(said("<think>well", "length"), problem="target.thinking_tokens"),
        Row(said("<think>well</think>fo", "length"), problem="target.thinking_tokens"),
        Row(said(None, reasoning_content="well"), problem="target.thinking_tokens"),
    ],
    "the whole answer in `reasoning_content`": [
        Row(said(None, reasoning_content="four"), problem="reasoning parser", settings=THINKS)
    ],
    "content `null` that ends with `stop`": [Row(said(None), problem="gave no text", posts=2)],
    "no choices": [Row(Canned({"model": "smol", "choices": [], "usage": SPENT}), problem="no choices", posts=2)],
    "no JSON, or nested too deeply": [
        Row(Canned(b"<html>"), problem="not JSON", posts=2),
        Row(Canned(b"[" * 200_000), problem="not JSON", posts=2),
        Row(Canned(b'{"a":' * 200_000), problem="not JSON", posts=2),
        Row(Canned(b'{"usage": {"prompt_tokens": ' + b"9" * 5000 + b"}}"), problem="not JSON", posts=2),
        Row(Canned(b"[1]"), problem="not a JSON object", posts=2),
    ],
    "an error inside a 200": [
        Row(Canned({"error": {"message": "overloaded"}}), problem="answered 500 (overloaded)", posts=2),
        Row(Canned({"error": {"message": "slow down", "code": 429}}), problem="answered 429 (slow down)", posts=2),
        Row(Canned({"error": "lost"}), problem="answered 500 (lost)", posts=2),
        Row(Canned({"error": {"message": "no", "code": 400}}), problem="answered 400 (no)"),
    ],
    "429, 408, 409, 425 and 5xx": [
        *[Row(refused("busy", s), problem=f"answered {s} (busy)", posts=2) for s in (408, 409, 425, 429, 500)],
        Row(refused("rate limit of the day", 503), problem="answered 503", posts=2),
        Row(refused("rate limit of the day", 500), problem="answered 500", posts=2),
        Row(Canned(b"[" * 200_000, 500), problem="answered 500", posts=2),
        *[Row(Canned(b'{"a":' * d + b"1" + b"}" * d, 500), problem="answered 500", posts=2) for d in (400, 900, 950)],
    ],
    "later than `timeout_seconds`, also byte by byte": [
        Row(Canned(said().body, drip=0.2), problem="timed out", posts=2, settings={"outage_seconds": 5.0})
    ],
    "a broken connection": [Row(Canned(said().body, cut=True), problem="the connection broke", posts=2)],
    "a tool call, though no tools were offered": [
        Row(said(None, tool_calls=[{"function": {"name": "f"}}]), problem="tool call"),
        Row(said("", "tool_calls", tool_calls=[{}]), problem="tool call"),
    ],
    "`content_filter`": [Row(said("", "content_filter"), problem="content_filter")],
    "another end than `stop` or `length`": [
        Row(said("four", None), problem="ended with None"),
        Row(said("four", [[1]]), problem="ended with list"),
        Row(said(["four"]), problem="is a list instead of a text"),
    ],
    "no usage, or text without `completion_tokens`": [
        Row(said(read=0), problem="counts no tokens"),
        Row(said(written=None), problem="counts no completion tokens"),
        Row(Canned({key: value for key, value in said().body.items() if key != "usage"}), problem="counts no tokens"),
    ],
    "a count below 0 or beyond 2^40": [
        Row(said(read=value, written=other), problem="cannot be")
        for value, other in ((2**70, 3), (9, -5), (-5, 3), (True, 3), (9.5, 3), (9, "3"), (2**63, 2**63))
    ],
    "any other 400": [
        Row(refused("no"), problem="answered 400 (no)"),
        Row(refused("Request too large, tokens per minute (TPM): Limit 6000", 413), problem="answered 413"),
    ],
}  # fmt: skip
STOPS: dict[str, list[Row]] = {
    "another model (`smol-70b` for `smol`; `smol-2026-01-31` is ours)": [
        Row(said(model=name), problem="instead of 'smol'")
        for name in ("smol-70b-chat", "smol-1700", "smol-2026-13-01", "large")
    ],
    "401, 402, 404, a used-up quota": [
        *[Row(refused("no", status), problem=f"answered {status} (no)") for status in (401, 402, 403, 404, 405)],
        Row(refused("pay", 429, code="insufficient_quota"), problem="answered 429 (pay)"),
    ],
}  # fmt: skip


def cases(rows: dict[str, list[Row]]) -> list[Any]:
    return [
        pytest.param(row, id=f"{name} {place}") for name, several in rows.items() for place, row in enumerate(several)
    ]


def replying(row: Row) -> Callable[[str, dict[str, Any]], Canned]:
    return lambda path, body: row.reply(body) if callable(row.reply) else row.reply


@pytest.mark.parametrize("row", cases(ANSWERS))
def test_an_outcome_of_the_target(row: Row) -> None:
    with asked(replying(row), **row.settings) as (target, server):
        (answer,) = target.complete([CHAT])
        assert isinstance(answer, Completion), answer
        assert (answer.text, answer.finish) == (row.text, row.finish)
        assert len(server.posts()) == row.posts
        answer.text.encode()
        assert len(answer.attempts) == row.posts
        refusals = [attempt for attempt in answer.attempts if attempt.problem]
        assert not any(attempt.usage.prompt_tokens for attempt in refusals)


def test_what_a_refusal_taught_holds_for_later_requests() -> None:
    def reply(path: str, body: dict[str, Any]) -> Canned:
        return refused(O_SERIES) if "max_tokens" in body else said()

    with asked(reply) as (target, server):
        for text in ("one", "two", "three"):
            assert isinstance(target.complete([Request((Message("user", text),))])[0], Completion)
        assert ["max_tokens" in body for body in server.posts()] == [True, False, False, False]
        assert server.posts()[-1]["max_completion_tokens"] == 64


@pytest.mark.parametrize("row", cases(FAULTS))
def test_a_fault_of_the_machine(row: Row) -> None:
    with asked(replying(row), **row.settings) as (target, server):
        (answer,) = target.complete([CHAT])
        assert isinstance(answer, Failure)
        assert row.problem in str(answer.error)
        assert "Fix: " in str(answer.error)
        assert len(server.posts()) == len(answer.attempts) == row.posts
        for attempt in answer.attempts:
            usage = attempt.usage
            assert 0 <= usage.calls <= 1
            assert (usage.prompt_tokens, usage.completion_tokens) in {(0, 0), (9, 3), (9, 0), (0, 3)}


@pytest.mark.parametrize("row", cases(STOPS))
def test_nothing_can_be_served(row: Row) -> None:
    with asked(replying(row), **row.settings) as (target, server):
        if isinstance(row.reply, Canned) and row.reply.status == 200:  # it was paid for: the ledger must hear of it
            (answer,) = target.complete([CHAT])
            assert isinstance(answer, Failure)
            assert row.problem in str(answer.error)
            assert answer.attempts[0].usage.prompt_tokens == 9
        else:
            with pytest.raises(TargetError, match=re.escape(row.problem)):
                target.complete([CHAT])
        with pytest.raises(TargetError, match=re.escape(row.problem)):
            target.complete([CHAT])
        assert len(server.posts()) == 1


def test_a_dated_snapshot_is_the_model() -> None:
    for name in ("smol-2026-01-31", "smol-20260131"):
        with asked(lambda path, body, name=name: said(model=name)) as (target, _):
            assert isinstance(target.complete([CHAT])[0], Completion)


def test_every_row_of_the_table_has_its_case() -> None:
    text = (ROOT / "docs/servers.md").read_text(encoding="utf-8").split("## What a reply is")[1].split("\n## ")[0]
    cells = [line.removeprefix("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    rows = {name: kind for name, kind, *_ in cells if name != "reply"}
    kinds = {"answer": ANSWERS, "changed": ANSWERS, "retried": FAULTS, "failed": FAULTS, "stop": STOPS}
    elsewhere = {"refused connections for `outage_seconds`", "eight requests in a row that the machine failed"}
    assert {name for name, kind in rows.items() if name not in kinds[kind]} == elsewhere
    assert {*ANSWERS, *FAULTS, *STOPS} <= set(rows)
