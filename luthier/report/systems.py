"""The systems that the generator wrote: new compositions drawn as graphs, and the drawing itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from luthier.errors import HarnessError
from luthier.evaluation import Composition
from luthier.harness import parse
from luthier.harnesses.graph import GraphHarness
from luthier.harnesses.picture import to_svg
from luthier.report.data import MethodData
from luthier.report.markup import Html, element
from luthier.report.numbers import count, percent
from luthier.report.tables import code, contender_label, note, section

_GIVEN = ("question", "answer")


def novelties(method: MethodData) -> Html:
    """Compositions that no teacher row holds and that solve their family."""
    taught = _taught_shapes(method)
    parts = [
        element(
            "div",
            element("h3", f"{contender_label(phase)}: {count(len(found))}"),
            element("div", [_card(item, method, taught) for item in found], class_="cards")
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


def _card(item: Composition, method: MethodData, taught: frozenset[str]) -> Html:
    graph = read_graph(item.text)
    held_back = method.teaching is not None and item.family not in method.teaching.families
    marks = []
    if held_back:
        marks.append(element("span", "family held back from the teacher", class_="tag good"))
    if graph is not None and shape(graph) in taught:
        marks.append(element("span", "a taught system under other names", class_="tag"))
    return element(
        "article",
        element("h4", item.family),
        element("p", f"right on {percent(item.share)} of the family, written {count(item.written)} times ", marks),
        drawing(item.text),
        class_="card",
    )


def drawing(text: str, highlight: Mapping[str, int] | None = None) -> Html:
    """A harness as picture and text; an invalid one as its text and what is wrong with it.

    Args:
        text: What the generator wrote.
        highlight: Runs per node id of one execution.
    """
    try:
        graph = parse("graph", text)
    except HarnessError as error:
        return element("div", code(text or "(empty)"), note(f"Invalid, rule {error.rule}: {error}", warning=True))
    assert isinstance(graph, GraphHarness)
    # Inside HTML the namespace is implied, and the page then names no address at all.
    picture = to_svg(graph, highlight).replace(' xmlns="http://www.w3.org/2000/svg"', "", 1)
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
