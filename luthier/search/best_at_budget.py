"""What a search had proved when its ledger stood at a total budget: one search answers for every smaller budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from luthier.ledger.budget import Amount
from luthier.search.candidate import Candidate
from luthier.search.contracts import LogRow


@dataclass(frozen=True, slots=True)
class BestAtBudget:
    """The best candidate at a budget.

    Attributes:
        budget: The limit. candidate: Best by full validation, the start when none was validated within the budget.
        score: Its mean validation score, None when none was.
        spent: As if alone, after the last step within the budget. steps: How many steps that were.
        validations: Full validations within the budget: best of this many (selection multiplicity).
    """

    budget: float
    candidate: Candidate
    score: float | None
    spent: Amount
    steps: int
    validations: int


def best_at_budget(
    rows: Sequence[LogRow], validated: Mapping[str, Candidate], start: Candidate, unit: str, budget: float
) -> BestAtBudget:
    """Read a finished log at a smaller budget; exact for searches whose course does not depend on the budget.

    Args:
        rows: The whole log.
        validated: Candidates by digest, as `Session.validated` has them.
        start: The seed candidate.
        unit: One of `luthier.ledger.budget.UNITS`.
        budget: In that unit.
    """
    within = [row for row in rows if (spent := row.spent.get(unit)) is not None and spent <= budget]
    last = within[-1] if within else None
    best = validated[last.best_candidate] if last is not None and last.best_candidate else start
    return BestAtBudget(
        budget,
        best,
        last.best if last is not None else None,
        last.spent if last is not None else Amount(),
        len(within),
        sum(row.event == "evaluate" and row.detail["full"] for row in within),
    )
