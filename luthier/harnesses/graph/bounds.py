"""Static bounds on the llm calls of a graph: for forecasts, and for tests of what really happened."""

from __future__ import annotations

from collections.abc import Mapping

from luthier.execution import Limits
from luthier.harnesses.graph.harness import GraphHarness
from luthier.harnesses.graph.supersteps import Position


def calls_bound(graph: GraphHarness, limits: Limits | None = None) -> int:
    """Most llm calls of one run, never too low.

    Without loops it is the dearest path. Positions inside a loop count together, each of their llm nodes as
    often as the visit limit allows; guards are not read. The call limit caps the whole.

    Args:
        graph: A valid graph.
        limits: The executor's limits (default `Limits()`); the document's apply as well.
    """
    limits = limits or Limits()
    visits = min(limits.visits, graph.limits.get("visits", limits.visits))
    most: dict[int, int] = {}
    components = _components(graph.walk)
    of = {position: index for index, members in enumerate(components) for position in members}
    for index, members in enumerate(components):
        nodes = {node for position in members for node in position.frontier}
        loops = len(members) > 1 or members[0] in graph.walk[members[0]]
        own = sum(_calls(graph, node) for node in nodes) * (visits if loops else 1)
        after = [most[of[following]] for p in members for following in graph.walk[p] if of[following] != index]
        most[index] = own + max(after, default=0)
    cap = min(limits.calls, graph.limits.get("calls", limits.calls))
    return min(most[of[graph.topology.start()]], cap)


def llm_calls_min(graph: GraphHarness) -> int:
    """Fewest llm calls of a run that reaches END, whatever its guards say."""
    least: dict[Position, int | None] = {
        position: None if following else _frontier_calls(graph, position) for position, following in graph.walk.items()
    }
    changed = True
    while changed:
        changed = False
        for position, following in graph.walk.items():
            known = [least[p] for p in following]
            best = min((cost for cost in known if cost is not None), default=None)
            if best is None:
                continue
            cost, old = best + _frontier_calls(graph, position), least[position]
            if old is None or cost < old:
                least[position], changed = cost, True
    start = least[graph.topology.start()]
    assert start is not None, "a valid graph reaches END"
    return start


def _calls(graph: GraphHarness, index: int) -> int:
    node = graph.nodes[index]
    return int(node.option("n", 1)) if graph.kind_of(node) == "llm" else 0


def _frontier_calls(graph: GraphHarness, position: Position) -> int:
    return sum(_calls(graph, index) for index in position.frontier)


def _components(walk: Mapping[Position, tuple[Position, ...]]) -> list[list[Position]]:
    """Strongly connected components, successors before predecessors (Tarjan, without recursion)."""
    number: dict[Position, int] = {}
    low: dict[Position, int] = {}
    path: list[Position] = []
    on_path: set[Position] = set()
    components: list[list[Position]] = []
    for root in walk:
        work = [(root, iter(walk[root]))] if root not in number else []
        while work:
            position, remaining = work[-1]
            if position not in number:
                number[position] = low[position] = len(number)
                path.append(position)
                on_path.add(position)
            child = next((p for p in remaining if p not in number or p in on_path), None)
            if child is not None and child not in number:
                work.append((child, iter(walk[child])))
            elif child is not None:
                low[position] = min(low[position], number[child])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[position])
                if low[position] == number[position]:
                    start = path.index(position)
                    components.append(path[start:])
                    on_path.difference_update(path[start:])
                    del path[start:]
    return components
