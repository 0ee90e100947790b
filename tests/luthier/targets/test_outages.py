"""A server that is away, restarts or fails everything: waited for once, given up once, nothing paid for twice."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from typing import Any

import pytest

from luthier.errors import TargetError
from luthier.stopping import StopSignal
from luthier.target import Completion, Failure, Request
from luthier.targets.openai import OpenAITarget
from tests.luthier.targets.canned_server import Canned, CannedHandler, CannedServer, answering, models, refused, said

QUESTIONS = [Request(f"question {number}", max_tokens=4) for number in range(40)]


def opened(url: str, **settings: Any) -> OpenAITarget:
    values: dict[str, Any] = {"retries": 2, "first_wait_seconds": 0.01, "timeout_seconds": 2.0, "concurrency": 4}
    return OpenAITarget(url, "smol", **values | settings)


class Mortal(ThreadingHTTPServer):
    """A server that ends as a process does: the port refuses, and open connections break."""

    daemon_threads = True

    def __init__(self, port: int, reply: Callable[[str, dict[str, Any]], Canned]) -> None:
        self.dead = False

        def living(path: str, body: dict[str, Any]) -> Canned:
            if self.dead:
                raise ConnectionAbortedError
            return models("smol") if path.endswith("/models") else reply(path, body)

        super().__init__(("127.0.0.1", port), type("Handler", (CannedHandler,), {"server_state": CannedServer(living)}))
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A broken connection is what the test wants."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stop(server: Mortal) -> None:
    server.dead = True
    server.shutdown()
    server.server_close()


def test_a_server_that_restarts_in_the_middle_loses_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    port, seen = free_port(), threading.Event()

    def first(path: str, body: dict[str, Any]) -> Canned:
        if "question 9" in str(body):
            seen.set()
        time.sleep(0.02)
        return said()

    server = Mortal(port, first)
    target = opened(f"http://127.0.0.1:{port}/v1", outage_seconds=30.0)
    replacement: list[Mortal] = []

    def restart() -> None:
        seen.wait(10)
        stop(server)
        time.sleep(1)
        replacement.append(Mortal(port, lambda path, body: said()))

    thread = threading.Thread(target=restart)
    thread.start()
    try:
        answers = target.complete(QUESTIONS)
        assert all(isinstance(answer, Completion) for answer in answers)
        lines = capfd.readouterr().err.splitlines()
        assert sum("waiting for it, 0 of at most 30 s" in line for line in lines) == 1
        assert sum("back after" in line for line in lines) == 1
        # One look serves all: an outage costs each request in flight a try, and the others none.
        assert sum(len(answer.attempts) - 1 for answer in answers) <= 2 * 4
    finally:
        thread.join()
        target.close()
        stop(replacement[0])


def test_a_server_that_starts_later_is_waited_for_when_opened() -> None:
    port = free_port()
    started_later: list[Mortal] = []
    timer = threading.Timer(1.5, lambda: started_later.append(Mortal(port, lambda path, body: said())))
    timer.start()
    target = opened(f"http://127.0.0.1:{port}/v1", outage_seconds=30.0)
    try:
        assert isinstance(target.complete(QUESTIONS[:1])[0], Completion)
    finally:
        target.close()
        stop(started_later[0])


def test_a_server_that_stays_away_ends_the_batch_once() -> None:
    port = free_port()
    server = Mortal(port, lambda path, body: said())
    target = opened(f"http://127.0.0.1:{port}/v1", outage_seconds=1.0)
    assert isinstance(target.complete(QUESTIONS[:1])[0], Completion)
    stop(server)
    before = time.monotonic()
    # The kept connection broke, perhaps after the engine had worked: that try is paid, so its record is given back.
    assert all(isinstance(answer, Failure) for answer in target.complete(QUESTIONS))
    assert time.monotonic() - before < 10
    before = time.monotonic()
    with pytest.raises(TargetError, match=r"did not come back within 1 s \(target.outage_seconds\)"):
        target.complete(QUESTIONS)
    assert time.monotonic() - before < 1.0, "an outage that was waited for once is not waited for again"
    target.close()


def test_a_stop_that_is_asked_for_ends_the_wait_for_a_server() -> None:
    port = free_port()
    server = Mortal(port, lambda path, body: said())
    target = opened(f"http://127.0.0.1:{port}/v1", outage_seconds=60.0)
    assert isinstance(target.complete(QUESTIONS[:1])[0], Completion)
    stop(server)
    with StopSignal() as asked:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        before = time.monotonic()
        target.complete(QUESTIONS)
        with pytest.raises(TargetError, match="a stop was asked for while waiting for it"):
            target.complete(QUESTIONS)
        assert time.monotonic() - before < 20
        assert asked.requested()
    target.close()


def test_a_server_that_fails_everything_is_asked_for_the_requests_in_flight_and_once_more() -> None:
    broken = threading.Event()
    with answering(lambda path, body: refused("cuda error", 500) if broken.is_set() else said()) as server:
        target = opened(server.url)
        assert isinstance(target.complete(QUESTIONS[:1])[0], Completion)
        broken.set()
        before = len(server.posts())
        answers = target.complete(QUESTIONS)
        assert all(isinstance(answer, Failure) for answer in answers)
        asked = len(server.posts()) - before
        assert 8 * 3 <= asked <= (8 + 4) * 3
        assert sum(answer.attempts == () for answer in answers) >= len(QUESTIONS) - 12
        # The next batch begins with one request, which is paid; then nothing is asked any more.
        assert all(isinstance(answer, Failure) for answer in target.complete(QUESTIONS))
        assert len(server.posts()) - before == asked + 3
        with pytest.raises(TargetError, match="requests failed: the server answered 500"):
            target.complete(QUESTIONS)
        assert len(server.posts()) - before == asked + 3
        target.close()


def test_a_server_that_recovers_is_asked_again() -> None:
    broken = threading.Event()
    broken.set()
    with answering(lambda path, body: refused("cuda error", 500) if broken.is_set() else said()) as server:
        target = opened(server.url)
        assert all(isinstance(answer, Failure) for answer in target.complete(QUESTIONS))
        broken.clear()
        assert all(isinstance(answer, Completion) for answer in target.complete(QUESTIONS))
        target.close()


def test_what_was_answered_before_the_end_is_given_back() -> None:
    count = iter(range(1000))
    with answering(lambda path, body: said() if next(count) < 7 else refused("bad key", 401)) as server:
        target = opened(server.url, concurrency=1)
        answers = target.complete(QUESTIONS)
        assert [isinstance(answer, Completion) for answer in answers] == [True] * 7 + [False] * 33
        assert len(server.posts()) == 8
        with pytest.raises(TargetError, match="answered 401"):
            target.complete(QUESTIONS)
        target.close()


def test_a_filter_on_one_request_does_not_end_the_others() -> None:
    with answering(lambda path, body: refused("flagged", 403) if "question 3" in str(body) else said()) as server:
        target = opened(server.url, concurrency=1)
        kinds = [isinstance(answer, Completion) for answer in target.complete(QUESTIONS[:6])]
        assert kinds == [True, True, True, False, True, True]
        target.close()


def test_closing_ends_a_wait_and_a_slow_answer() -> None:
    with answering(lambda path, body: Canned(said().body, drip=0.5)) as server:
        target = opened(server.url, timeout_seconds=60.0)
        thread = threading.Thread(target=lambda: target.complete(QUESTIONS[:2]))
        thread.start()
        time.sleep(0.5)
        before = time.monotonic()
        target.close()
        thread.join()
        assert time.monotonic() - before < 30, "the answer alone, at two bytes a second, takes longer"
