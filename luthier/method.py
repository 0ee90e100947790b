"""`Method`: one published system. Which phases it has, and what each of them does, lives in its one file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Phase = Literal["teach", "prefer", "sft", "reinforce", "search"]
PHASES: tuple[Phase, ...] = ("teach", "prefer", "sft", "reinforce", "search")


@dataclass(frozen=True, slots=True)
class MethodCard:
    """What the report prints beside a method's numbers.

    Attributes:
        name: Key in `luthier.methods.METHODS`. title: Its name in print. paper: Citation.
        kind: Harness kind that it writes. phases: The ones it has, in order.
        trained: What learns. frozen: What never changes. ours: Which settings no source states.
    """

    name: str
    title: str
    paper: str
    kind: str
    phases: tuple[Phase, ...]
    trained: str
    frozen: str
    ours: str
