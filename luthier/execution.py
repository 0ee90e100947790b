"""`Execution`: the frozen row of one harness run on one question. The atom of all data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from luthier.target import Usage

Outcome = Literal["ok", "invalid", "noop", "incomplete", "infra_error"]
"""ok: an answer came out. invalid: the harness does not parse, validate, or broke its own contract.
noop: it ran and answered nothing. incomplete: a limit (steps, visits, calls, tokens) stopped it.
infra_error: the machine failed; never scored as zero, never cached, retried."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one execution; reaching one makes it `incomplete`.

    Attributes:
        steps: Node executions. visits: Executions of one node. calls: Target calls.
        tokens: Prompt plus completion tokens.
    """

    steps: int = 40
    visits: int = 8
    calls: int = 24
    tokens: int = 16_000


@dataclass(frozen=True, slots=True)
class Step:
    """One node's run: what it read, what it wrote, what it cost."""

    node: str
    kind: str
    inputs: Mapping[str, Any]
    output: Any
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Execution:
    """What happened when a harness ran on a question.

    Attributes:
        question: Question id. harness: Digest of the canonical harness text. kind: Harness kind.
        target: Fingerprint of the target. seed: Seed of sampled calls.
        outcome: See `Outcome`. answer: "" unless ok. score: None for infra_error, 0 when not ok.
        feedback: The task's sentence. error: What failed, "" when ok.
        trace: Steps in order. usage: Sum over the execution's calls, uncached (cache hits included).
    """

    question: str
    harness: str
    kind: str
    target: str
    seed: int
    outcome: Outcome
    answer: str = ""
    score: float | None = 0.0
    feedback: str = ""
    error: str = ""
    trace: tuple[Step, ...] = ()
    usage: Usage = field(default_factory=Usage)

    def to_row(self) -> dict[str, Any]:
        """JSON object of this execution."""
        return asdict(self)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Execution:
        """Inverse of `to_row`."""
        values = dict(row)
        values["usage"] = Usage(**values["usage"])
        values["trace"] = tuple(Step(**{**step, "usage": Usage(**step["usage"])}) for step in values["trace"])
        return cls(**values)
