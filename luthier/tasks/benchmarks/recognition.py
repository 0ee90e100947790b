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


def published_forms(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the tasks in whose published form a row is; none for a form of the user's own.

    BIG-Bench Hard and Extra Hard share one form, "bbh".
    """
    found = [name for name, fields in _FIELDS if fields <= row.keys()]
    answer = row.get("answer")
    if "question" in row and isinstance(answer, str) and "####" in answer:
        found.insert(0, "gsm8k")
    return tuple(found)
