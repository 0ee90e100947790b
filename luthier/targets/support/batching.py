"""What every engine does around its own work: checks, coalescing, stop strings, deterministic batches."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from luthier.errors import InputError
from luthier.target import Completion, Failure, Request, Usage

Answer = Completion | Failure


def complete_once_each(
    requests: Sequence[Request], serve: Callable[[list[Request]], list[Answer]]
) -> list[Completion | Failure]:
    """Serve equal requests once and hand the answer to each of them, in the order given.

    Greedy requests are equal when all but seed and top_p agree; sampled ones when the seed agrees too.
    The first of a group carries the attempts that were paid. The others carry the same text and the
    same (would-be) `usage` but no attempts: nothing of theirs reached the engine. A `Failure` is
    repeated likewise.

    Args:
        requests: Any number, checked with `check_request`.
        serve: Answers distinct requests, same length and order.

    Raises:
        InputError: a request that no engine can serve.
    """
    for request in requests:
        check_request(request)
    keys = [request.key("") for request in requests]
    first: dict[str, int] = {}
    for index, key in enumerate(keys):
        first.setdefault(key, index)
    answers = dict(zip(first, serve([requests[index] for index in first.values()]), strict=True))
    return [
        answers[key] if first[key] == index else replace(answers[key], attempts=()) for index, key in enumerate(keys)
    ]


def leaders(prompts: Sequence[list[int]]) -> list[int]:
    """Prompts that must be read before the others, so that each of those finds half of itself already read.

    Args:
        prompts: Token ids, in any order.

    Returns:
        Places: in sorted order, each prompt that shares less than half of itself with the last one chosen.
    """
    order = sorted(range(len(prompts)), key=lambda place: prompts[place])
    chosen = order[:1]
    for place in order[1:]:
        if 2 * _shared(prompts[chosen[-1]], prompts[place]) < len(prompts[place]):
            chosen.append(place)
    return chosen


def check_request(request: Request) -> None:
    """Refuse a request whose meaning would differ between engines.

    Raises:
        InputError: naming the field and the fix.
    """
    if request.max_tokens < 1:
        raise InputError(f"field max_tokens: {request.max_tokens} asks for nothing", fix="use 1 or more")
    if not 0.0 <= request.temperature <= 100.0:
        raise InputError(f"field temperature: {request.temperature} is out of range", fix="use 0 (greedy) or more")
    if not 0.0 < request.top_p <= 1.0:
        raise InputError(f"field top_p: {request.top_p} is out of range", fix="use a number in (0, 1]")
    if any(not text for text in request.stop) or any(not text for text in request.choices):
        raise InputError("field stop or choices: holds an empty text", fix="leave the empty text out")
    if len(set(request.choices)) != len(request.choices):
        raise InputError("field choices: holds the same text twice", fix="give each choice once")
    if request.choices and request.json_schema:
        raise InputError("fields choices and json_schema: both are given", fix="use one of them")
    if request.json_schema and not _is_object(request.json_schema):
        raise InputError("field json_schema: not the text of a JSON object", fix="give a JSON schema as text")
    if not isinstance(request.prompt, str) and not request.prompt:
        raise InputError("field prompt: no messages", fix="give at least one message")


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def cut_at_stop(text: str, stop: Sequence[str]) -> tuple[str, bool]:
    """The text before the earliest stop string, and whether there was one."""
    ends = [place for place in (text.find(mark) for mark in stop) if place >= 0]
    return (text[: min(ends)], True) if ends else (text, False)


def shared_seconds(seconds: float, calls: int) -> float:
    """Wall seconds of one call of a batch that took `seconds` together."""
    return round(seconds / max(calls, 1), 6)


def one_call(prompt_tokens: int, completion_tokens: int, seconds: float = 0.0) -> Usage:
    """Usage of a single attempt that reached the engine."""
    return Usage(1, prompt_tokens, completion_tokens, seconds)


def context_is_full() -> Completion:
    """The answer to a prompt that leaves no room in the context window: nothing, and nothing paid.

    Ours: the harness is at fault, not the machine, so it is an answer ("length") and not a `Failure`.
    """
    return Completion("", "length", Usage())


def chat_rows(request: Request) -> list[dict[str, Any]]:
    """The request's messages as the JSON objects that chat templates and servers take.

    A raw prompt gives one user message; callers that keep raw prompts raw ask `isinstance` first.
    """
    if isinstance(request.prompt, str):
        return [{"role": "user", "content": request.prompt}]
    return [{"role": message.role, "content": message.content} for message in request.prompt]


def _shared(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the common beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))
