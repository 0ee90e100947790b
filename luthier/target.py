"""`Target`: the frozen model. The only thing in Luthier that turns tokens into text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from luthier.errors import TargetError

Role = Literal["target", "generator", "teacher", "judge", "critic", "proposer", "user_simulator"]


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message; `role` is system, user or assistant."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """One call, complete in itself, so that equal requests may be answered once.

    Attributes:
        prompt: Raw text (no chat template) or chat messages (the target applies its own template).
        max_tokens: Upper bound of new tokens.
        temperature: 0 is greedy; then `seed` does not matter and is 0 in `key`.
        top_p: Nucleus mass, used when temperature > 0.
        seed: Seed of this call alone.
        stop: Generation ends before any of these strings; they are not part of the text.
        choices: If given, the answer is one of these texts exactly (constrained, or scored by
            log-probability where the engine cannot constrain); "" from a server that can do neither and
            whose model, asked for one of them twice, names none.
        json_schema: If given, a JSON schema (as JSON text) that the answer must follow.
    """

    prompt: str | tuple[Message, ...]
    max_tokens: int = 64
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    json_schema: str = ""

    @property
    def deterministic(self) -> bool:
        """Greedy calls may be shared; sampled ones too, when prompt and seed are equal."""
        return self.temperature == 0.0

    def to_row(self) -> dict[str, Any]:
        """JSON object of this request."""
        return asdict(self)

    def key(self, fingerprint: str) -> str:
        """Content hash of this request for the model with this fingerprint, 64 hex digits."""
        row = self.to_row()
        if self.deterministic:
            row["seed"], row["top_p"] = 0, 1.0
        content = json.dumps([fingerprint, row], ensure_ascii=False)
        return hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call cost, counted by the engine itself. Sums with `+`.

    Attributes:
        calls: Attempts that reached the engine.
        prompt_tokens, completion_tokens: Tokens read and written.
        seconds: Wall seconds of the batch, divided over its calls.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.seconds + other.seconds,
        )


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a call: `problem` is "" for the one that answered, else what went wrong."""

    usage: Usage
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer to one request.

    Attributes:
        text: New text, stop strings removed.
        finish: "stop" (end token or stop string) or "length" (hit max_tokens).
        usage: Of the attempt that answered.
        attempts: Every attempt in order, the answering one last; each becomes a ledger entry.
    """

    text: str
    finish: Literal["stop", "length"]
    usage: Usage
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that the machine could not answer: reported, retried later, never scored or cached."""

    error: TargetError
    attempts: tuple[Attempt, ...] = field(default=())


class Target(Protocol):
    """A model whose weights never change.

    Attributes:
        name: What the user calls it.
        fingerprint: Identifies weights and everything that changes answers (engine, precision).
    """

    name: str
    fingerprint: str

    def complete(self, requests: Sequence[Request]) -> list[Completion | Failure]:
        """Answer requests together; same length and order as given.

        Batches, coalesces equal deterministic requests and forms its batches deterministically.
        Raises `TargetError` only when no request can be served at all (wrong model, no server).
        """
        ...

    def choice_logprobs(self, requests: Sequence[Request]) -> list[tuple[float, ...]]:
        """Summed log-probability of each of a request's `choices` after its prompt.

        Raises:
            TargetError: the engine gives no log-probabilities.
        """
        ...

    def count_tokens(self, request: Request) -> int:
        """Prompt tokens of a request, template included; exact where the tokenizer is local,
        else an upper bound. Used to reserve before spending.
        """
        ...

    def close(self) -> None:
        """Give back memory, threads and connections."""
        ...


@runtime_checkable
class Loading(Protocol):
    """A target that loads something before its first answer, which may take long and may be cut short."""

    def load(self) -> None:
        """Be ready to answer; nothing happens when it is.

        Raises:
            InputError, TargetError: it cannot be loaded.
        """
        ...


@runtime_checkable
class Reserving(Protocol):
    """A target that may need more than one call, or more new tokens than `max_tokens`, for a request."""

    def most_usage(self, request: Request) -> Usage:
        """The most calls and completion tokens of a request when no try fails; prompt tokens are left at 0."""
        ...
