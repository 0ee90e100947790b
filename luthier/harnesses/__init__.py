"""Harness kinds, one package or file each; `parse` knows them all and imports a kind when it is asked for."""

from __future__ import annotations

from luthier.errors import InputError
from luthier.harness import Harness


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
        from luthier.harnesses.graph.harness import GraphHarness

        return GraphHarness.parse(text)
    if kind == "program":
        from luthier.harnesses.program.harness import ProgramHarness

        return ProgramHarness.parse(text)
    raise InputError(f"harness kind {kind!r} is unknown", fix="use one of: prompt, graph, program")
