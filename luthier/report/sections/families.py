"""The heat table: every family of the test questions by every contender."""

from __future__ import annotations

from collections import Counter

from luthier.report.html.markup import Html
from luthier.report.html.numbers import count, percent
from luthier.report.html.tables import (
    Column,
    cell,
    contender_label,
    heat,
    kind_label,
    kind_order,
    note,
    number,
    row,
    section,
    table,
)
from luthier.report.sections.data import MethodData, ReportData


def families(method: MethodData, data: ReportData) -> Html:
    """Score per family and contender, with the family's kind and whether the teacher showed it."""
    name = method.card.name
    names = sorted(data.families, key=lambda family: kind_order(data.kind(family)))
    taught = method.teaching.families if method.teaching else {}
    sizes = Counter(question.family for question in data.questions["test"])
    columns = [
        Column("family"),
        Column("kind"),
        Column("teacher rows", numeric=True),
        Column("n", numeric=True),
        *(Column(contender_label(contender), numeric=True) for contender in method.scores.test),
    ]
    rows = [
        row(
            family,
            cell(kind_label(data.kind(family)), class_="word"),
            number(count(taught[family]) if family in taught else "held back"),
            number(count(sizes[family])),
            *(heat(standing.by_family.get(family)) for standing in method.scores.test.values()),
        )
        for family in names
    ]
    return section(
        f"{name}-families",
        f"{method.card.title}: by family",
        table("Mean score in per cent of the family's test questions", columns, rows),
        [note(text) for text in chance_notes(data)],
        note("Families that no teacher row holds are “held back”: imitation alone has not seen them.")
        if method.teaching
        else None,
    )


def chance_notes(data: ReportData) -> list[str]:
    """What always giving the most frequent reference would score, per family where no tool helps."""
    notes = []
    for family in data.families:
        if data.kind(family) != "no_tool":
            continue
        answer, times, total = data.majority(family)
        notes.append(
            f"Chance level of {family} is {percent(times / total)}: what always answering “{answer}” scores "
            f"({times} of {total} references)."
        )
    return notes
