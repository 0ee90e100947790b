"""What a server's error means: whether to try again, to wait, to change the request, or to give up for good."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from luthier.target import Usage
from luthier.targets.server.redaction import Redactor
from luthier.targets.support.attempts import AttemptError, FaultKind

_TOLD = 300
_BUSY = frozenset({408, 409, 425, 429})
_AWAY = frozenset({502, 503, 504})
_DENIED = frozenset({401, 402, 403, 404, 405, 501})
_TOO_LONG_CODES = re.compile(r"context_length_exceeded|exceed_context_size_error|string_above_max_length")
_TOO_LONG = re.compile(
    r"context (?:length|size|window)|maximum model length|max_model_len|context the overflows"
    r"|(?:prompt|input|request)(?: is)? too (?:long|large)|too many (?:input )?tokens|tokens? exceeds?"
    r"|token count .{0,40}exceeds|max_new_tokens.{0,20}must be|max(?:_completion|_output)?_tokens.{0,40}too large"
    r"|at most \d+ (?:completion|output) tokens|reduce the length"
)
_RATE = re.compile(r"rate[ _]limit|tokens per (?:minute|day)|\btpm\b|quota")
_UNKNOWN = re.compile(r"unsupported|not supported|does not support|unrecognized|unknown|unexpected|not permitted|use '")
PARAMETERS = ("max_tokens", "temperature", "top_p", "seed", "stop", "structured_outputs", "response_format")
"""Parameters that a request can do without, or has another name for."""
_LIMIT = re.compile(
    r"(?:maximum context length is|max_model_len\s*=|maximum model length of|context (?:length|size|window)"
    r"(?: is| of| \()|must be <=)\s*\(?(\d+)"
)
_PROMPT = re.compile(
    r"(\d+) (?:input tokens|in the messages|in your prompt|`inputs` tokens)|(?:prompt|input) \((?:length )?(\d+)"
    r"|resulted in (\d+)"
)
_AT_MOST = re.compile(r"at most (\d+) (?:completion|output|new)")


def read_status(error: Any, spent: Callable[[int], Usage], redact: Redactor) -> AttemptError:
    """An HTTP error status of the official client (`openai.APIStatusError`); `spent` makes a usage of a call count."""
    status = int(error.status_code)
    body = error.body if isinstance(error.body, Mapping) else {}
    inner = body.get("error", body)
    stated = inner if isinstance(inner, Mapping) else {"message": inner}
    if not stated.get("message"):
        stated = {**stated, "message": error.message}
    wait = _retry_after(error.response.headers.get("retry-after", ""))
    return read_error(stated, status, spent(1 if status >= 500 else 0), redact, wait)


def read_error(
    stated: Mapping[str, Any], status: int, usage: Usage, redact: Redactor, wait_seconds: float = 0.0
) -> AttemptError:
    """The meaning of an error object (`message`, `code`, `type`, `param`).

    Args:
        stated: The object; any field may be missing or odd.
        status: HTTP status, or the code that stands in for it in a reply that is an error with status 200.
        usage: What the try cost.
        redact: Cleans the message.
        wait_seconds: What the server asked to wait.
    """
    # The context's wording is looked for in all of a message, also where only its beginning is told.
    message = redact(_text(stated.get("message")), most=2000)
    words = f"{message} {_text(stated.get('code'))} {_text(stated.get('type'))}".lower()
    kind, parameter = _kind(status, message.lower(), words, stated.get("param"))
    retry = kind in ("fault", "down")
    return AttemptError(
        f"the server answered {status} ({message[:_TOLD] or 'no message'})",
        kind=kind,
        retry=retry,
        usage=usage,
        wait_seconds=wait_seconds if retry else 0.0,
        fix=_fix(status),
        status=status,
        parameter=parameter,
    )


def _text(value: object) -> str:
    """A text of the error; objects are nobody's words, and may be nested deeply."""
    return str(value) if isinstance(value, str | int) else ""


def smaller_room(text: str, sent: int, least: int = 1) -> int:
    """How many new tokens to ask for after a refusal as too long; 0 when the prompt leaves no room.

    A server that tells its window and the prompt's tokens is believed; else the number sent is halved: a refusal
    costs nothing.

    Args:
        text: The server's words.
        sent: New tokens asked for, which were too many.
        least: Fewer are of no use.
    """
    text = text.lower()
    limit, prompt, most = _LIMIT.search(text), _PROMPT.search(text), _AT_MOST.search(text)
    room = sent // 2
    if "exceeds the available context size" in text or "even without any output" in text:
        room = 0
    elif limit and prompt:
        stated = int(limit.group(1)) - int(next(group for group in prompt.groups() if group))
        room = stated if stated < sent else room
    elif most and 0 < int(most.group(1)) < sent:
        room = int(most.group(1))
    elif limit and "max_tokens" in text and 1 < int(limit.group(1)) <= sent:
        room = int(limit.group(1)) - 1
    return room if room >= least else 0


def _kind(status: int, message: str, words: str, param: object) -> tuple[FaultKind, str]:
    if status == 429 and "insufficient_quota" in words:
        return "denied", ""
    if status in _BUSY:
        return "fault", ""
    if _TOO_LONG_CODES.search(words):
        return "too_long", ""
    if status in (400, 413, 422) and not _RATE.search(words):
        if "max_completion_tokens" in message and "instead" in message:
            return "parameter", "max_tokens"
        if status == 413 or _TOO_LONG.search(words):
            return "too_long", ""
        if parameter := _unknown_parameter(message, words, param):
            return "parameter", parameter
    if status in _DENIED:
        return "denied", ""
    if status in _AWAY:
        return "down", ""
    return ("fault" if status >= 500 else "refused"), ""


def _unknown_parameter(message: str, words: str, param: object) -> str:
    if not _UNKNOWN.search(words):
        return ""
    if param in PARAMETERS:
        return str(param)
    return next((name for name in PARAMETERS if re.search(rf"\b{name}\b", message)), "")


def _fix(status: int) -> str:
    if status in (401, 403):
        return "set the environment variable OPENAI_API_KEY to a key that the server takes"
    if status == 402:
        return "pay the account, or use another one"
    if status in (404, 405, 501):
        return "correct target.base_url (it ends in /v1) and target.model"
    if status == 429:
        return "lower target.concurrency or raise target.retries"
    return "look at the server's log"


def _retry_after(value: str) -> float:
    """Seconds that a Retry-After header asks for: a number or an HTTP date; 0 when it says neither."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return max(seconds, 0.0) if seconds == seconds else 0.0
