"""Seeded variation of chain graphs by one edit: the embedded teacher's imagination (ours).

Offline there is no large model that writes graphs, so the teacher tries what lies one edit away from the
hand-written pool: one tool appended, dropped or replaced, or another first step. Two edits are out of its
reach on purpose, so that what reinforcement finds beyond it is visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from luthier.errors import HarnessError
from luthier.harnesses.graph.document import Ref
from luthier.harnesses.graph.harness import GraphHarness
from luthier.tools.registry import TOOLS


@dataclass(frozen=True, slots=True)
class Chain:
    """A graph that is one llm call on the question followed by tools, each reading the one before.

    Attributes:
        first: Name of the llm implementation. tools: Names of the tools in order.
    """

    first: str
    tools: tuple[str, ...]

    def text(self) -> str:
        """The canonical graph text: a, b, c, ... and at last `answer`."""
        names = [self.first, *self.tools]
        states = [*(chr(ord("a") + index) for index in range(len(names) - 1)), "answer"]
        inputs = ["question", *states]
        return "\n".join(f"{w} = {name}({r})" for w, name, r in zip(states, names, inputs, strict=False))


def as_chain(graph: GraphHarness) -> Chain | None:
    """The chain that a graph is, None if it is anything else."""
    expected = "question"
    for position, node in enumerate(graph.nodes):
        follows = graph.nodes[position + 1].id if position + 1 < len(graph.nodes) else None
        plain = (
            len(node.writes) == 1
            and node.args == (Ref(expected),)
            and not node.options
            and len(node.branches) == 1
            and node.branches[0].targets == ((follows,) if follows else ())
            and graph.kind_of(node) == ("llm" if position == 0 else "tool")
        )
        if not plain:
            return None
        expected = node.writes[0]
    if expected != "answer" or graph.document.states or graph.document.impls or graph.document.limits:
        return None
    return Chain(graph.nodes[0].name, tuple(node.name for node in graph.nodes[1:]))


def one_edit_variations(pool: Sequence[GraphHarness]) -> list[GraphHarness]:
    """Every valid graph one edit away from a chain of the pool and not in it, in a fixed order.

    Only chains that use a tool are edited; the first steps that an edit may put in are theirs.
    """
    chains = [chain for graph in pool if (chain := as_chain(graph)) is not None and chain.tools]
    firsts = sorted({chain.first for chain in chains})
    tools = sorted(name for name, tool in TOOLS.items() if tool.min_args <= 1)
    seen = {graph.digest for graph in pool}
    found: list[GraphHarness] = []
    for chain in chains:
        for edited in _edits(chain, firsts, tools):
            try:
                graph = GraphHarness.parse(edited.text())
            except HarnessError:
                continue
            if graph.digest not in seen:
                seen.add(graph.digest)
                found.append(graph)
    return found


def _edits(chain: Chain, firsts: Iterable[str], tools: Sequence[str]) -> Iterable[Chain]:
    for tool in tools:
        yield Chain(chain.first, (*chain.tools, tool))
    for index in range(len(chain.tools)):
        for tool in tools:
            yield Chain(chain.first, (*chain.tools[:index], tool, *chain.tools[index + 1 :]))
        yield Chain(chain.first, (*chain.tools[:index], *chain.tools[index + 1 :]))
    for first in firsts:
        yield Chain(first, chain.tools)
