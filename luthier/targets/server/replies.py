"""What a server's reply means: an answer of the target, or a fault of the machine. docs/servers.md has the table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from luthier.target import Attempt, Completion, Usage
from luthier.targets.server.redaction import Redactor
from luthier.targets.server.refusals import read_error
from luthier.targets.support.attempts import AttemptError
from luthier.targets.support.batching import cut_at_stop

_MOST_TOKENS = 2**40
"""Ours. No call reads or writes more; sums of such counts fit the store's 64 bits."""
_STOPPED = frozenset({"stop", "eos", "eos_token", "end_turn", "stop_sequence"})
_CUT = frozenset({"length", "max_tokens", "max_new_tokens"})
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SNAPSHOT = re.compile(r"-(\d{4})-?(\d\d)-?(\d\d)")
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
_BEGIN, _END = "<think>", "</think>"
_NO_ROOM = "set target.thinking_tokens to the room that the model needs to think, or switch its thinking off"


@dataclass(frozen=True, slots=True)
class Reply:
    """The text of one generation, as far as a server gives it.

    Attributes:
        text: New text, thoughts and stop strings removed, no lone surrogates.
        finish: "stop" or "length".
        usage: Of this attempt.
    """

    text: str
    finish: Literal["stop", "length"]
    usage: Usage

    def completion(self, failed: Sequence[Attempt]) -> Completion:
        """The answer to a request, after the tries that failed."""
        return Completion(self.text, self.finish, self.usage, (*failed, Attempt(self.usage)))


class ReplyReader:
    """Reads bodies that may be anything.

    Args:
        model: Name that the server was asked for.
        aliases: Other names that it gives this model.
        thinking: Whether the settings leave room for a model that thinks before its answer.
        redact: Cleans what is told of errors.
    """

    def __init__(self, model: str, aliases: frozenset[str], thinking: bool, redact: Redactor) -> None:
        self._model, self._names = model, aliases | {model}
        self._thinking, self._redact = thinking, redact

    def read(self, body: Mapping[str, Any], seconds: float, stop: Sequence[str], *, chat: bool) -> Reply:
        """The generation in a body of /completions or (`chat`) /chat/completions.

        Raises:
            AttemptError: it holds no answer of the target.
        """
        usage = self.check(body, seconds)
        choices = body.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(first, dict):
            raise AttemptError("the server's answer has no choices", retry=True, usage=usage)
        message = first.get("message") if chat else {"content": first.get("text")}
        if not isinstance(message, dict):
            raise AttemptError("the server's answer has no message", retry=True, usage=usage)
        finish = self._finish(first.get("finish_reason"), message, usage)
        text, thought = self._answer(message, finish, usage)
        if not thought and _thinking_tokens(body) and finish == "length" and not text:
            thought = True
        if thought and not self._thinking and (finish == "length" or not text.strip()):
            raise AttemptError("the model thought until its room was used", retry=False, usage=usage, fix=_NO_ROOM)
        text, stopped = cut_at_stop(_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text), stop)
        spoke = thought or bool(message.get("content"))
        return Reply(text, "stop" if stopped else finish, self._counted(usage, spoke=spoke))

    def check(self, body: Mapping[str, Any], seconds: float) -> Usage:
        """What a reply cost, for one that is no error and comes from our model.

        Raises:
            AttemptError: an error, another model, or counts that cannot be.
        """
        unknown = Usage(1, seconds=seconds)
        if (stated := body.get("error")) and not body.get("choices"):
            error = stated if isinstance(stated, Mapping) else {"message": stated}
            code = error.get("code", error.get("status"))
            status = code if isinstance(code, int) and 400 <= code < 600 else 500
            raise read_error(error, status, unknown, self._redact)
        usage = _usage(body, seconds)
        if usage is None:
            problem = "the server counts a number of tokens that cannot be"
            raise AttemptError(problem, retry=False, usage=unknown, fix="use a server that fills `usage`")
        served = body.get("model")
        if not isinstance(served, str) or not served:
            raise AttemptError("the server does not say which model answered", retry=True, usage=usage)
        if served not in self._names and not self._is_snapshot(served):
            told = self._redact(repr(served), most=100)
            raise AttemptError(
                f"the server answered with model {told} instead of {self._model!r}",
                kind="denied",
                retry=False,
                usage=usage,
                fix="point target.base_url at a server of this model, or write the served name under target.model",
            )
        return usage

    def _is_snapshot(self, served: str) -> bool:
        """Whether the name is ours with a date after it; `name-70b` is another model."""
        match = _SNAPSHOT.fullmatch(served.removeprefix(self._model)) if served.startswith(self._model) else None
        if match is None:
            return False
        try:
            date(*map(int, match.groups()))
        except ValueError:
            return False
        return True

    def _finish(self, stated: object, message: Mapping[str, Any], usage: Usage) -> Literal["stop", "length"]:
        if message.get("tool_calls") or message.get("function_call"):
            problem = "the server made a tool call out of the answer, though no tools were offered"
            raise AttemptError(problem, retry=False, usage=usage, fix="start the server without a tool parser")
        if isinstance(stated, str) and stated in _STOPPED | _CUT:
            return "stop" if stated in _STOPPED else "length"
        if stated == "content_filter":
            fix = "use a server without a filter, or leave the question out"
            problem = "the provider's filter removed the answer (content_filter)"
            raise AttemptError(problem, kind="refused", retry=False, usage=usage, fix=fix)
        told = self._redact(repr(stated), most=60) if isinstance(stated, str | None) else type(stated).__name__
        raise AttemptError(f"the server ended with {told} instead of stop or length", retry=False, usage=usage)

    def _answer(self, message: Mapping[str, Any], finish: str, usage: Usage) -> tuple[str, bool]:
        """The text without thoughts, and whether there were any."""
        content, refusal = message.get("content"), message.get("refusal")
        thoughts = any(isinstance(message.get(name), str) and message[name].strip() for name in _THOUGHTS)
        if content is None and isinstance(refusal, str) and refusal:
            return refusal, thoughts
        if not isinstance(content, str | None):
            problem = f"the server's answer is a {type(content).__name__} instead of a text"
            raise AttemptError(problem, retry=False, usage=usage)
        text, spoken = _without_thoughts(content or "")
        if thoughts and not text.strip() and finish == "stop" and self._thinking:
            problem = "the server took the whole answer for thoughts"
            raise AttemptError(problem, retry=False, usage=usage, fix="start it with the model's own reasoning parser")
        if content is None and not thoughts and finish == "stop":
            raise AttemptError("the server gave no text", retry=True, usage=usage)
        return text, thoughts or spoken

    def _counted(self, usage: Usage, *, spoke: bool) -> Usage:
        """The usage, complete; a text that cost nothing was not counted."""
        if usage.prompt_tokens == 0 or (spoke and usage.completion_tokens == 0):
            what = "no tokens" if usage.prompt_tokens == 0 else "no completion tokens"
            problem = f"the server counts {what}"
            raise AttemptError(problem, retry=False, usage=usage, fix="use a server that fills `usage`")
        return usage


