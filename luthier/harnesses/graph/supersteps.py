"""How a graph moves: supersteps over frontiers, with joins. One definition for the executor and the static checks.

A frontier is the set of nodes that run together. Afterwards each of them names its successors; together, in
document order and once each, they are the next frontier. A *join* (`merge` and `vote`) that was named waits
until nothing else that runs or waits can still reach it. When only joins that wait for each other are left,
the first in document order fires.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from luthier.harnesses.graph.document import BUILTINS, Node

Frontier = tuple[int, ...]
"""Node positions in document order."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a run stands: the nodes that run next and the joins that wait. Both empty means the run is over."""

    frontier: Frontier
    waiting: Frontier = ()


@dataclass(frozen=True)
class Topology:
    """The nodes by position: which are joins, and where each of their branches leads.

    Attributes:
        joins: Positions of joins.
        outcomes: Per node the distinct successor sets of its branches, in branch order.
        positions: Position of each node id.
    """

    joins: frozenset[int]
    outcomes: tuple[tuple[Frontier, ...], ...]
    positions: Mapping[str, int]

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> Topology:
        """Read the topology of nodes whose targets all exist."""
        at = {node.id: index for index, node in enumerate(nodes)}
        outcomes = tuple(
            tuple(dict.fromkeys(tuple(at[target] for target in branch.targets) for branch in node.branches))
            for node in nodes
        )
        return cls(frozenset(i for i, node in enumerate(nodes) if node.name in BUILTINS), outcomes, at)

    def at(self, ids: Sequence[str]) -> Frontier:
        """Positions of these node ids."""
        return tuple(self.positions[name] for name in ids)

    @cached_property
    def successors(self) -> tuple[frozenset[int], ...]:
        """Every node that may follow, per node."""
        return tuple(frozenset(t for targets in outcomes for t in targets) for outcomes in self.outcomes)

    @cached_property
    def predecessors(self) -> tuple[frozenset[int], ...]:
        """Every node that may precede, per node."""
        count = len(self.outcomes)
        return tuple(frozenset(i for i in range(count) if node in self.successors[i]) for node in range(count))

    @cached_property
    def _reaching(self) -> Mapping[int, frozenset[int]]:
        """Per join the nodes with a path to it that does not pass through it."""
        return {join: self.ancestors(join) for join in self.joins}

    def ancestors(self, node: int) -> frozenset[int]:
        """Nodes with a path to `node`, `node` itself left out."""
        seen: set[int] = set()
        stack = list(self.predecessors[node])
        while stack:
            current = stack.pop()
            if current != node and current not in seen:
                seen.add(current)
                stack.extend(self.predecessors[current])
        return frozenset(seen)

    def start(self) -> Position:
        """The first node alone."""
        return Position((0,))

    def advance(self, position: Position, taken: Iterable[Frontier]) -> Position:
        """The position after the frontier ran and its nodes chose these successor sets."""
        named = {target for targets in taken for target in targets}
        waiting = set(position.waiting) | (named & self.joins)
        running = named - self.joins
        ready = {join for join in waiting if not self._reaching[join] & (running | waiting - {join})}
        if not running and not ready and waiting:
            ready = {min(waiting)}
        return Position(tuple(sorted(running | ready)), tuple(sorted(waiting - ready)))
