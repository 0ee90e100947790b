"""`ScriptedTarget`: a target whose answers and failures are known beforehand. Proves mechanisms in tests."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from luthier.errors import InputError, TargetError
from luthier.files import digest_text
from luthier.target import Attempt, Completion, Failure, Request, Usage
from luthier.targets.support.batching import Answer, complete_once_each, cut_at_stop, one_call

FaultKind = Literal["error", "down", "garbage", "slow", "short"]
GARBAGE = "\ufffd\x00}{ \ufffd"
_FAULTS: tuple[FaultKind, ...] = ("error", "down", "garbage", "slow", "short")


@dataclass(frozen=True, slots=True)
class Fault:
    """One known failure of a scripted target.

    Attributes:
        kind: "error": the call becomes a `Failure`. "down": the whole batch raises `TargetError`.
            "garbage": the answer is `GARBAGE`, constraints or not. "slow": the call sleeps `seconds`,
            which its usage shows. "short": `complete` returns one answer too few.
        at: Numbers of the calls that fail, counted over the target's life from 0.
        pattern: Regular expression; calls whose prompt text it finds fail. "" never matches.
        times: How often `pattern` fires (0: always); `at` is not limited by it.
        seconds: Wall seconds of a "slow" call.
    """

    kind: FaultKind
    at: frozenset[int] = frozenset()
    pattern: str = ""
    times: int = 0
    seconds: float = 0.01


class ScriptedTarget:
    r"""Answers from a pure function, or from the first rule whose pattern the prompt holds.

    Tokens are whitespace-separated words. Usage has zero seconds, so that rows are comparable.
    Choices: the scripted answer when it is one of them, else the first. `json_schema` is not enforced.

    Args:
        rules: A pure function request -> text, or (regular expression, template) pairs; templates use
            `\1` and `\g<name>` as `re.Match.expand` does. Patterns see `prompt_text(request)`.
        name: Part of the fingerprint; give functions that differ names that differ.
        faults: Known failures; the first that fits a call wins.
        default: The answer when no rule fits.

    Attributes:
        calls: Requests served so far (coalesced ones once, failed ones too).
        batches: Distinct requests of each `complete` that reached the script.
        closed: Whether `close` was called.

    Raises:
        InputError: a pattern that does not compile or a fault of unknown kind.
    """

    def __init__(
        self,
        rules: Callable[[Request], str] | Sequence[tuple[str, str]],
        *,
        name: str = "scripted",
        faults: Sequence[Fault] = (),
        default: str = "",
    ) -> None:
        self.name = name
        self._answer = rules if callable(rules) else _rule_answers(rules, default)
        content = "" if callable(rules) else repr([*rules, default])
        self.fingerprint = f"scripted-{digest_text(f'{name} {content}')[:16]}"
        for fault in faults:
            if fault.kind not in _FAULTS:
                raise InputError(f"fault kind {fault.kind!r} is unknown", fix=f"use one of {', '.join(_FAULTS)}")
        self._faults = tuple((fault, _compile(fault.pattern) if fault.pattern else None) for fault in faults)
        self._fired = [0] * len(self._faults)
        self.calls = 0
        self.batches: list[int] = []
        self.closed = False

    def complete(self, requests: Sequence[Request]) -> list[Completion | Failure]:
        """Answer requests in order; see the class and `Fault` for what may go wrong.

        Raises:
            TargetError: a "down" fault fired.
        """
        short: list[bool] = []

        def serve(distinct: list[Request]) -> list[Answer]:
            self.batches.append(len(distinct))
            answers = []
            for request in distinct:
                fault = self._next_fault(request)
                self.calls += 1
                short.append(fault is not None and fault.kind == "short")
                answers.append(self._serve_one(request, fault))
            return answers

        answers = complete_once_each(requests, serve)
        return answers[:-1] if any(short) else answers

    def choice_logprobs(self, requests: Sequence[Request]) -> list[tuple[float, ...]]:
        """Log 0.9 for the scripted answer, the rest shared; uniform when it is none of the choices."""
        rows: list[tuple[float, ...]] = []
        for request in requests:
            self.calls += 1
            count = len(request.choices)
            if self._answer(request) not in request.choices or count == 1:
                rows.append((-math.log(count),) * count)
                continue
            right = self._answer(request)
            rows.append(tuple(math.log(0.9 if text == right else 0.1 / (count - 1)) for text in request.choices))
        return rows

    def count_tokens(self, request: Request) -> int:
        """Words of the prompt text; exact by definition."""
        return len(prompt_text(request).split())

    def close(self) -> None:
        """Mark the target closed."""
        self.closed = True

    def _next_fault(self, request: Request) -> Fault | None:
        for index, (fault, pattern) in enumerate(self._faults):
            if self.calls in fault.at:
                return fault
            left = not fault.times or self._fired[index] < fault.times
            if left and pattern is not None and pattern.search(prompt_text(request)):
                self._fired[index] += 1
                return fault
        return None

    def _serve_one(self, request: Request, fault: Fault | None) -> Answer:
        read = self.count_tokens(request)
        if fault is not None and fault.kind == "down":
            raise TargetError("the scripted target is down", where=self.name, fix="call again")
        if fault is not None and fault.kind == "error":
            error = TargetError("the scripted target failed on purpose", where=self.name, fix="call again")
            return Failure(error, (Attempt(one_call(read, 0), error.problem),))
        seconds = 0.0
        if fault is not None and fault.kind == "slow":
            time.sleep(fault.seconds)
            seconds = fault.seconds
        if fault is not None and fault.kind == "garbage":
            return _completion(GARBAGE, "stop", one_call(read, len(GARBAGE.split()), seconds))
        text = self._answer(request)
        if request.choices:
            text = text if text in request.choices else request.choices[0]
        text, _ = cut_at_stop(text, request.stop)
        ends = [match.end() for match in re.finditer(r"\S+", text)]
        longer = len(ends) > request.max_tokens
        if longer:
            text = text[: ends[request.max_tokens - 1]]
        usage = one_call(read, min(len(ends), request.max_tokens), seconds)
        return _completion(text, "length" if longer else "stop", usage)


def prompt_text(request: Request) -> str:
    """What rules and faults match: the raw prompt, or the messages as `role: content` lines."""
    if isinstance(request.prompt, str):
        return request.prompt
    return "\n".join(f"{message.role}: {message.content}" for message in request.prompt)


def _completion(text: str, finish: Literal["stop", "length"], usage: Usage) -> Completion:
    return Completion(text, finish, usage, (Attempt(usage),))


def _rule_answers(rules: Sequence[tuple[str, str]], default: str) -> Callable[[Request], str]:
    compiled = [(_compile(pattern), template) for pattern, template in rules]

    def answer(request: Request) -> str:
        for pattern, template in compiled:
            match = pattern.search(prompt_text(request))
            if match is not None:
                return match.expand(template)
        return default

    return answer


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.DOTALL)
    except re.error as error:
        raise InputError(f"pattern {pattern!r} does not compile ({error})", fix="correct the rule") from error
