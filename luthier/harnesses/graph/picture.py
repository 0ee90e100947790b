"""Pictures of a graph: `to_mermaid` for documents that render it, `to_svg` self-contained for reports.

Node kind is told by shape and colour: llm rounded, tool square, vote and merge six-sided. Lines that go back
up are dashed. Colours follow the reader's light or dark setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from luthier.harnesses.graph.document import Node
from luthier.harnesses.graph.guards import guard_text
from luthier.harnesses.graph.harness import GraphHarness
from luthier.harnesses.graph.layout import FINISH, START, Layout, LayoutLine, place
from luthier.harnesses.graph.printer import argument_text

_NODE_HEIGHT, _END_HEIGHT = 44.0, 26.0
_LAYER_GAP, _MARGIN, _CHANNEL = 58.0, 16.0, 18.0
_TITLE_PIXELS, _SMALL_PIXELS = 7.4, 6.1
_LONGEST_TEXT = 34

_STYLE = """
.lg{font-family:system-ui,-apple-system,"Segoe UI",sans-serif;--ink:#1f2430;--soft:#5b6373;--page:#fff;
--llm:#e3edff;--llm-line:#3b6fd4;--tool:#e2f4e6;--tool-line:#2f8a48;--join:#fdf0d3;--join-line:#b07a10;
--end:#eceef2;--end-line:#7b8496;--edge:#7b8496;--back:#a8439b;--mark:#c8321e}
@media (prefers-color-scheme:dark){.lg{--ink:#eef1f6;--soft:#a9b2c3;--page:#14171d;--llm:#1f3157;--llm-line:#7fa8ff;
--tool:#1c3d26;--tool-line:#67c682;--join:#443412;--join-line:#e0b04c;--end:#2a2f3a;--end-line:#8d97aa;
--edge:#8d97aa;--back:#e38ad6;--mark:#ff8a70}}
.lg .title{font-size:13px;font-weight:600;fill:var(--ink)}.lg .small{font-size:10.5px;fill:var(--soft)}
.lg .guard{font-size:10.5px;fill:var(--ink);stroke:var(--page);stroke-width:4px;
paint-order:stroke;stroke-linejoin:round}
.lg text{text-anchor:middle}.lg .after{text-anchor:start}.lg .before{text-anchor:end}
.lg .llm{fill:var(--llm);stroke:var(--llm-line)}.lg .tool{fill:var(--tool);stroke:var(--tool-line)}
.lg .vote,.lg .merge{fill:var(--join);stroke:var(--join-line)}.lg .end{fill:var(--end);stroke:var(--end-line)}
.lg .llm,.lg .tool,.lg .vote,.lg .merge,.lg .end{stroke-width:1.4}
.lg .edge{fill:none;stroke:var(--edge);stroke-width:1.4}.lg .back{stroke:var(--back);stroke-dasharray:5 3}
.lg .tip{fill:var(--edge)}.lg .tip-back{fill:var(--back)}
.lg .faded{opacity:.38}.lg .used .llm,.lg .used .tool,.lg .used .vote,.lg .used .merge{stroke-width:2.6}
.lg .badge{fill:var(--mark)}.lg .count{font-size:10px;font-weight:700;fill:var(--page)}
""".replace("\n", "")


def to_mermaid(graph: GraphHarness) -> str:
    """The graph as Mermaid flowchart text."""
    shapes = {"llm": ('("', '")'), "tool": ('["', '"]'), "vote": ('{{"', '"}}'), "merge": ('{{"', '"}}')}
    names = {START: "start_", FINISH: "end_", **{i: f"node{i + 1}" for i in range(len(graph.nodes))}}
    lines = ["flowchart TD", '  start_(["question"])']
    for index, node in enumerate(graph.nodes):
        left, right = shapes[graph.kind_of(node)]
        label = f"{_mermaid(_title(node))}<br/><small>{_mermaid(_flow(node))}</small>"
        lines.append(f"  {names[index]}{left}{label}{right}:::{graph.kind_of(node)}")
    lines.append('  end_(["END"])')
    for line in _lines(graph):
        label = f'|"{_mermaid(_short(line.label))}"|' if line.label else ""
        lines.append(f"  {names[line.source]} -->{label} {names[line.target]}")
    lines += [
        "  classDef llm fill:#e3edff,stroke:#3b6fd4,color:#1f2430",
        "  classDef tool fill:#e2f4e6,stroke:#2f8a48,color:#1f2430",
        "  classDef vote fill:#fdf0d3,stroke:#b07a10,color:#1f2430",
        "  classDef merge fill:#fdf0d3,stroke:#b07a10,color:#1f2430",
    ]
    return "\n".join(lines) + "\n"


def to_svg(graph: GraphHarness, highlight: Mapping[str, int] | None = None) -> str:
    """The graph as a self-contained SVG.

    Args:
        graph: A valid graph.
        highlight: Executions per node id of one run; nodes that did not run are faded, the others carry
            their count. None: a picture of the graph alone.
    """
    widths = {START: 92.0, FINISH: 60.0, **{i: _width(node) for i, node in enumerate(graph.nodes)}}
    return _Drawing(graph, place(_lines(graph), widths), widths, highlight).svg()


def _title(node: Node) -> str:
    samples = node.option("n", 1)
    return f"{node.name} ×{samples}" if samples > 1 else node.name


def _flow(node: Node) -> str:
    """What goes in and out, for example "question, draft → verdict"."""
    reads = ", ".join(argument_text(arg) for arg in node.args)
    return f"{_short(reads)} → {_short(', '.join(node.writes))}"


def _short(text: str, longest: int = _LONGEST_TEXT) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _width(node: Node) -> float:
    return max(96.0, _TITLE_PIXELS * len(_title(node)) + 30, _SMALL_PIXELS * len(_flow(node)) + 30)


def _lines(graph: GraphHarness) -> list[LayoutLine]:
    """Edges with their labels; edges between the same two vertices are one."""
    labels: dict[tuple[int, int], list[str]] = {(START, 0): []}
    for index, node in enumerate(graph.nodes):
        for branch in node.branches:
            label = guard_text(branch.guard) if branch.guard else "else" if len(node.branches) > 1 else ""
            for target in graph.topology.at(branch.targets) or (FINISH,):
                labels.setdefault((index, target), []).extend([label] if label else [])
    return [LayoutLine(source, target, " or ".join(parts)) for (source, target), parts in labels.items()]


def _mermaid(text: str) -> str:
    for sign, code in (("&", "#amp;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("|", "#124;")):
        text = text.replace(sign, code)
    return text


class _Drawing:
    """One SVG being drawn."""

    def __init__(
        self, graph: GraphHarness, layout: Layout, widths: Mapping[int, float], highlight: Mapping[str, int] | None
    ) -> None:
        self._graph, self._layout, self._widths, self._highlight = graph, layout, widths, highlight
        self._top: dict[int, float] = {}
        self._height_of: dict[int, float] = {}
        self._key = graph.digest[:8]
        at = _MARGIN
        for layer in layout.layers:
            height = _END_HEIGHT if all(v in (START, FINISH) or v >= 1_000_000 for v in layer) else _NODE_HEIGHT
            for vertex in layer:
                own = _END_HEIGHT if vertex in (START, FINISH) else height if vertex >= 1_000_000 else _NODE_HEIGHT
                self._top[vertex], self._height_of[vertex] = at + (height - own) / 2, own
            at += height + _LAYER_GAP
        self._height = at - _LAYER_GAP + _MARGIN
        self._left = -_MARGIN
        self._right = max(layout.x[v] + widths.get(v, 0) / 2 for v in layout.x) + _MARGIN

    def svg(self) -> str:
        parts = [self._edge(index, line) for index, line in enumerate(self._layout.lines) if not line.back]
        channel = self._right + _CHANNEL
        for number, line in enumerate(line for line in self._layout.lines if line.back):
            parts.append(self._back_edge(line, channel, number))
            channel += _CHANNEL + _SMALL_PIXELS * len(_short(line.label))
        parts += [self._vertex(START, "question"), self._vertex(FINISH, "END")]
        parts += [self._node(index) for index in range(len(self._graph.nodes))]
        width = (channel if channel > self._right + _CHANNEL else self._right) + _MARGIN - self._left
        nodes = len(self._graph.nodes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="lg" role="img" width="{width:.0f}" '
            f'height="{self._height:.0f}" viewBox="{self._left:.0f} 0 {width:.0f} {self._height:.0f}">'
            f"<title>Graph of {nodes} node{'s' if nodes > 1 else ''}</title><style>{_STYLE}</style><defs>"
            f"{self._tip('tip')}{self._tip('tip-back')}</defs>{''.join(parts)}</svg>\n"
        )

    def _tip(self, kind: str) -> str:
        return (
            f'<marker id="{kind}-{self._key}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path class="{kind}" d="M0 .8 7.5 4 0 7.2Z"/></marker>'
        )

    def _x(self, vertex: int) -> float:
        return self._layout.x[vertex]

    def _bottom(self, vertex: int) -> float:
        return self._top[vertex] + self._height_of[vertex]

    def _used(self, vertex: int) -> bool:
        if self._highlight is None or vertex < 0:
            return True
        return self._highlight.get(self._graph.nodes[vertex].id, 0) > 0

    def _group(self, content: str, used: bool) -> str:
        if self._highlight is None:
            return f"<g>{content}</g>"
        return f'<g class="{"used" if used else "faded"}">{content}</g>'

    def _edge(self, index: int, line: LayoutLine) -> str:
        """A smooth line through the points of its route; the label stands near the start."""
        chain = [line.source, *self._layout.routes[index], line.target]
        siblings = self._siblings(line.source)
        spread = (siblings.index(index) - (len(siblings) - 1) / 2) * 12
        x, y = self._x(line.source) + spread, self._bottom(line.source)
        path = f"M{x:.1f} {y:.1f}"
        on_left = self._x(chain[1]) < x - 1
        label = ""
        for place_, vertex in enumerate(chain[1:]):
            to_x, to_y = self._x(vertex), self._top[vertex] - (2 if vertex == line.target else 0)
            middle = (y + to_y) / 2
            path += f" C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
            if place_ == 0:
                if len(siblings) > 2:
                    label = _label(line.label, to_x, to_y - 13, side="", room=self._widths.get(vertex, 90.0) + 20)
                else:
                    label = self._guard(line.label, (x + to_x) / 2, middle + 4, on_left)
            x, y = to_x, to_y
            if vertex != line.target:
                y = self._bottom(vertex)
                path += f" L{x:.1f} {y:.1f}"
        drawn = f'<path class="edge" d="{path}" marker-end="url(#tip-{self._key})"/>'
        return self._group(drawn + label, self._used(line.source) and self._used(line.target))

    def _siblings(self, source: int) -> list[int]:
        """Forward lines of a vertex from left to right."""
        lines, routes = self._layout.lines, self._layout.routes
        own = [n for n, line in enumerate(lines) if line.source == source and not line.back]
        return sorted(own, key=lambda n: (self._x([*routes[n], lines[n].target][0]), n))

    def _guard(self, text: str, x: float, y: float, on_left: bool) -> str:
        """A label beside a line, on the side away from its siblings; the picture grows if it does not fit."""
        length = _SMALL_PIXELS * len(_short(text))
        self._left = min(self._left, x - 8 - length) if on_left else self._left
        self._right = self._right if on_left else max(self._right, x + 8 + length)
        return _label(text, x - 6, y, side="before") if on_left else _label(text, x + 6, y)

    def _back_edge(self, line: LayoutLine, channel: float, number: int) -> str:
        """Down into the gap below the source, right into a channel, up, and into the target from above."""
        out_x = self._x(line.source) + self._widths[line.source] / 2 - 14 - 6 * (number % 2)
        in_x = self._x(line.target) + self._widths[line.target] / 2 - 14 - 6 * (number % 2)
        below = self._bottom(line.source) + 12 + 5 * (number % 4)
        above = self._top[line.target] - 14 - 5 * (number % 4)
        path = (
            f"M{out_x:.1f} {self._bottom(line.source):.1f} V{below - 6:.1f} q0 6 6 6 H{channel - 6:.1f} q6 0 6 -6 "
            f"V{above + 6:.1f} q0 -6 -6 -6 H{in_x + 6:.1f} q-6 0 -6 6 V{self._top[line.target] - 2:.1f}"
        )
        drawn = f'<path class="edge back" d="{path}" marker-end="url(#tip-back-{self._key})"/>'
        label = _label(line.label, channel + 6, (above + below) / 2 + 4)
        return self._group(drawn + label, self._used(line.source) and self._used(line.target))

    def _vertex(self, vertex: int, text: str) -> str:
        width, height = self._widths[vertex], self._height_of[vertex]
        x, y = self._x(vertex), self._top[vertex]
        return self._group(
            f'<rect class="end" x="{x - width / 2:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'rx="{height / 2:.1f}"/><text class="title" x="{x:.1f}" y="{y + height / 2 + 4.5:.1f}">{text}</text>',
            True,
        )

    def _node(self, index: int) -> str:
        node = self._graph.nodes[index]
        kind, x, y = self._graph.kind_of(node), self._x(index), self._top[index]
        half = self._widths[index] / 2
        label = "" if node.id == f"n{index + 1}" else f"{node.id}: "
        whole = f"{label}{', '.join(node.writes)} = {node.name}({', '.join(argument_text(a) for a in node.args)})"
        content = (
            f"<title>{escape(whole)} ({kind})</title>{_shape(kind, x, y, half)}"
            f'<text class="title" x="{x:.1f}" y="{y + 19:.1f}">{escape(_title(node))}</text>'
            f'<text class="small" x="{x:.1f}" y="{y + 34:.1f}">{escape(_flow(node))}</text>'
        )
        count = (self._highlight or {}).get(node.id, 0)
        if count:
            content += (
                f'<circle class="badge" cx="{x + half - 4:.1f}" cy="{y + 3:.1f}" r="9"/>'
                f'<text class="count" x="{x + half - 4:.1f}" y="{y + 6.6:.1f}">{count}</text>'
            )
        return self._group(content, self._used(index))


def _shape(kind: str, x: float, y: float, half: float) -> str:
    if kind in ("vote", "merge"):
        left, right, middle, bottom = x - half, x + half, y + _NODE_HEIGHT / 2, y + _NODE_HEIGHT
        corners = (
            (left, middle),
            (left + 14, y),
            (right - 14, y),
            (right, middle),
            (right - 14, bottom),
            (left + 14, bottom),
        )
        points = " ".join(f"{across:.1f},{down:.1f}" for across, down in corners)
        return f'<polygon class="{kind}" points="{points}"/>'
    radius = 14 if kind == "llm" else 2
    return (
        f'<rect class="{kind}" x="{x - half:.1f}" y="{y:.1f}" width="{2 * half:.1f}" height="{_NODE_HEIGHT:.1f}" '
        f'rx="{radius}"/>'
    )


def _label(text: str, x: float, y: float, *, side: str = "after", room: float = _SMALL_PIXELS * _LONGEST_TEXT) -> str:
    """A guard beside or (side "") across a line, cut to `room` pixels; the whole text shows on hovering."""
    if not text:
        return ""
    shown = _short(text, int(room / _SMALL_PIXELS))
    whole = f"<title>{escape(text)}</title>" if shown != text else ""
    return f'<text class="guard {side}" x="{x:.1f}" y="{y:.1f}">{whole}{escape(shown)}</text>'
