"""One HTTP call with retries: what may be tried again, how long to wait, and a record of every try."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from luthier.errors import InputError, TargetError
from luthier.target import Attempt, Usage

Parsed = TypeVar("Parsed")
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 60.0
_RETRIED_STATUS = frozenset({408, 409, 425, 429})


@dataclass(frozen=True, slots=True)
class Policy:
    """How often and how patiently a call is tried.

    Attributes:
        retries: Further tries after the first.
        first_wait_seconds: Wait before the first retry; it doubles each time, times a jitter in [0.5, 1).
        longest_wait_seconds: Bound of one wait; a longer Retry-After ends the call as failed.
        where: Names the server in errors.
    """

    retries: int = 4
    first_wait_seconds: float = FIRST_WAIT_SECONDS
    longest_wait_seconds: float = LONGEST_WAIT_SECONDS
    where: str = ""

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise InputError(f"retries {self.retries} is negative", where="target.retries", fix="use 0 or more")


class AttemptError(Exception):
    """One try went wrong.

    Args:
        text: What happened.
        retry: Whether another try may help.
        usage: What the try cost as far as the server said.
        wait_seconds: What the server asked us to wait, 0 when it did not.
        fix: What the reader should do when no retry helps.
        status: HTTP status, 0 when there was none or it was fine.
    """

    def __init__(
        self,
        text: str,
        *,
        retry: bool,
        usage: Usage,
        wait_seconds: float = 0.0,
        fix: str = "look at the server's log",
        status: int = 0,
    ) -> None:
        super().__init__(text)
        self.text, self.retry, self.usage = text, retry, usage
        self.wait_seconds, self.fix, self.status = wait_seconds, fix, status


class GaveUpError(Exception):
    """No try answered.

    Args:
        error: The last try's problem, with where and fix.
        attempts: All tries.
        status: HTTP status of the last try, 0 when there was none.
    """

    def __init__(self, error: TargetError, attempts: tuple[Attempt, ...], status: int) -> None:
        super().__init__(str(error))
        self.error, self.attempts, self.status = error, attempts, status


def attempt(
    send: Callable[[], str], read: Callable[[Mapping[str, Any], float], Parsed], policy: Policy, seed: str
) -> tuple[Parsed, tuple[Attempt, ...]]:
    """Send until an answer can be read; return it with the tries that failed before it.

    Args:
        send: One HTTP attempt through the official client, giving the body's text.
        read: Makes the result from the JSON object and the attempt's wall seconds; raises `AttemptError`.
        policy: How often to try.
        seed: Decides the jitter, so that equal calls wait alike.

    Raises:
        GaveUpError: every try failed, or one in a way that no retry mends.
    """
    failed: list[Attempt] = []
    jitter = random.Random(seed)
    while True:
        try:
            return _once(send, read), tuple(failed)
        except AttemptError as problem:
            failed.append(Attempt(problem.usage, problem.text))
            wait = policy.first_wait_seconds * 2 ** (len(failed) - 1) * jitter.uniform(0.5, 1.0)
            wait = max(min(wait, policy.longest_wait_seconds), problem.wait_seconds)
            if not problem.retry or len(failed) > policy.retries or wait > policy.longest_wait_seconds:
                tries = f" after {len(failed)} tries" if len(failed) > 1 else ""
                error = TargetError(problem.text + tries, where=policy.where, fix=problem.fix)
                raise GaveUpError(error, tuple(failed), problem.status) from problem
        time.sleep(wait)


def _once(send: Callable[[], str], read: Callable[[Mapping[str, Any], float], Parsed]) -> Parsed:
    import openai

    started = time.perf_counter()

    def spent(calls: int) -> Usage:
        return Usage(calls=calls, seconds=round(time.perf_counter() - started, 6))

    try:
        body = send()
    except openai.APITimeoutError as error:
        raise AttemptError(
            "the server timed out", retry=True, usage=spent(1), fix="raise target.timeout_seconds"
        ) from error
    except openai.APIStatusError as error:
        raise _status_problem(error, spent) from error
    except openai.APIConnectionError as error:
        refused = "refused" in repr(error.__cause__)
        text = "the connection was refused" if refused else f"the connection broke ({error.__cause__ or error})"
        raise AttemptError(text, retry=True, usage=spent(0 if refused else 1), fix="start the server") from error
    try:
        value = json.loads(body)
    except ValueError as error:
        raise AttemptError("the server's answer is not JSON", retry=True, usage=spent(1)) from error
    if not isinstance(value, dict):
        raise AttemptError("the server's answer is not a JSON object", retry=True, usage=spent(1))
    return read(value, time.perf_counter() - started)


def _status_problem(error: Any, spent: Callable[[int], Usage]) -> AttemptError:
    """Map an HTTP error status; only 5xx is taken to have reached the engine."""
    status = int(error.status_code)
    retry = status in _RETRIED_STATUS or status >= 500
    fix = "look at the server's log"
    if status in (401, 403):
        fix = "set OPENAI_API_KEY to a key that the server takes"
    elif status == 404:
        fix = "correct target.base_url (it ends in /v1) and target.model"
    elif status == 429:
        fix = "lower target.concurrency or raise target.retries"
    text = f"the server answered {status} ({_message(error)})"
    wait = _retry_after(error.response.headers.get("retry-after", "")) if retry else 0.0
    usage = spent(1 if status >= 500 else 0)
    return AttemptError(text, retry=retry, usage=usage, wait_seconds=wait, fix=fix, status=status)


def _message(error: Any) -> str:
    body = error.body
    inner = body.get("error", body) if isinstance(body, dict) else None
    message = inner.get("message", "") if isinstance(inner, dict) else ""
    return " ".join(str(message or error.message).split())[:300]


def _retry_after(value: str) -> float:
    """Seconds that a Retry-After header asks for: a number or an HTTP date; 0 when it says neither."""
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except ValueError:
        return 0.0
