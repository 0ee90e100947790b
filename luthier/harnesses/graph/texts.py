"""The texts that a graph holds itself: where a harness could hide an answer, and what a search may look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from luthier.harnesses.graph.document import Const, Document
from luthier.harnesses.graph.guards import Guard, GuardComparison, Junction, Not
from luthier.harnesses.graph.implementation import Implementation
from luthier.tools.values import render


def own_texts(document: Document, own: Mapping[str, Implementation]) -> Iterator[str]:
    """Initial values, constants of nodes and guards, and every text of its own implementations.

    Args:
        document: The graph.
        own: Implementations that the harness wrote itself; presets are everybody's.
    """
    for state in document.states.values():
        yield render(state.initial) if state.initial is not None else ""
    for node in document.nodes:
        yield from (render(arg.value) for arg in node.args if isinstance(arg, Const))
        for branch in node.branches:
            if branch.guard is not None:
                yield from _guard_constants(branch.guard)
    for implementation in own.values():
        yield from (implementation.role, implementation.ask, *implementation.choices)
        for shot in implementation.shots:
            yield from (shot.out, *(value for _, value in shot.values))


def _guard_constants(guard: Guard) -> Iterator[str]:
    """Constants that are compared with state; those compared with `visits` or `len` only count."""
    if isinstance(guard, Not):
        yield from _guard_constants(guard.item)
    elif isinstance(guard, Junction):
        for item in guard.items:
            yield from _guard_constants(item)
    elif isinstance(guard, GuardComparison):
        sides = (guard.left, guard.right)
        if any(side.kind == "state" for side in sides):
            yield from (render(side.value) for side in sides if side.kind == "const")