def _without_thoughts(text: str) -> tuple[str, bool]:
    """The text after `</think>`, and whether thoughts stood before it; "" when they have no end.

    The begin may be missing: templates of some models put it into the prompt. Thoughts of nothing but space, which
    models give whose thinking is switched off, are none.
    """
    before, end, after = text.partition(_END)
    begun = before.lstrip().startswith(_BEGIN)
    if not end:
        return ("", True) if begun else (text, False)
    thoughts = before.lstrip().removeprefix(_BEGIN).strip()
    return after.lstrip(), bool(thoughts)


def _thinking_tokens(body: Mapping[str, Any]) -> bool:
    """Whether the usage speaks of thoughts that the server keeps to itself."""
    counts = body.get("usage")
    details = counts.get("completion_tokens_details") if isinstance(counts, dict) else None
    count = details.get("reasoning_tokens") if isinstance(details, dict) else None
    return isinstance(count, int) and count > 0


def _usage(body: Mapping[str, Any], seconds: float) -> Usage | None:
    """What the server says a call cost, a missing field as 0 unless the total gives it; None when it cannot be."""
    counts = body.get("usage")
    if counts is None:
        return Usage(1, seconds=seconds)
    if not isinstance(counts, dict):
        return None
    stated = [counts.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")]
    if any(type(value) not in (int, type(None)) or not 0 <= (value or 0) <= _MOST_TOKENS for value in stated):
        return None
    read, written, total = stated
    if written is None and total is not None and read is not None:
        written = max(total - read, 0)
    return Usage(1, read or 0, written or 0, round(seconds, 6))
