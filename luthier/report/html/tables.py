"""Tables and small blocks that several sections share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from luthier.report.html.markup import Child, Html, element, escape

LABELS = {
    "target_alone": "target alone",
    "best_fixed": "best fixed",
    "random_graph": "random graph",
    "nearest_row": "nearest teacher row",
    "router": "router over the grid",
    "program": "hand-written program",
}
KINDS = {
    "one_step": "one step",
    "two_step": "two steps",
    "three_step": "three steps",
    "no_tool": "no tool helps",
    "unshown": "never shown",
}
"""Kinds of families in the order in which they are told; other kinds follow under their own names."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, and whether it holds figures (then it is set flush right)."""

    heading: Child
    numeric: bool = False


DIFFERENCE = (
    Column("points", numeric=True),
    Column("95 % interval", numeric=True),
    Column("−100 to +100 points"),
    Column("rescued", numeric=True),
    Column("regressed", numeric=True),
    Column("reading"),
)
"""Columns of a paired difference, after those that say what is compared."""


def contender_label(name: str) -> str:
    """What a contender is called in print."""
    return LABELS.get(name, f"after {name}")


def kind_label(kind: str) -> str:
    """What a kind of families is called in print; a task without kinds has one nameless kind."""
    return KINDS.get(kind, kind.replace("_", " ")) or "all"


def kind_order(kind: str) -> tuple[int, str]:
    """Sort key: the order of `KINDS`, then the name."""
    known = list(KINDS)
    return (known.index(kind) if kind in known else len(known), kind)


def table(caption: Child, columns: Sequence[Column], rows: Sequence[Html]) -> Html:
    """A table that scrolls by itself when the window is narrow, by keyboard too.

    Args:
        caption: What the table shows; read out first.
        columns: Headings.
        rows: `<tr>` elements, see `row`.
    """
    heads = [element("th", c.heading, scope="col", class_="num" if c.numeric else None) for c in columns]
    return scrolling(caption, heads, rows)


def scrolling(caption: Child, heads: Sequence[Html], rows: Sequence[Html], *, class_: str | None = None) -> Html:
    """A table in a region that scrolls sideways; its caption stays in sight and wraps to the window."""
    whole = element(
        "table",
        element("caption", element("span", caption)),
        element("thead", element("tr", heads)),
        element("tbody", rows),
        class_=class_,
    )
    return element("div", whole, class_="scroll", tabindex=0, role="region", aria_label="table, scrolls sideways")


def row(head: Child, *cells: Html, class_: str | None = None) -> Html:
    """A row whose first cell names it; a long name may break after an underscore."""
    if isinstance(head, str) and not isinstance(head, Html):
        head = Html(escape(head).replace("_", "_<wbr>"))
    return element("tr", element("th", head, scope="row"), cells, class_=class_)


def cell(*content: Child, class_: str | None = None) -> Html:
    """A cell of text; class `word` keeps it on one line, `long` gives it room."""
    return element("td", *content, class_=class_)


def number(content: Child) -> Html:
    """A cell of figures."""
    return element("td", content, class_="num")


def heat(share: float | None, *, mark: bool = False) -> Html:
    """A cell coloured by a share in [0, 1], in whole per cent; None is an empty cell. `mark` outlines it."""
    if share is None:
        return element("td", "–", class_="num")
    shown = min(max(share, 0.0), 1.0)
    classes = " ".join(["heat", *(["strong"] if shown > 0.55 else []), *(["mark"] if mark else [])])
    return element("td", f"{100 * share:.0f}", class_=classes, style=f"--v:{100 * shown:.0f}%")


def facts(*pairs: tuple[Child, Child]) -> Html:
    """A list of named facts; pairs without a value are left out."""
    items = [element("div", element("dt", name), element("dd", value)) for name, value in pairs if value]
    return element("dl", items, class_="facts")


def section(identity: str, title: Child, *content: Child) -> Html:
    """A section of the page with its heading."""
    return element(
        "section",
        element("h2", title, id=f"{identity}-title"),
        content,
        id=identity,
        aria_labelledby=f"{identity}-title",
    )


def note(*content: Child, warning: bool = False) -> Html:
    """A remark under or over what it speaks of."""
    return element("p", *content, class_="note warning" if warning else "note")


def folded(summary: Child, *content: Child, is_open: bool = False) -> Html:
    """Content that opens on demand."""
    return element("details", element("summary", summary), content, open=is_open)


def code(text: str) -> Html:
    """A block of verbatim text."""
    return element("pre", element("code", text), tabindex=0)
