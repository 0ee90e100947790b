"""A finished log read at smaller budgets, on rows written by hand."""

from __future__ import annotations

import pytest

from luthier.ledger.budget import Amount
from luthier.search.best_at_budget import best_at_budget
from luthier.search.candidate import Candidate
from luthier.search.contracts import LogRow

START, BETTER, BEST = (Candidate.make({"prompt": text}) for text in ("Answer.", "Answer well.", "Answer best."))
VALIDATED = {item.digest: item for item in (START, BETTER, BEST)}


def row(
    step: int, event: str, best: Candidate | None, score: float | None, calls: int, *, full: bool = False
) -> LogRow:
    spent = Amount(rollouts=calls // 2, calls=calls, prompt_tokens=10 * calls, picodollars=calls * 10**9)
    detail = {"full": full} if event == "evaluate" else {}
    return LogRow(step, event, "", "", "", detail, score, best.digest if best else "", spent)


ROWS = [
    row(0, "start", None, None, 0),
    row(1, "evaluate", START, 0.2, 10, full=True),
    row(2, "evaluate", START, 0.2, 13),
    row(3, "propose", START, 0.2, 14),
    row(4, "evaluate", BETTER, 0.5, 24, full=True),
    row(5, "evaluate", BETTER, 0.5, 34, full=True),
    row(6, "evaluate", BEST, 0.9, 44, full=True),
    row(7, "stop", BEST, 0.9, 44),
]


@pytest.mark.parametrize(
    ("budget", "candidate", "score", "calls", "steps", "validations"),
    [
        (0, START, None, 0, 1, 0),
        (9, START, None, 0, 1, 0),
        (10, START, 0.2, 10, 2, 1),
        (23, START, 0.2, 14, 4, 1),
        (24, BETTER, 0.5, 24, 5, 2),
        (43.9, BETTER, 0.5, 34, 6, 3),
        (44, BEST, 0.9, 44, 8, 4),
        (1e9, BEST, 0.9, 44, 8, 4),
    ],
)
def test_the_best_that_was_validated_within_the_budget_stands(budget, candidate, score, calls, steps, validations):
    stand = best_at_budget(ROWS, VALIDATED, START, "calls", budget)
    assert (stand.budget, stand.candidate, stand.score) == (budget, candidate, score)
    assert (stand.spent.calls, stand.steps, stand.validations) == (calls, steps, validations)


@pytest.mark.parametrize(
    ("unit", "budget"), [("rollouts", 12), ("calls", 24), ("prompt_tokens", 240), ("price", 0.024)]
)
def test_every_unit_counts_its_own_numbers_and_the_limit_itself_is_within(unit, budget):
    assert best_at_budget(ROWS, VALIDATED, START, unit, budget).candidate == BETTER
    assert best_at_budget(ROWS, VALIDATED, START, unit, budget * 0.999).candidate == START


def test_a_spend_that_nobody_knows_is_within_no_budget():
    rows = [LogRow(0, "evaluate", "", "", "", {"full": True}, 0.9, BEST.digest, Amount(calls=1, picodollars=None))]
    stand = best_at_budget(rows, VALIDATED, START, "price", 1e9)
    assert (stand.candidate, stand.score, stand.spent, stand.steps) == (START, None, Amount(), 0)


def test_an_empty_log_leaves_the_start():
    stand = best_at_budget([], {}, START, "calls", 5)
    assert (stand.candidate, stand.score, stand.spent, stand.steps, stand.validations) == (START, None, Amount(), 0, 0)
