"""Which benchmark a row belongs to, by the fields that only its publisher writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FIELDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("humaneval", frozenset(("prompt", "canonical_solution"))),
    ("bbh", frozenset(("input", "target"))),
    ("sst2", frozenset(("sentence", "label"))),
    ("mmlu", frozenset(("question", "choices"))),
    ("mmlu", frozenset("ABCD")),
    ("hotpotqa", frozenset(("question", "supporting_facts"))),
    ("hotpotqa", frozenset(("question", "answer", "context"))),
    ("math", frozenset(("problem", "solution"))),
    ("math", frozenset(("problem", "answer"))),
)


def published_form(row: Mapping[str, Any]) -> str:
    """Name of the task in whose published form a row is; "" when it has none of them.

    BIG-Bench Hard and Extra Hard share one form, "bbh".
    """
    answer = row.get("answer")
    if "question" in row and isinstance(answer, str) and "####" in answer:
        return "gsm8k"
    return next((name for name, fields in _FIELDS if fields <= row.keys()), "")
