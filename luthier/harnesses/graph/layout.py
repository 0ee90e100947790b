"""Layered layout of a graph, top to bottom, after Sugiyama: loops apart, layers, order, places.

Back edges (found by a depth-first walk in document order) take no part in layering; the picture leads them
through a channel at the right. Edges over several layers pass through invisible points, so that no line runs
through a node. Deterministic: equal graphs give equal places.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

START, FINISH = -1, -2
"""Vertices of the question and of END; all others are node positions."""

_GAP = 30.0
_SWEEPS = 12
_POINT_WIDTH = 14.0


@dataclass(frozen=True, slots=True)
class LayoutLine:
    """An edge to draw: vertices, label, whether it goes back up."""

    source: int
    target: int
    label: str
    back: bool = False


@dataclass
class Layout:
    """Places of vertices and lines.

    Attributes:
        layers: Vertices of each layer from left to right; points of long lines are ids from 1,000,000.
        x: Centre of each vertex and point, in pixels.
        routes: Per forward line (by its place in `lines`) the points between its ends, top to bottom.
        lines: All lines, back ones marked.
    """

    lines: list[LayoutLine]
    layers: list[list[int]] = field(default_factory=list)
    x: dict[int, float] = field(default_factory=dict)
    routes: dict[int, list[int]] = field(default_factory=dict)


def place(lines: Sequence[LayoutLine], widths: Mapping[int, float]) -> Layout:
    """Lay out the vertices that lines connect, all reachable from `START`.

    Args:
        lines: Edges in document order, `back` not yet known.
        widths: Width of each vertex in pixels.
    """
    layout = Layout(_mark_back(lines))
    forward = [(index, line) for index, line in enumerate(layout.lines) if not line.back]
    depth = _depths([line for _, line in forward], widths)
    layout.layers = [[] for _ in range(max(depth.values()) + 1)]
    for vertex in sorted(depth, key=lambda v: (depth[v], v if v >= 0 else 10**5 if v == FINISH else -1)):
        layout.layers[depth[vertex]].append(vertex)
    links: list[tuple[int, int]] = []
    next_point = 1_000_000
    for index, line in forward:
        points = list(range(next_point, next_point + depth[line.target] - depth[line.source] - 1))
        next_point += len(points)
        for offset, point in enumerate(points, start=1):
            layout.layers[depth[line.source] + offset].append(point)
        layout.routes[index] = points
        chain = [line.source, *points, line.target]
        links.extend(pairwise(chain))
    _order(layout.layers, links)
    _assign(layout, links, widths)
    return layout


def _mark_back(lines: Sequence[LayoutLine]) -> list[LayoutLine]:
    """Mark the lines that lead to a vertex from which their source was reached."""
    outgoing: dict[int, list[int]] = defaultdict(list)
    for index, line in enumerate(lines):
        outgoing[line.source].append(index)
    back: set[int] = set()
    open_, done = [START], set[int]()
    iterators = [iter(outgoing[START])]
    while iterators:
        index = next(iterators[-1], -1)
        if index < 0:
            iterators.pop()
            done.add(open_.pop())
            continue
        target = lines[index].target
        if target in open_:
            back.add(index)
        elif target not in done:
            open_.append(target)
            iterators.append(iter(outgoing[target]))
    return [LayoutLine(line.source, line.target, line.label, index in back) for index, line in enumerate(lines)]


def _depths(lines: Sequence[LayoutLine], widths: Mapping[int, float]) -> dict[int, int]:
    """Longest path from the start over lines without cycles."""
    depth = dict.fromkeys(widths, 0)
    for _ in widths:
        for line in lines:
            depth[line.target] = max(depth[line.target], depth[line.source] + 1)
    return depth


def _order(layers: list[list[int]], links: Sequence[tuple[int, int]]) -> None:
    """Fewer crossings: sort each layer by the mean place of its neighbours, down and up in turn."""
    above, below = _neighbours(links)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        order = range(1, len(layers)) if down else range(len(layers) - 2, -1, -1)
        for depth in order:
            fixed = {vertex: place for place, vertex in enumerate(layers[depth - 1 if down else depth + 1])}
            near = above if down else below
            old = {vertex: place for place, vertex in enumerate(layers[depth])}

            def key(
                vertex: int,
                near: Mapping[int, list[int]] = near,
                fixed: Mapping[int, int] = fixed,
                old: Mapping[int, int] = old,
            ) -> tuple[float, int]:
                places = [fixed[other] for other in near[vertex]]
                return (sum(places) / len(places) if places else old[vertex], old[vertex])

            layers[depth].sort(key=key)


def _assign(layout: Layout, links: Sequence[tuple[int, int]], widths: Mapping[int, float]) -> None:
    """Draw every vertex to the mean of its neighbours, then push apart what overlaps."""
    above, below = _neighbours(links)
    width = {vertex: widths.get(vertex, _POINT_WIDTH) for layer in layout.layers for vertex in layer}
    for layer in layout.layers:
        _spread(layer, dict.fromkeys(layer, 0.0), width, layout.x)
    for sweep in range(_SWEEPS):
        near = above if sweep % 2 == 0 else below
        for layer in layout.layers if sweep % 2 == 0 else reversed(layout.layers):
            wanted = {}
            for vertex in layer:
                places = [layout.x[other] for other in near[vertex]] or [layout.x[vertex]]
                wanted[vertex] = sum(places) / len(places)
            _spread(layer, wanted, width, layout.x)
    left = min(layout.x[vertex] - width[vertex] / 2 for vertex in width)
    for vertex in width:
        layout.x[vertex] -= left


def _spread(layer: Sequence[int], wanted: Mapping[int, float], width: Mapping[int, float], x: dict[int, float]) -> None:
    """Place a layer in order, as near to the wanted places as a minimal distance allows (blocks of equal pull)."""
    blocks: list[tuple[list[int], float]] = []
    for vertex in layer:
        members, centre = [vertex], wanted[vertex]
        while blocks and centre - _span(members, width) / 2 < blocks[-1][1] + _span(blocks[-1][0], width) / 2 + _GAP:
            before, old = blocks.pop()
            centre = (old * len(before) + centre * len(members)) / (len(before) + len(members))
            members = [*before, *members]
        blocks.append((members, centre))
    for members, centre in blocks:
        at = centre - _span(members, width) / 2
        for vertex in members:
            x[vertex] = at + width[vertex] / 2
            at += width[vertex] + _GAP


def _span(members: Sequence[int], width: Mapping[int, float]) -> float:
    return sum(width[vertex] for vertex in members) + _GAP * (len(members) - 1)


def _neighbours(links: Sequence[tuple[int, int]]) -> tuple[Mapping[int, list[int]], Mapping[int, list[int]]]:
    above: dict[int, list[int]] = defaultdict(list)
    below: dict[int, list[int]] = defaultdict(list)
    for upper, lower in links:
        above[lower].append(upper)
        below[upper].append(lower)
    return above, below
