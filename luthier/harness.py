"""`Harness`: what a generator writes. Text in, parsed and validated object out, text again without loss."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from luthier.errors import InputError

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


def parse(kind: str, text: str) -> Harness:
    """Parse and validate a harness text.

    Raises:
        HarnessError: the text breaks a rule; rule, line, field and fix are named.
        InputError: the kind is unknown.
    """
    if kind == "prompt":
        from luthier.harnesses.prompt import PromptHarness

        return PromptHarness.parse(text)
    if kind == "graph":
        from luthier.harnesses.graph import GraphHarness

        return GraphHarness.parse(text)
    if kind == "program":
        from luthier.harnesses.program import ProgramHarness

        return ProgramHarness.parse(text)
    raise InputError(f"harness kind {kind!r} is unknown", fix="use one of: prompt, graph, program")
