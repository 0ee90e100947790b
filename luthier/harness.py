"""`Harness`: what a generator writes. Text in, parsed and validated object out, text again without loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol, runtime_checkable

from luthier.execution import Limits

HarnessKind = Literal["prompt", "program", "graph", "code", "hooks"]


@runtime_checkable
class Harness(Protocol):
    """A parsed, valid harness.

    Attributes:
        kind: Which executor runs it.
        text: Canonical text; `parse(kind, text).text == text`.
        digest: SHA-256 of kind and canonical text, 64 hex digits: equal harnesses have equal digests.
    """

    @property
    def kind(self) -> HarnessKind: ...
    @property
    def text(self) -> str: ...
    @property
    def digest(self) -> str: ...

    def texts(self) -> Iterator[str]:
        """Every text that it holds itself: instructions, constants, demonstrations. What is everybody's is left out."""
        ...

    def calls_bound(self, limits: Limits) -> int:
        """Most calls of a model that one run can make within these limits, never too low."""
        ...
