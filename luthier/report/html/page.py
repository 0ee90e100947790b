"""The page: sections in reading order, one style sheet inside, no script, nothing fetched from elsewhere."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from luthier.report.html.markup import Html, document, element, join
from luthier.report.sections.contenders import contenders
from luthier.report.sections.curves import curves
from luthier.report.sections.data import MethodData, ReportData
from luthier.report.sections.families import families
from luthier.report.sections.headline import headline
from luthier.report.sections.money import money, read_spending
from luthier.report.sections.origins import origins
from luthier.report.sections.samples import samples
from luthier.report.sections.systems import novelties
from luthier.report.sections.teaching import grid, teaching
from luthier.settings.load import Params

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Content security policy: even markup that slipped through could neither run nor fetch anything."""


def render(data: ReportData, params: Params, root: Path) -> str:
    """The whole page.

    Args:
        data: Checked inputs.
        params: Settings, for names of models and of the ledger's runs.
        root: The project's folder, for ledger, DVC's lock and MLflow.
    """
    title = f"Luthier: {', '.join(method.card.title for method in data.methods)} on {params.ask.task.name}"
    main = [
        headline(data, params),
        [_method(method, data) for method in data.methods],
        grid(data),
        money(read_spending(root, params)),
        origins(data.methods, root),
    ]
    body = element(
        "body",
        element("a", "Skip to the answer", href="#answer", class_="skip"),
        element("header", element("h1", title), _navigation(data.methods)),
        element("main", main),
        element("footer", element("p", "Made by `python -m stages.report` from the pipeline's files alone.")),
    )
    style = files("luthier.report.html").joinpath("style.css").read_text(encoding="utf-8")
    return document(title, style, _POLICY, body)


def _method(method: MethodData, data: ReportData) -> Html:
    return join(
        contenders(method),
        families(method, data),
        curves(method),
        novelties(method, data),
        samples(method, data),
        teaching(method),
    )


def _navigation(methods: tuple[MethodData, ...]) -> Html:
    parts = {
        "contenders": "scores",
        "families": "families",
        "curves": "curves",
        "novel": "new compositions",
        "samples": "samples",
        "teach": "teacher",
    }
    places = [("answer", "answer")]
    for method in methods:
        lead = f"{method.card.title}: " if len(methods) > 1 else ""
        known = [part for part in parts if part != "teach" or method.teaching]
        places += [(f"{method.card.name}-{part}", lead + parts[part]) for part in known]
    places += [("grid", "grid"), ("money", "money"), ("lineage", "lineage")]
    items = [element("li", element("a", label, href=f"#{identity}")) for identity, label in places]
    return element("nav", element("ul", items), aria_label="sections")
