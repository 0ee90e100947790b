"""Static checks and bounds over all paths of a graph: a walk over every position that the guards could allow.

Guards count as free: each may be true or false. Positions (what runs, what waits) are finite, so the walk
is exact about order and joins, and "on some path" means on some choice of guard results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NoReturn

from luthier.errors import HarnessError
from luthier.harnesses.graph.document import Node, StateField
from luthier.harnesses.graph.guards import operands
from luthier.harnesses.graph.printer import neutral
from luthier.harnesses.graph.supersteps import Position, Topology

MAX_TRANSITIONS = 20_000
Walk = Mapping[Position, tuple[Position, ...]]
"""Every reachable position with the positions that may follow it."""


def check_paths(nodes: Sequence[Node], states: Mapping[str, StateField], topology: Topology) -> Walk:
    """Check cycles, reachability, order of reads and writes, and the answer.

    Raises:
        HarnessError: unwritten-answer, unguarded-cycle, unreachable-end, unreachable-node, read-before-write or
            too-long (more than 20,000 ways through the graph).
    """
    if not any("answer" in node.writes for node in nodes):
        _fail(
            "unwritten-answer",
            "no node writes answer",
            nodes[-1].line,
            "writes",
            "write `answer = ...` in the last node",
        )
    _check_cycles(nodes, topology)
    _check_end(nodes, topology)
    walk = explore(topology)
    ran = {node for position in walk for node in position.frontier}
    for index, node in enumerate(nodes):
        if index not in ran:
            fix = "remove the node or lead an edge to it"
            _fail("unreachable-node", f"nothing leads to node {node.id}", node.line, node.id, fix)
    _check_order(nodes, states, walk)
    return walk


def explore(topology: Topology) -> dict[Position, tuple[Position, ...]]:
    """All reachable positions and their successors, breadth first.

    Raises:
        HarnessError: rule too-long.
    """
    walk: dict[Position, tuple[Position, ...]] = {}
    queue, transitions = [topology.start()], 0
    seen = set(queue)
    for position in queue:
        following: dict[Position, None] = {}
        for taken in product(*(topology.outcomes[node] for node in position.frontier)):
            transitions += 1
            if transitions > MAX_TRANSITIONS:
                fix = "use fewer conditional nodes side by side"
                _fail("too-long", f"the graph has more than {MAX_TRANSITIONS} ways through it", 0, "edges", fix)
            following[topology.advance(position, taken)] = None
        walk[position] = tuple(following) if position.frontier else ()
        queue.extend(p for p in walk[position] if p not in seen)
        seen.update(walk[position])
    return walk


def _fail(rule: str, problem: str, line: int, field: str, fix: str) -> NoReturn:
    raise HarnessError(problem, rule=rule, line=line, field=field, fix=fix)


def _check_cycles(nodes: Sequence[Node], topology: Topology) -> None:
    """Refuse a cycle whose nodes all have a single way on: nothing could leave it."""
    fixed = [node for node in range(len(nodes)) if len(topology.outcomes[node]) == 1]
    for start in fixed:
        seen: set[int] = set()
        stack = [start]
        while stack:
            for target in sorted(topology.successors[stack.pop()]):
                if target == start:
                    node = nodes[start]
                    fix = f"leave the loop with `if visits.{node.id} < 3 -> x else y`"
                    _fail("unguarded-cycle", f"node {node.id} comes back to itself for ever", node.line, node.id, fix)
                if target in fixed and target not in seen:
                    seen.add(target)
                    stack.append(target)


def _check_end(nodes: Sequence[Node], topology: Topology) -> None:
    """Refuse a node from which END cannot be reached."""
    ending = {node for node in range(len(nodes)) if () in topology.outcomes[node]}
    reaching = set(ending).union(*(topology.ancestors(node) for node in sorted(ending)))
    for index, node in enumerate(nodes):
        if index not in reaching:
            _fail("unreachable-end", f"no path leads from node {node.id} to END", node.line, node.id, "add `-> END`")


def _check_order(nodes: Sequence[Node], states: Mapping[str, StateField], walk: Walk) -> None:
    """Refuse reads that some path does not write before, and ends that some path reaches without an answer."""
    given = {"question"} | {n for n, s in states.items() if s.initial is not None or neutral(s) is not None}
    given.discard("answer")
    written: dict[Position, frozenset[str]] = {next(iter(walk)): frozenset(given)}
    queue = list(written)
    while queue:
        position = queue.pop()
        after = written[position].union(*(nodes[node].writes for node in position.frontier))
        for following in walk[position]:
            merged = written[following] & after if following in written else after
            if written.get(following) != merged:
                written[following] = merged
                queue.append(following)
    for position in walk:
        after = written[position].union(*(nodes[node].writes for node in position.frontier))
        for index in position.frontier:
            _check_node_order(nodes[index], written[position], after)
        if "answer" not in after and any(not p.frontier and not p.waiting for p in walk[position]):
            last = nodes[position.frontier[-1]]
            fix = "write answer before every way to END"
            _fail("unwritten-answer", f"a path ends after node {last.id} without an answer", last.line, last.id, fix)


def _check_node_order(node: Node, before: frozenset[str], after: frozenset[str]) -> None:
    fix = 'write it in an earlier node, join branches with merge, or declare `state <name>: str = ""`'
    for name in node.reads:
        if name not in before:
            problem = f"node {node.id} reads {name}, which some path has not written yet"
            _fail("read-before-write", problem, node.line, name, fix)
    for branch in node.branches:
        for operand in operands(branch.guard) if branch.guard is not None else ():
            if operand.kind in ("state", "len") and operand.value not in after:
                problem = f"the guard reads {operand.value}, which some path has not written yet"
                _fail("read-before-write", problem, branch.line, operand.value, fix)
