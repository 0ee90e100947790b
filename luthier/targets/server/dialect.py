"""`Dialect`: how a request is written for one server, and what its refusals taught about it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from luthier.errors import InputError
from luthier.target import Request
from luthier.targets.server.refusals import PARAMETERS
from luthier.targets.support.batching import chat_rows

_CHAT, _RAW = "/chat/completions", "/completions"


class Dialect:
    """Writes requests as JSON bodies. Threads may use it at once.

    Args:
        model: Name that the server lists.
        vllm: Whether the server takes vLLM's own parameters.
        chat_only: Whether it has no /completions, so that a raw prompt goes out as one user message.
        thinking_tokens: Further room of a chat answer, for thoughts.
        say: Takes a line when the server refuses a parameter.
    """

    def __init__(
        self, model: str, *, vllm: bool, chat_only: bool, thinking_tokens: int, say: Callable[[str], None]
    ) -> None:
        self.vllm, self.chat_only = vllm, chat_only
        self._model, self._thinking, self._say = model, thinking_tokens, say
        self._lock = threading.Lock()
        self._left_out: frozenset[str] = frozenset()

    def check(self, request: Request) -> None:
        """Refuse what this server cannot express.

        Raises:
            InputError: a JSON schema for a raw prompt, elsewhere than on vLLM.
        """
        if request.json_schema and not self.vllm and not self.is_chat(request):
            raise InputError("field json_schema: this server takes it with messages only", fix="use chat messages")

    def is_chat(self, request: Request) -> bool:
        """Whether the request goes to /chat/completions."""
        return self.chat_only or not isinstance(request.prompt, str)

    @property
    def constrains_choices(self) -> bool:
        """Whether the server can hold an answer to a list of texts."""
        return self.vllm and "structured_outputs" not in self._left_out

    def room(self, request: Request) -> int:
        """New tokens to ask for: the longest choice fits, and thoughts do where the model has its chat form."""
        most = max(request.max_tokens, self.least_room(request))
        return most + self._thinking if self.is_chat(request) else most

    def least_room(self, request: Request) -> int:
        """Fewer new tokens are of no use."""
        return max((len(choice.encode()) + 1 for choice in request.choices), default=1)

    def write(self, request: Request, room: int) -> tuple[str, dict[str, Any]]:
        """Path and body that ask for at most `room` new tokens."""
        chat = self.is_chat(request)
        body: dict[str, Any] = {"model": self._model, "temperature": request.temperature}
        if request.temperature > 0:
            body |= {"top_p": request.top_p, "seed": request.seed % 2**32}
        # Thoughts may hold a stop text, and must not end there.
        if request.stop and not (chat and self._thinking):
            body["stop"] = list(request.stop)
        if request.choices:
            body["structured_outputs"] = {"choice": list(request.choices)}
        body = {name: value for name, value in body.items() if name not in self._left_out}
        if request.json_schema and self.vllm:
            body["structured_outputs"] = {"json": json.loads(request.json_schema)}
        elif request.json_schema:
            schema = {"name": "answer", "strict": True, "schema": json.loads(request.json_schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        body["max_completion_tokens" if chat and "max_tokens" in self._left_out else "max_tokens"] = room
        if chat:
            return _CHAT, {**body, "messages": chat_rows(request)}
        if self.vllm:
            body["add_special_tokens"] = False
        return _RAW, {**body, "prompt": request.prompt}

    def never_constrain(self) -> None:
        """The server ignored choices that it was held to."""
        with self._lock:
            self._left_out |= {"structured_outputs"}

    def learn(self, parameter: str, body: dict[str, Any], request: Request) -> bool:
        """Write later requests without a parameter that the server refused in `body`; whether that is possible.

        `max_tokens` is called `max_completion_tokens` then. Stop texts are cut off here as well. A temperature that
        a reasoning model refuses is left to the server, and said. A JSON schema is no choice of ours to leave out.
        """
        if parameter not in body or parameter not in PARAMETERS:
            return False
        if request.json_schema and parameter in ("structured_outputs", "response_format"):
            return False
        with self._lock:
            if parameter not in self._left_out and parameter in ("temperature", "top_p", "seed"):
                self._say(f"model {self._model}: the server refuses `{parameter}`, so its own value holds")
            self._left_out |= {parameter}
        return True
