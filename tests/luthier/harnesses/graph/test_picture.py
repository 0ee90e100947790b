from __future__ import annotations

import random
import re
from xml.etree import ElementTree

from luthier.harnesses.graph.harness import GraphHarness
from luthier.harnesses.graph.layout import FINISH, START, LayoutLine, place
from luthier.harnesses.graph.picture import to_mermaid, to_svg
from luthier.harnesses.pool.random_graph import random_graph

LOOP = GraphHarness.parse(
    "drafts = ask_it(question) n=3 temperature=1\ncheck: best = vote(drafts)\n"
    '  if best == "<&>" and visits.check < 3 -> fix else done\nfix: drafts = ask_it(best)\n  -> check\n'
    'done: answer = copy(best)\nimpl ask_it:\n  ask: "{question}"'
)
SVG = "{http://www.w3.org/2000/svg}"


def boxes(svg: str) -> list[tuple[float, float, float, float]]:
    """Left, top, right, bottom of every drawn rectangle."""
    found = []
    for element in ElementTree.fromstring(svg).iter(f"{SVG}rect"):
        left, top, width, height = (float(element.attrib[name]) for name in ("x", "y", "width", "height"))
        found.append((left, top, left + width, top + height))
    return found


def test_the_svg_is_whole_and_needs_nothing_from_outside() -> None:
    svg = to_svg(LOOP)
    root = ElementTree.fromstring(svg)
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert {"question", "ask_it ×3", "vote", "copy", "END"} <= set(texts)
    assert "prefers-color-scheme:dark" in svg
    assert not re.search(r"(href|src|@import|<script)", svg)
    assert len(re.findall('class="edge back"', svg)) == 1
    assert [svg.count(f'class="{kind}" ') for kind in ("llm", "tool", "vote")] == [2, 1, 1]


def test_nothing_overlaps_and_everything_is_inside_the_picture() -> None:
    for seed in range(60):
        graph = random_graph(random.Random(seed))
        svg = to_svg(graph)
        left, top, width, height = map(float, ElementTree.fromstring(svg).attrib["viewBox"].split())
        drawn = boxes(svg)
        assert len(drawn) >= len(graph.nodes) > 0
        for number, (a, b, c, d) in enumerate(drawn):
            assert left <= a <= c <= left + width
            assert top <= b <= d <= top + height
            assert not any(a < g and e < c and b < h and f < d for e, f, g, h in drawn[number + 1 :])


def test_highlight_counts_what_ran_and_fades_what_did_not() -> None:
    svg = to_svg(LOOP, {"n1": 1, "check": 1, "done": 1})
    counts = [e.text for e in ElementTree.fromstring(svg).iter(f"{SVG}text") if e.attrib["class"] == "count"]
    assert counts == ["1", "1", "1"]
    faded = [group for group in ElementTree.fromstring(svg).iter(f"{SVG}g") if group.attrib.get("class") == "faded"]
    assert len(faded) == 3, "the node that did not run and its two lines"
    assert "faded" not in re.sub("<style>.*</style>", "", to_svg(LOOP))


def test_pictures_are_deterministic_and_share_no_marker_names() -> None:
    assert to_svg(LOOP) == to_svg(GraphHarness.parse(LOOP.text))
    other = to_svg(GraphHarness.parse("answer = copy(question)"))
    assert not set(re.findall(r'id="([^"]+)"', other)) & set(re.findall(r'id="([^"]+)"', to_svg(LOOP)))


def test_mermaid_names_every_node_and_edge_and_escapes_guards() -> None:
    text = to_mermaid(LOOP)
    assert text.startswith("flowchart TD\n")
    assert text.count(" --> ") + text.count(" -->|") == 6
    assert "best == #quot;#lt;#amp;#gt;#quot;" in text
    assert '"<&>"' not in text


def test_layout_marks_loops_and_leads_long_lines_through_every_layer() -> None:
    lines = [
        LayoutLine(START, 0, ""),
        LayoutLine(0, 1, ""),
        LayoutLine(1, 2, ""),
        LayoutLine(0, 2, ""),
        LayoutLine(2, 0, ""),
        LayoutLine(2, FINISH, ""),
    ]
    layout = place(lines, {START: 50.0, FINISH: 50.0, 0: 80.0, 1: 80.0, 2: 80.0})
    assert [line.back for line in layout.lines] == [False, False, False, False, True, False]
    assert len(layout.routes[3]) == 1
    assert [len(layer) for layer in layout.layers] == [1, 1, 2, 1, 1]
