"""The official client against a real local server on the embedded model, with faults on the way."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator

import pytest

from luthier.errors import InputError, TargetError
from luthier.target import Completion, Failure, Message, Request
from luthier.targets.openai import OpenAITarget
from luthier.targets.openvino import OpenVinoTarget
from tests.luthier.targets.fault_proxy import Fault, FaultProxy, proxied
from tests.luthier.targets.local_server import serve

pytestmark = pytest.mark.slow
MODEL = "smollm2-135m"
SHORT = Request("The capital of France is", max_tokens=2)


@pytest.fixture(scope="module")
def server(openvino_target: OpenVinoTarget) -> Iterator[str]:
    with serve(openvino_target, MODEL) as url:
        yield url


@pytest.fixture(scope="module")
def client(server: str) -> Iterator[OpenAITarget]:
    target = OpenAITarget(server, MODEL, first_wait_seconds=0.01)
    yield target
    target.close()


@pytest.fixture(scope="module")
def proxy(server: str) -> Iterator[FaultProxy]:
    with proxied(server) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def faulty(proxy: FaultProxy) -> Iterator[OpenAITarget]:
    target = OpenAITarget(proxy.url, MODEL, retries=3, first_wait_seconds=0.01, timeout_seconds=2.0)
    yield target
    target.close()


def test_the_wire_changes_nothing(client: OpenAITarget, openvino_target: OpenVinoTarget) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    schema["additionalProperties"] = False
    requests = [
        Request("Once upon a time", max_tokens=8, stop=(" who",)),
        Request("Once upon a time", max_tokens=8, temperature=1.0, top_p=0.9, seed=3),
        Request((Message("system", "Be brief."), Message("user", "Name a colour.")), max_tokens=6),
        Request("Is the sky blue? Answer:", choices=("yes", "no")),
        Request((Message("user", "A number as JSON."),), max_tokens=24, json_schema=json.dumps(schema)),
        Request("Once upon a time", max_tokens=8, stop=(" who",), seed=9),
    ]
    over_http, in_process = client.complete(requests), openvino_target.complete(requests)
    for sent, local in zip(over_http, in_process, strict=True):
        assert isinstance(sent, Completion)
        assert isinstance(local, Completion)
        assert (sent.text, sent.finish) == (local.text, local.finish)
        assert sent.usage.prompt_tokens == local.usage.prompt_tokens
        assert sent.usage.completion_tokens == local.usage.completion_tokens
    assert [len(answer.attempts) for answer in over_http] == [1, 1, 1, 1, 1, 0]


def test_choice_logprobs_equal_those_in_process(client: OpenAITarget, openvino_target: OpenVinoTarget) -> None:
    requests = [
        Request("The capital of France is", choices=(" Paris", " purple", " Paris, of")),
        Request((Message("user", "Say yes or no."),), choices=("Yes", "No")),
    ]
    for sent, local in zip(client.choice_logprobs(requests), openvino_target.choice_logprobs(requests), strict=True):
        assert sent == pytest.approx(local)


def test_token_counts_bound_the_servers(client: OpenAITarget, openvino_target: OpenVinoTarget) -> None:
    for request in (SHORT, Request("ü" * 9), Request((Message("user", "Hi"),)), Request("")):
        assert client.count_tokens(request) >= openvino_target.count_tokens(request)


@pytest.mark.parametrize(
    ("fault", "problem", "calls"),
    [
        ("429", "answered 429 (scripted 429)", 0),
        ("500", "answered 500 (scripted 500)", 1),
        ("reset", "the connection broke", 1),
        ("slow", "timed out", 1),
        ("truncated", "not JSON", 1),
        ("list", "not a JSON object", 1),
        ("empty", "no choices", 1),
    ],
)
def test_a_fault_is_tried_again_and_recorded(
    faulty: OpenAITarget, proxy: FaultProxy, fault: Fault, problem: str, calls: int
) -> None:
    proxy.plan(fault, fault, "ok")
    (answer,) = faulty.complete([SHORT])
    assert isinstance(answer, Completion)
    assert answer.text.startswith(" Paris")
    assert proxy.posts == 3
    assert [problem in attempt.problem for attempt in answer.attempts] == [True, True, False]
    assert [attempt.usage.calls for attempt in answer.attempts] == [calls, calls, 1]
    assert answer.attempts[-1].usage == answer.usage


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("400", "answered 400 (scripted 400)"),
        ("uncounted", "counts no tokens"),
        ("429-later", "answered 429"),
    ],
)
def test_a_fault_that_no_retry_mends_ends_the_call(
    faulty: OpenAITarget, proxy: FaultProxy, fault: Fault, problem: str
) -> None:
    proxy.plan(fault)
    (answer,) = faulty.complete([SHORT])
    assert isinstance(answer, Failure)
    assert problem in str(answer.error)
    assert "Fix: " in str(answer.error)
    assert proxy.posts == 1
    assert len(answer.attempts) == 1


def test_another_models_answer_ends_the_work(proxy: FaultProxy) -> None:
    target = OpenAITarget(proxy.url, MODEL)
    proxy.plan("model")
    (answer,) = target.complete([SHORT])
    assert isinstance(answer, Failure)
    assert "answered with model 'another-model' instead of 'smollm2-135m'" in str(answer.error)
    assert answer.attempts[0].usage.prompt_tokens > 0
    with pytest.raises(TargetError, match="another-model"):
        target.complete([SHORT])
    assert proxy.posts == 1
    target.close()


def test_retries_end_and_only_the_spoiled_request_fails(faulty: OpenAITarget, proxy: FaultProxy) -> None:
    proxy.plan(*["500"] * 4)
    (answer,) = faulty.complete([SHORT])
    assert isinstance(answer, Failure)
    assert "after 4 tries" in str(answer.error)
    assert len(answer.attempts) == proxy.posts == 4
    proxy.plan("400")
    kinds = [type(answer) for answer in faulty.complete([Request(str(n), max_tokens=1) for n in range(5)])]
    assert sorted(kind.__name__ for kind in kinds) == ["Completion"] * 4 + ["Failure"]


def test_a_prompt_beyond_the_context_is_an_empty_answer(client: OpenAITarget) -> None:
    (answer,) = client.complete([Request("a b " * 5000)])
    assert isinstance(answer, Completion)
    assert (answer.text, answer.finish) == ("", "length")
    assert answer.attempts[0].usage.calls == 0


def test_a_plain_server_scores_choices_and_takes_schemas_in_chat(openvino_target: OpenVinoTarget) -> None:
    with serve(openvino_target, MODEL, owner="someone") as url:
        target = OpenAITarget(url, MODEL)
        request = Request("The capital of France is", choices=(" purple", " Paris"))
        (answer,) = target.complete([request])
        assert isinstance(answer, Completion)
        assert answer.text == " Paris"
        assert (answer.usage.calls, len(answer.attempts)) == (2, 1)
        assert answer.attempts[0].usage == answer.usage
        assert target.choice_logprobs([request])[0] == pytest.approx(openvino_target.choice_logprobs([request])[0])
        chat = Request((Message("user", "Is the sky blue?"),), choices=("yes", "no"))
        (named,) = target.complete([chat])
        assert isinstance(named, Completion)
        assert named.text in ("yes", "no", "")
        assert named.usage.calls == len(named.attempts)
        with pytest.raises(TargetError, match="no log-probabilities for messages"):
            target.choice_logprobs([chat])
        schema = '{"type": "object", "properties": {}, "additionalProperties": false}'
        (row,) = target.complete([Request((Message("user", "JSON"),), max_tokens=20, json_schema=schema)])
        assert isinstance(row, Completion)
        assert json.loads(row.text) == {}
        target.close()


def test_another_model_and_no_server_are_named(server: str) -> None:
    with pytest.raises(TargetError, match=r"serves smollm2-135m, not 'gpt-x'"):
        OpenAITarget(server, "gpt-x")
    before = set(threading.enumerate())
    with pytest.raises(TargetError, match="refused"):
        OpenAITarget("http://127.0.0.1:9/v1", MODEL, first_wait_seconds=0.01, outage_seconds=0.0)
    # Other threads of the test process may end meanwhile; none may be left behind.
    assert set(threading.enumerate()) <= before
    with pytest.raises(InputError, match="base_url"):
        OpenAITarget("", MODEL)


def test_a_revision_pins_the_fingerprint_across_addresses(server: str, proxy: FaultProxy) -> None:
    targets = [OpenAITarget(url, MODEL, revision=pin) for url in (server, proxy.url) for pin in ("", "r1", "r2")]
    plain, one, two, other, other_one, _ = [target.fingerprint for target in targets]
    assert one == other_one
    assert len({plain, one, two, other}) == 4
    for target in targets:
        target.close()


def test_a_server_that_the_user_names() -> None:
    url = os.environ.get("LUTHIER_TEST_SERVER_URL", "")
    model = os.environ.get("LUTHIER_TEST_SERVER_MODEL", "")
    if not url or not model:
        pytest.skip("set LUTHIER_TEST_SERVER_URL and LUTHIER_TEST_SERVER_MODEL to test a running server (vLLM)")
    target = OpenAITarget(url, model)
    try:
        request = Request("The capital of France is", max_tokens=4, choices=(" Paris", " purple"))
        answers = target.complete([Request("Count: one, two,", max_tokens=4), request])
        assert all(isinstance(answer, Completion) for answer in answers)
        assert isinstance(answers[1], Completion)
        assert answers[1].text == " Paris"
        (row,) = target.choice_logprobs([request])
        assert row[0] > row[1]
    finally:
        target.close()
