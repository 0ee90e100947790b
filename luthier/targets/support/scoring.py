"""`ChoiceScorer`: log-probabilities of texts after a prompt, as servers with `echo` give them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from luthier.target import Attempt, Request, Usage
from luthier.targets.server.replies import ReplyReader
from luthier.targets.server.wire import Wire
from luthier.targets.support.attempts import Ask, AttemptError
from luthier.targets.support.batching import chat_rows


class ChoiceScorer:
    """Scores one choice at a time. Threads may use it at once.

    Args:
        wire, reader, ask: How to exchange, read and repeat.
        model: Name that the server lists.
        url: Root of the server, with its /v1.
        tokenizes: Whether the server has vLLM's /tokenize.
    """

    def __init__(self, wire: Wire, reader: ReplyReader, ask: Ask, model: str, url: str, *, tokenizes: bool) -> None:
        self._wire, self._reader, self._ask, self._model = wire, reader, ask, model
        self._tokenize = url.removesuffix("/v1") + "/tokenize" if tokenizes else ""

    def takes(self, request: Request) -> bool:
        """Whether the server can score what follows this prompt: messages need its tokens."""
        return bool(self._tokenize) or isinstance(request.prompt, str)

    def score(self, request: Request, choice: str) -> tuple[float, tuple[Attempt, ...]]:
        """Summed log-probability of a choice after a prompt that `takes` allows, and every try, the last one paid for.

        With /tokenize prompt and choice are tokenised apart, as the in-process engines do; else the tokens that
        begin inside the choice are summed.

        Raises:
            GaveUpError: of kind "refused" when the server gives no log-probabilities.
        """
        prompt, tail = self._token_ids(request), self._token_ids(Request(choice))
        sent: Any = [*prompt, *tail] if self._tokenize else f"{request.prompt}{choice}"

        def read(body: Mapping[str, Any], seconds: float) -> tuple[float, Usage]:
            usage = self._reader.check(body, seconds)
            try:
                logprobs = body["choices"][0]["logprobs"]
                values = logprobs["token_logprobs"]
                if self._tokenize:
                    chosen = values[-len(tail) :]
                else:
                    places = zip(values, logprobs["text_offset"], strict=True)
                    chosen = [value for value, at in places if at >= len(str(request.prompt))]
                total = float(sum(chosen))
                if not chosen or not math.isfinite(total):
                    raise ValueError
            except (KeyError, IndexError, TypeError, ValueError, OverflowError):
                problem = "the server gives no log-probabilities of the prompt"
                fix = "use a server with echo and logprobs"
                raise AttemptError(problem, kind="refused", retry=False, usage=usage, fix=fix) from None
            return total, usage

        body = {"model": self._model, "prompt": sent, "max_tokens": 0, "echo": True, "logprobs": 1, "temperature": 0.0}
        (total, usage), failed = self._ask(lambda: self._wire.post("/completions", body), read, request.key(choice))
        return total, (*failed, Attempt(usage))

    def _token_ids(self, request: Request) -> list[int]:
        """Prompt tokens by /tokenize, template included; none where the server has no such thing."""
        if not self._tokenize:
            return []
        body: dict[str, Any] = {"model": self._model}
        if isinstance(request.prompt, str):
            body |= {"prompt": request.prompt, "add_special_tokens": False}
        else:
            body |= {"messages": chat_rows(request), "add_generation_prompt": True}

        def read(answer: Mapping[str, Any], seconds: float) -> list[int]:
            ids = answer.get("tokens")
            if not isinstance(ids, list) or not all(isinstance(value, int) for value in ids):
                raise AttemptError("/tokenize gives no tokens", retry=True, usage=Usage(seconds=seconds))
            return ids

        ids: list[int] = self._ask(lambda: self._wire.post(self._tokenize, body), read, request.key("tokens"))[0]
        return ids
