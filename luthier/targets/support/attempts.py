"""One HTTP call with retries: what may be tried again, how long to wait, and a record of every try."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from luthier.errors import InputError, TargetError
from luthier.target import Attempt, Usage
from luthier.targets.server.gate import ClosedError, Gate

Parsed = TypeVar("Parsed")
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 60.0

Ask = Callable[[Callable[[], str], Any, str], tuple[Any, tuple[Attempt, ...]]]
"""`attempt` with the policy and the gate of one server: takes send, read and seed."""

FaultKind = Literal["fault", "down", "refused", "denied", "too_long", "parameter"]
"""What went wrong with a try.

fault: The machine gave an error or something that is no answer.
down: Nobody answered, or a router says that nobody is there.
refused: The server does not take this request.
denied: The server serves nothing to us: the key, the model, the route or the account is wrong.
too_long: Prompt and new tokens do not fit into the context window.
parameter: The server does not know a parameter.
"""


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
        text: What happened, without secrets.
        kind: See `FaultKind`.
        retry: Whether another try may help.
        usage: What the try cost as far as the server said.
        wait_seconds: What the server asked us to wait, 0 when it did not.
        fix: What the reader should do when no retry helps.
        status: HTTP status, 0 when there was none or it was fine.
        parameter: Name of the one that the server does not know, for kind "parameter".
    """

    def __init__(
        self,
        text: str,
        *,
        kind: FaultKind = "fault",
        retry: bool,
        usage: Usage,
        wait_seconds: float = 0.0,
        fix: str = "look at the server's log",
        status: int = 0,
        parameter: str = "",
    ) -> None:
        super().__init__(text)
        self.text, self.kind, self.retry, self.usage = text, kind, retry, usage
        self.wait_seconds, self.fix, self.status, self.parameter = wait_seconds, fix, status, parameter


class GaveUpError(Exception):
    """No try answered.

    Args:
        error: The last try's problem, with where and fix.
        attempts: All tries.
        last: The last try; None when the gate let no try through.
    """

    def __init__(self, error: TargetError, attempts: tuple[Attempt, ...], last: AttemptError | None = None) -> None:
        super().__init__(str(error))
        self.error, self.attempts, self.last = error, attempts, last


def attempt(
    send: Callable[[], str], read: Callable[[Mapping[str, Any], float], Parsed], policy: Policy, seed: str, gate: Gate
) -> tuple[Parsed, tuple[Attempt, ...]]:
    """Send until an answer can be read; return it with the tries that failed before it.

    Args:
        send: One HTTP attempt, giving the body's text; raises `AttemptError`.
        read: Makes the result from the JSON object and the attempt's wall seconds; raises `AttemptError`.
        policy: How often to try.
        seed: Decides the jitter, so that equal calls wait alike.
        gate: Asked before every try, and told of its end.

    Raises:
        GaveUpError: every try failed, or one in a way that no retry mends, or the gate is closed.
    """
    failed: list[Attempt] = []
    jitter = random.Random(seed)
    while True:
        try:
            gate.enter()
            result = _once(send, read)
        except ClosedError as closed:
            ended = GaveUpError(closed.error, tuple(failed))
            break
        except AttemptError as problem:
            failed.append(Attempt(problem.usage, problem.text))
            wait = policy.first_wait_seconds * 2 ** (len(failed) - 1) * jitter.uniform(0.5, 1.0)
            wait = max(min(wait, policy.longest_wait_seconds), problem.wait_seconds)
            tries = f" after {len(failed)} tries" if len(failed) > 1 else ""
            error = TargetError(problem.text + tries, where=policy.where, fix=problem.fix)
            if problem.kind == "down":
                gate.suspect(problem.text)
            if not problem.retry or len(failed) > policy.retries or wait > policy.longest_wait_seconds:
                gate.gave_up(error, problem.kind, problem.status)
                ended = GaveUpError(error, tuple(failed), problem)
                break
        else:
            gate.answered()
            return result, tuple(failed)
        gate.sleep(wait)
    # Outside the handlers: what the library raised below may quote a key, and must not hang on this error.
    raise ended


def _once(send: Callable[[], str], read: Callable[[Mapping[str, Any], float], Parsed]) -> Parsed:
    started = time.perf_counter()
    body = send()
    seconds = round(time.perf_counter() - started, 6)
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if value is None:
        raise AttemptError("the server's answer is not JSON", retry=True, usage=Usage(1, seconds=seconds))
    if not isinstance(value, dict):
        raise AttemptError("the server's answer is not a JSON object", retry=True, usage=Usage(1, seconds=seconds))
    return read(value, seconds)
