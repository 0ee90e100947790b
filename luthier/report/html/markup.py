"""HTML and SVG from plain functions. Every text is escaped unless it is `Html` already.

Questions and answers are written by data sets and models: they may hold tags, control characters or halves of
surrogate pairs, and must neither run nor break the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape as html_escape
from typing import TypeAlias

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_VOID = frozenset({"br", "col", "hr", "meta"})


class Html(str):
    """Text that is markup already and goes into the page as it is."""

    __slots__ = ()


Child: TypeAlias = "str | int | Iterable[Child] | None"
"""What an element may hold: markup, text (escaped), a whole number, nothing, or several of these."""


def escape(text: object) -> Html:
    """Text as markup: special characters become entities, characters that HTML forbids become U+FFFD."""
    return Html(html_escape(_UNPRINTABLE.sub("\ufffd", str(text)), quote=True))


def join(*children: Child) -> Html:
    """Several children as one piece of markup."""
    return Html("".join(_pieces(children)))


def element(tag: str, *children: Child, **attributes: str | int | float | bool | None) -> Html:
    """One element.

    Args:
        tag: Its name.
        children: Its content.
        attributes: `class_` is class, `stroke_width` is stroke-width; None and False are left out, True is a
            bare name. Floats are printed with at most two decimals, so that equal figures give equal pages.
    """
    opening = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Html(f"<{tag}{opening}>")
    return Html(f"<{tag}{opening}>{join(*children)}</{tag}>")


def document(title: str, style: str, policy: str, body: Html) -> str:
    """A whole page.

    Args:
        title: Of the page.
        style: Its style sheet.
        policy: Content security policy: markup that slipped through could neither run nor fetch anything else.
        body: The element.
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Html(style)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _attribute(name: str, value: str | int | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return f' {name}="{escape(text)}"'


def _pieces(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Html):
            yield child
        elif isinstance(child, str | int):
            yield escape(child)
        else:
            yield from _pieces(child)
