"""The systems that the generator wrote: new compositions drawn as graphs, and the drawing itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from luthier.errors import HarnessError
from luthier.evaluation.evaluate import Composition
from luthier.files import digest_text
from luthier.harnesses import parse
from luthier.harnesses.graph.harness import GraphHarness
from luthier.harnesses.graph.picture import to_svg
from luthier.report.html.markup import Html, element
from luthier.report.html.numbers import count, percent
from luthier.report.html.tables import code, contender_label, note, section
from luthier.report.sections.data import MethodData, ReportData

_GIVEN = ("question", "answer")
_NAME = re.compile(r'(\bid="|url\(#)([\w-]+)')
"""Definition and use of a name inside a picture."""


def novelties(method: MethodData, data: ReportData) -> Html:
    """Compositions that no teacher row holds and that solve their family."""
    taught = _taught_shapes(method)
    parts = [
        element(
            "div",
            element("h3", f"{contender_label(phase)}: {count(len(found))}"),
            element("div", [_card(item, phase, method, data, taught) for item in found], class_="cards")
            if found
            else note("None: every system that solves its family stands in a teacher row."),
        )
        for phase, found in method.scores.novel.items()
    ]
    return section(
        f"{method.card.name}-novel",
        f"{method.card.title}: new compositions",
        note(
            "Systems whose graph stands in no teacher row and that answer at least half of their family's test "
            "questions right (the bound is ours). One that differs from a taught system in the names of its state "
            "alone is marked."
        ),
        parts,
    )


def _card(item: Composition, phase: str, method: MethodData, data: ReportData, taught: frozenset[str]) -> Html:
    graph = read_graph(item.text)
    held_back = method.teaching is not None and item.family not in method.teaching.families
    marks = []
    if held_back:
        marks.append(element("span", "family held back from the teacher", class_="tag good"))
    if graph is not None and shape(graph) in taught:
        marks.append(element("span", "a taught system under other names", class_="tag"))
    _, times, total = data.majority(item.family)
    if item.share <= times / total:
        marks.append(element("span", "no better than a constant answer", class_="tag wrong"))
    return element(
        "article",
        element("h4", item.family),
        element("p", f"right on {percent(item.share)} of {total} questions, written for {count(item.written)} ", marks),
        drawing(item.text, f"{method.card.name} {phase} {item.family} {item.digest}"),
        class_="card",
    )


def drawing(text: str, place: str, highlight: Mapping[str, int] | None = None) -> Html:
    """A harness as picture and text; an invalid one as its text and what is wrong with it.

    Args:
        text: What the generator wrote.
        place: Where on the page it stands, unlike any other place: names inside the picture must be its own,
            because a browser does not draw an arrowhead that another, folded picture defines.
        highlight: Runs per node id of one execution.
    """
    try:
        graph = parse("graph", text)
    except HarnessError as error:
        return element("div", code(text or "(empty)"), note(f"Invalid, rule {error.rule}: {error}", warning=True))
    assert isinstance(graph, GraphHarness)
    # Inside HTML the namespace is implied, and the page then names no address at all.
    picture = to_svg(graph, highlight).replace(' xmlns="http://www.w3.org/2000/svg"', "", 1)
    picture = _NAME.sub(rf"\1\2-{digest_text(place)[:12]}", picture)
    return element("div", element("div", Html(picture), class_="picture"), code(graph.text), class_="drawing")


def read_graph(text: str) -> GraphHarness | None:
    """The graph in a text, None when it is not valid."""
    try:
        graph = parse("graph", text)
    except HarnessError:
        return None
    return graph if isinstance(graph, GraphHarness) else None


def shape(graph: GraphHarness) -> str:
    """The graph's text with its state renamed in order of appearance: equal for graphs that differ in names alone."""
    names = [name for name in graph.states if name not in _GIVEN]
    if not names:
        return graph.text
    pattern = re.compile(rf"\b({'|'.join(re.escape(name) for name in sorted(names))})\b(?!\()")
    order: dict[str, str] = {}
    return pattern.sub(lambda match: order.setdefault(match.group(), f"s{len(order) + 1}"), graph.text)


def _taught_shapes(method: MethodData) -> frozenset[str]:
    texts: Iterable[str] = (row.completion for row in method.teaching.rows) if method.teaching else ()
    return frozenset(shape(graph) for text in sorted(set(texts)) if (graph := read_graph(text)) is not None)
