"""A harness drawn in text, for terminals: a chain as one line of arrows, any other graph node by node."""

from __future__ import annotations

import textwrap

from luthier.harness import Harness
from luthier.harnesses.graph.document import END, Node
from luthier.harnesses.graph.guards import guard_text
from luthier.harnesses.graph.harness import GraphHarness
from luthier.harnesses.graph.printer import argument_text
from luthier.harnesses.program.harness import graph_of

_WIDTH = 110


def to_text(harness: Harness) -> str:
    """Draw a harness; a kind that is no graph is its own text.

    Returns:
        Lines of at most 110 characters where names allow it.
    """
    graph = graph_of(harness)
    if graph is None:
        return harness.text
    return _chain(graph) if _is_chain(graph) else _nodes(graph)


def _is_chain(graph: GraphHarness) -> bool:
    """Whether each node goes on to the next one and the last one ends it, whatever happens."""
    targets = [[branch.targets for branch in node.branches] for node in graph.nodes]
    following = [node.id for node in graph.nodes[1:]]
    return targets == [*([(name,)] for name in following), [()]]


def _chain(graph: GraphHarness) -> str:
    line = " → ".join(["question", *(_title(graph, node) for node in graph.nodes), "answer"])
    return "\n".join(textwrap.wrap(line, _WIDTH, subsequent_indent="  ", break_long_words=False))


def _nodes(graph: GraphHarness) -> str:
    """One line a node: its id, what it runs, what it reads and writes, and below it where it goes."""
    width = max(len(node.id) for node in graph.nodes)
    lines = [f"question → {graph.nodes[0].id}"]
    for node in graph.nodes:
        reads = ", ".join(argument_text(argument) for argument in node.args)
        lines.append(f"{node.id:{width}}  {_title(graph, node)}: {reads} → {', '.join(node.writes)}")
        for branch in node.branches:
            goes = ", ".join(branch.targets) or END
            when = f"if {guard_text(branch.guard)}: " if branch.guard else "else: " if len(node.branches) > 1 else ""
            lines.append(f"{'':{width}}    └ {when}→ {goes}")
    return "\n".join(lines)


def _title(graph: GraphHarness, node: Node) -> str:
    """What a node runs; calls of the model are told from tools, and repeated samples are counted."""
    samples = node.option("n", 1)
    times = f" ×{samples}" if samples > 1 else ""
    return f"[{node.name}{times}]" if graph.kind_of(node) == "llm" else f"{node.name}{times}"
