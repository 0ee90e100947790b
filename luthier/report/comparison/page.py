"""The comparison page: one file, its style, script and data inside, nothing fetched from elsewhere.

Tables and plots stand in the markup and need no script; the script sorts, filters, and opens the executions of a
question side by side. Only the script with the digest in the content security policy may run, so markup in a
question or an answer could not run even if it slipped through.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from importlib.resources import files

from luthier.evaluation.method_run import TRAINED_TOKEN, MethodRun, unit_label
from luthier.evaluation.results import BreakEvenPair, Comparison, Group, MethodResult
from luthier.question import Question
from luthier.report.comparison import tables
from luthier.report.comparison.charts import Colours, compact, front_plot, group_data, spend_plot, use_plot
from luthier.report.comparison.data import (
    LONGEST_HARNESS,
    LONGEST_QUESTION,
    LONGEST_VALUE,
    MOST_STEPS,
    embedded,
)
from luthier.report.html.charts import OUTCOMES
from luthier.report.html.markup import Html, document, element, join
from luthier.report.html.numbers import bounds, count, difference, estimate
from luthier.report.html.tables import note, section

_SHADES = {"learned": 4, "searched": 8, "fixed": 4}
"""Colours of each kind in the style sheet; more contenders begin again."""


def render_comparison(
    comparison: Comparison, contenders: Sequence[MethodRun], questions: Iterable[Question] = ()
) -> str:
    """The whole page.

    Args:
        comparison: From `luthier.evaluation.compare.compare`.
        contenders: The runs that it was made from; their executions are embedded.
        questions: Texts and references to show; a question that is not among them is shown by its id.
    """
    title = f"Luthier: comparison on {', '.join(sorted({group.task for group in comparison.groups}))}"
    colours = _colours(comparison)
    script = _file("comparison", "comparison.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    data = embedded(comparison, contenders, {question.id: question for question in questions}, colours)
    parts = [part for part in _parts(comparison, contenders, colours) if part is not None]
    places = [element("li", element("a", label, href=f"#{identity}")) for identity, label, _ in parts]
    body = element(
        "body",
        element("a", "Skip to the answer", href="#answer", class_="skip"),
        element("header", element("h1", title), element("nav", element("ul", places), aria_label="sections")),
        element("main", parts[0][2], _filters(comparison, contenders), [content for _, _, content in parts[1:]]),
        element("footer", element("p", "Made from the files of the compared runs alone. Self-contained.")),
        element("dialog", id="drill", aria_labelledby="drill-title"),
        element("script", data, type="application/json", id="data"),
        element("script", Html(script)),
    )
    return document(title, _file("html", "style.css") + _file("comparison", "comparison.css"), policy, body)


def _parts(
    comparison: Comparison, contenders: Sequence[MethodRun], colours: Colours
) -> list[tuple[str, str, Html] | None]:
    overall = tables.overall(comparison)
    return [
        ("answer", "answer", _answer(comparison, contenders)),
        ("standings", "standings", _standings(comparison, colours)),
        (
            "overall",
            "over tasks",
            section("overall", "Over all tasks", overall, note("Methods that were scored on every task.")),
        )
        if overall
        else None,
        ("costs", "score and cost", _costs(comparison, colours)),
        ("break-even", "break-even", _break_even(comparison, colours)),
        (
            "differences",
            "differences",
            section("differences", "Paired differences", tables.differences(comparison), note(_PAIR_NOTE)),
        ),
        ("generalisation", "generalisation", _generalisation(comparison, colours)),
        ("questions", "questions", _questions()),
        ("money", "money", section("money", "Who spent what", tables.bills(comparison), note(_MONEY_NOTE))),
        ("conditions", "conditions", section("conditions", "Trained, frozen, editable", tables.conditions(comparison))),
    ]


_SPEND_NOTE = (
    "Lines are the best validation score so far, the mean over seeds; the shade goes from the lowest to the highest "
    "seed. Points are test scores with 95 % intervals, after everything that was spent. Dashed levels spent nothing."
)
_FRONT_NOTE = (
    "Price per use is one question's generator and target together. The line joins the contenders on the Pareto front: "
    "no other scores at least as much for no more. Hollow points are behind it."
)
_PAIR_NOTE = (
    "Paired by question, each question's mean over seeds. Rescued and regressed: questions where the first scored "
    "higher or lower."
)
_MONEY_NOTE = (
    "As if alone: what the same work costs with an empty store; budgets, plots and break-even use it. Paid: what "
    f"really went to an engine. A token of an update pass counts as {TRAINED_TOKEN} read ones (ours)."
)
_USE_NOTE = (
    "Uses at which both cost the same: n* = (cost before use of the learned one − of the other) / (cost per use of the "
    "other − of the learned one). A dot has the learned one's colour, its whiskers and figure the other's. Whiskers "
    "and brackets are 95 % intervals of a bootstrap over questions and seeds, paired; an open side means that the "
    "resamples set no bound. Cost alone is counted; where the cheaper one scores significantly less, it is said that "
    "this is no saving."
)


def _answer(comparison: Comparison, contenders: Sequence[MethodRun]) -> Html:
    seeds = sorted({run.seed for run in contenders if run.kind != "fixed"})
    facts = (
        f"{count(len(contenders))} runs, {count(sum(len(run.trials) for run in contenders))} executions, seeds "
        f"{', '.join(str(seed) for seed in seeds) or 'none'}. Spend is counted in {unit_label(comparison.unit)}."
    )
    return section(
        "answer",
        "The answer",
        [_sentence(group, "lead" if len(comparison.groups) == 1 else None) for group in comparison.groups],
        [note(element("strong", "Not a headline. "), text, warning=True) for text in comparison.warnings],
        note(facts),
    )


def _sentence(group: Group, class_: str | None) -> Html:
    """Best learned against best searched (or whatever there is), and when it begins to cost less."""
    best = {kind: _best(group, kind) for kind in ("learned", "searched", "fixed")}
    shown = [item for item in best.values() if item is not None]
    where = f"On {count(group.questions)} questions of {group.task}"
    where += f", each within {compact(group.budget.limit or 0)} {unit_label(group.budget.unit)}" if group.budget else ""
    said = [
        join("the best ", f"{item.kind} one, ", element("strong", f"{item.label}, scores {estimate(item.score)}"))
        for item in shown
    ]
    text = join(where, ": ", [join("; " if place else "", part) for place, part in enumerate(said)], ". ")
    learned, other = best["learned"], best["searched"] or best["fixed"]
    if learned and other:
        crossing = next(c for c in group.crossings if (c.learned, c.other) == (learned.method, other.method))
        text = join(
            text,
            f"{learned.label} − {other.label}: {difference(crossing.pair.difference.interval)}{_over_seeds(crossing)}. "
            f"It costs less than {other.label} ",
            element("strong", tables.verdict(crossing)),
            ".",
        )
    return element("p", text, class_=class_, **_data(group))


def _over_seeds(crossing: BreakEvenPair) -> str:
    wide = crossing.pair.over_seeds
    return f", over seeds, too, {bounds(wide)}" if wide else " (one seed: no interval over seeds)"


def _best(group: Group, kind: str) -> MethodResult | None:
    """Highest score, ties to the cheaper one per use and then to the name."""
    found = [item for item in group.standings if item.kind == kind]
    return min(found, key=lambda item: (-item.score.mean, item.use_cost, item.label), default=None)


def _standings(comparison: Comparison, colours: Colours) -> Html:
    legend = element(
        "ul",
        [element("li", element("span", class_=f"key outcome-{name}", aria_hidden="true"), name) for name in OUTCOMES],
        class_="legend",
    )
    return section(
        "standings",
        "Standings",
        tables.standings(comparison, colours),
        legend,
        note(
            "Pooled scores are means over questions, each question's over its seeds; equal weight is the mean over "
            "families. Intervals (bootstrap over questions) speak of new questions at these seeds; the spread over "
            "seeds stands beside them, and the paired differences are given over new seeds, too. Activate a heading "
            "to sort."
        ),
    )


def _break_even(comparison: Comparison, colours: Colours) -> Html:
    plots = [use_plot(group, comparison.unit, colours) for group in comparison.groups]
    rows = any(group.crossings for group in comparison.groups)
    return section(
        "break-even",
        "Break-even",
        element("div", plots, element("div", note(_USE_NOTE), class_="aside"), class_="plots"),
        tables.break_evens(comparison) if rows else note("No learned contender, so nothing to break even."),
    )


def _costs(comparison: Comparison, colours: Colours) -> Html:
    plots = [draw(group, comparison.unit, colours) for group in comparison.groups for draw in (spend_plot, front_plot)]
    return section(
        "costs",
        "Score against spend, and against price per use",
        element("div", plots, class_="plots"),
        note(_SPEND_NOTE),
        note(_FRONT_NOTE),
    )


def _generalisation(comparison: Comparison, colours: Colours) -> Html:
    families = tables.unseen_families(comparison, colours)
    targets = tables.second_targets(comparison)
    return section(
        "generalisation",
        "Generalisation, on two axes",
        note("Two questions, never merged into one figure."),
        element("h3", "To families held out of training"),
        families or note("Not measured: every test family was in the training of every contender."),
        element("h3", "To a second target"),
        targets or note("Not measured: no contender was run on a target other than its own."),
    )


def _questions() -> Html:
    return section(
        "questions",
        "Question by question",
        element("p", "", id="shown", class_="note", role="status", aria_live="polite"),
        element("div", id="list", class_="scroll", role="region", aria_label="questions", tabindex=0),
        element("noscript", note("The list of questions needs the page's own script; everything above does not.")),
        note(
            "Open a question to see what every contender wrote, did and spent. Keys: up and down move between "
            "questions, left and right go on inside an open one, Escape closes it, / goes to the search. A star marks "
            "cells in which some execution gave no answer. Embedded texts are cut: questions after "
            f"{count(LONGEST_QUESTION)} characters, values after {LONGEST_VALUE}, harnesses after "
            f"{count(LONGEST_HARNESS)}, traces after {MOST_STEPS} steps; a cut says how much is missing."
        ),
    )


def _filters(comparison: Comparison, contenders: Sequence[MethodRun]) -> Html:
    labels = {item.method: item.label for group in comparison.groups for item in group.standings}
    home = comparison.groups[0].target
    targets = sorted({run.target for run in contenders}, key=lambda name: (name != home, name))
    fields = [
        _choice("method", [("", "all"), *labels.items()]),
        _choice("budget", [("", "all"), *_named({g.budget_name for g in comparison.groups if g.budget})]),
        _choice("task", [("", "all"), *_named({group.task for group in comparison.groups})]),
        _choice("family", [("", "all"), *_named({t.family for run in contenders for t in run.trials})]),
        _choice("outcome", [("", "all"), *((name, name) for name in OUTCOMES[:-1])]),
        _choice("answer", _ANSWERS),
        _choice("seed", [("", "all"), *((str(s), str(s)) for s in sorted({run.seed for run in contenders}))]),
        _choice("target", [(name, ("own: " if name == home else "second: ") + name) for name in targets])
        if len(targets) > 1
        else None,
        element(
            "label",
            element("span", "search"),
            element("input", type="search", name="text", placeholder="text or id", autocomplete="off"),
        ),
        element("button", "Reset", type="reset"),
        element("a", "to the questions", href="#questions", class_="to-questions"),
    ]
    return element("form", fields, id="filters", class_="filters", aria_label="filters")


_ANSWERS = [("", "all"), ("right", "right"), ("wrong", "wrong"), ("mixed", "contenders disagree")]


def _choice(name: str, options: Sequence[tuple[str, str]]) -> Html:
    shown = [element("option", label, value=value) for value, label in options]
    label = "right or wrong" if name == "answer" else name
    return element("label", element("span", label), element("select", shown, name=name))


def _named(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, name) for name in sorted(names)]


def _data(group: Group) -> dict[str, str | None]:
    return {f"data_{name}": value for name, value in group_data(group).items()}


def _colours(comparison: Comparison) -> dict[str, str]:
    """Method -> class of its colour: warm when learned, cool when searched, grey when fixed."""
    colours: dict[str, str] = {}
    used = dict.fromkeys(_SHADES, 0)
    for group in comparison.groups:
        for item in group.standings:
            if item.method not in colours:
                colours[item.method] = f"{item.kind}-{used[item.kind] % _SHADES[item.kind] + 1}"
                used[item.kind] += 1
    return colours


def _file(package: str, name: str) -> str:
    return files(f"luthier.report.{package}").joinpath(name).read_text(encoding="utf-8")
