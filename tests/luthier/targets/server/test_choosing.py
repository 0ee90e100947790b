"""Choices on servers that can't hold an answer to a list of texts, and on those that have no /completions."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from luthier.ledger.budget import Budget
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import CallsExhausted, Meter
from luthier.ledger.store import Store
from luthier.target import Completion, Failure, Message, Request
from luthier.targets.openai import OpenAITarget
from luthier.targets.server.choosing import match
from tests.luthier.targets.canned_server import Canned, answering, models, refused, said

CHOICES = ("yes", "no", "not sure")
CHAT = Request((Message("system", "Be brief."), Message("user", "Is it?")), max_tokens=8, choices=CHOICES)
RAW = Request("Is it? Answer:", max_tokens=8, choices=CHOICES)


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("yes", "yes"),
        (" **Yes.**\n", "yes"),
        ("I would say no, really", "no"),
        ("NOT SURE", "not sure"),
        ("I am not sure.", "not sure"),
        ("yes or no", ""),
        ("nothing", ""),
        ("", ""),
        ("yesterday", ""),
    ],
)
def test_a_text_names_a_choice(text: str, choice: str) -> None:
    assert match(text, CHOICES) == choice


def test_marks_alone_and_texts_inside_others() -> None:
    assert match("3", ("3", "13")) == "3"
    assert match("it is 13", ("3", "13")) == "13"
    assert match("...", ("...", "a")) == ""
    assert match("", ("?", "a")) == ""


@pytest.mark.parametrize(
    ("words", "text", "calls"),
    [(["Yes."], "yes", 1), (["Maybe", "no"], "no", 2), (["Maybe", "Perhaps"], "", 2)],
)
def test_messages_ask_for_a_choice_and_match(words: list[str], text: str, calls: int) -> None:
    said_so_far = iter(words)
    with answering(lambda path, body: said(next(said_so_far))) as server:
        target = OpenAITarget(server.url, "smol")
        (answer,) = target.complete([CHAT])
        assert isinstance(answer, Completion)
        assert (answer.text, answer.finish, len(answer.attempts)) == (text, "stop", calls)
        assert answer.usage.calls == calls
        assert answer.usage.completion_tokens == 3 * calls == sum(a.usage.completion_tokens for a in answer.attempts)
        assert "yes | no | not sure" in server.posts()[0]["messages"][-1]["content"]
        assert [row["role"] for row in server.posts()[-1]["messages"]][2:] == ["assistant", "user"] * (calls - 1)
        assert all("structured_outputs" not in body for body in server.posts())
        target.close()


def test_a_raw_prompt_is_matched_where_nothing_is_echoed() -> None:
    def reply(path: str, body: dict[str, Any]) -> Canned:
        return refused("echo is not supported") if body.get("echo") else said(" no.")

    with answering(reply) as server:
        target = OpenAITarget(server.url, "smol", concurrency=1)
        answers = target.complete([RAW, Request("Or? Answer:", choices=CHOICES)])
        assert [answer.text for answer in answers if isinstance(answer, Completion)] == ["no", "no"]
        # That the server does not echo is learned once.
        assert [bool(body.get("echo")) for body in server.posts()] == [True, False, False]
        target.close()


def test_choices_that_were_scored_before_a_fault_are_paid() -> None:
    scored = {"token_logprobs": [None, -1.0], "text_offset": [0, len(str(RAW.prompt))]}
    count = iter(range(9))

    def reply(path: str, body: dict[str, Any]) -> Canned:
        if next(count):
            return refused("cuda error", 500)
        choice = {"index": 0, "finish_reason": "length", "text": "", "logprobs": scored}
        return Canned({"model": "smol", "choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 0}})

    with answering(reply) as server:
        target = OpenAITarget(server.url, "smol", retries=0)
        (answer,) = target.complete([RAW])
        assert isinstance(answer, Failure)
        assert [(tried.usage.calls, tried.usage.prompt_tokens) for tried in answer.attempts] == [(1, 9), (1, 0)]
        assert all(tried.problem for tried in answer.attempts)
        target.close()


def test_a_server_of_vllm_that_ignores_the_choices_is_asked() -> None:
    with answering(lambda path, body: said("No way"), listed=models("smol", owner="vllm")) as server:
        target = OpenAITarget(server.url, "smol")
        assert [answer.text for answer in target.complete([CHAT]) if isinstance(answer, Completion)] == ["no"]
        assert ["structured_outputs" in body for body in server.posts()] == [True, False]
        target.close()


def test_a_chat_only_server_takes_raw_prompts_as_messages() -> None:
    with (
        answering(lambda path, body: said("four\nfive")) as both,
        answering(lambda path, body: said(), raw=False) as chat,
    ):
        plain, only = OpenAITarget(both.url, "smol", revision="r"), OpenAITarget(chat.url, "smol", revision="r")
        assert plain.fingerprint != only.fingerprint
        requests = [Request("Two and two:", stop=("\n",)), RAW]
        answers = only.complete(requests)
        assert [isinstance(answer, Completion) for answer in answers] == [True, True]
        assert {path for path, body in chat.asked if body.get("prompt") != {}} == {"/v1/chat/completions"}
        assert {"role": "user", "content": "Two and two:"} in [body["messages"][0] for body in chat.posts()]
        plain.close()
        only.close()


def test_a_budget_holds_for_choices_that_are_asked_for_and_for_thoughts(tmp_path: Any) -> None:
    with answering(lambda path, body: said("Maybe")) as server, closing(Store(tmp_path / "store")) as store:
        target = OpenAITarget(server.url, "smol", thinking_tokens=100, retries=0)
        ledger = Ledger(store, Budget(calls=3), run="r")
        meter = Meter(target, store, ledger, role="target", account="search", method="m", phase="p")
        need = meter.worst_case(CHAT)
        assert (need.calls, need.completion_tokens) == (2, 2 * 109)
        assert meter.worst_case(RAW).calls == 4
        (answer,) = meter.complete([CHAT])
        assert isinstance(answer, Completion)
        assert answer.text == ""
        with pytest.raises(CallsExhausted):
            meter.complete([RAW])
        assert len(server.posts()) == 2
        target.close()
