"""What training itself took: samples drawn and update passes, with their seconds and pace."""

from __future__ import annotations

from collections.abc import Sequence

from luthier.ledger.budget import show
from luthier.ledger.ledger import Line
from luthier.report.html.markup import Html
from luthier.report.html.tables import Column, cell, number, row, table
from luthier.training.bill import PHASES, Work

_LABELS: dict[Work, str] = {
    "draw": "samples drawn",
    "reference": "reference for the KL term",
    "update": "update passes",
}


def training_costs(lines: Sequence[Line]) -> Html | None:
    """One row per phase and kind of work, as paid; None when nothing was trained.

    Args:
        lines: Ledger totals; a phase counts as training when it has update passes.
    """
    mine = {(line.method, line.phase): line for line in lines if (line.account, line.role) == ("train", "generator")}
    updates = PHASES["update"].format("")
    trained = [(method, phase.removesuffix(updates)) for method, phase in sorted(mine) if phase.endswith(updates)]
    rows = [
        _row(line, phase, _LABELS[work])
        for method, phase in trained
        for work in PHASES
        if (line := mine.get((method, PHASES[work].format(phase))))
    ]
    if not rows:
        return None
    columns = [
        *map(Column, ("phase", "method", "work")),
        *(
            Column(name, numeric=True)
            for name in ("sequences", "tokens read", "tokens written or learned", "seconds", "tokens a second")
        ),
    ]
    return table("Training: what the generator itself was busy with, as paid", columns, rows)


def _row(line: Line, phase: str, work: str) -> Html:
    paid = line.paid
    tokens = paid.prompt_tokens + paid.completion_tokens
    figures = [show(paid.get(unit), unit) for unit in ("calls", "prompt_tokens", "completion_tokens", "seconds")]
    pace = f"{tokens / paid.seconds:,.0f}" if paid.seconds else "–"
    return row(phase, cell(line.method), cell(work), *map(number, [*figures, pace]))
