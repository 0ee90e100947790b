"""What the engines in this process share: checked settings, one thread at a time, and how a prompt becomes tokens."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any

from luthier.errors import InputError
from luthier.target import Request
from luthier.targets.support.batching import chat_rows


class InProcessTarget(ABC):
    """A model that is loaded on first use, in this process.

    Args:
        name: What the user calls it.
        precision: "bf16" or "f32".
        batch: Sequences that advance together at most.

    Raises:
        InputError: a setting that no engine has.
    """

    def __init__(self, name: str, precision: str, batch: int) -> None:
        if precision not in ("bf16", "f32"):
            raise InputError(f"precision {precision!r} is unknown", where="target.precision", fix="use bf16 or f32")
        if batch < 1:
            raise InputError(f"batch {batch} is too small", where="target.batch", fix="use 1 or more")
        self.name = name
        self._lock = threading.RLock()
        self._engine: Any = None
        self._tokenizer: Any = None

    def count_tokens(self, request: Request) -> int:
        """Prompt tokens of a request, template included; exact."""
        with self._lock:
            self._open_tokenizer()
            return len(self._prompt_ids(request))

    def load(self) -> None:
        """Load the model, once.

        Raises:
            InputError: this machine cannot run it.
            TargetError: the weights cannot be loaded.
        """
        with self._lock:
            self._open()

    def close(self) -> None:
        """Free the model. A later call loads it again."""
        with self._lock:
            self._engine = self._tokenizer = None

    def _prompt_ids(self, request: Request) -> list[int]:
        """A raw prompt gets no template and no begin token; an empty one becomes the begin token alone."""
        text = request.prompt if isinstance(request.prompt, str) else self._template(chat_rows(request))
        return self._encode(text) or [self._begin()]

    @abstractmethod
    def _open(self) -> None:
        """Load all that an answer needs, once."""

    @abstractmethod
    def _open_tokenizer(self) -> None:
        """Load what `_template`, `_encode` and `_begin` need, once."""

    @abstractmethod
    def _template(self, rows: list[dict[str, str]]) -> str:
        """Chat messages as one text that asks for an answer, in the model's own template."""

    @abstractmethod
    def _encode(self, text: str) -> list[int]:
        """Token ids of a text, without special tokens."""

    @abstractmethod
    def _begin(self) -> int:
        """The token that stands for an empty prompt."""
