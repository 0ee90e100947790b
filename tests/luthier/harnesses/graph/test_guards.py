from __future__ import annotations

from typing import Any

import pytest

from luthier.errors import HarnessError
from luthier.harnesses.graph.guards import Guard, guard_text, holds, parse_guard
from luthier.harnesses.graph.lexer import Cursor, tokenise


def read(text: str) -> Guard:
    tokens = tokenise(text, line=3, field="guard", rule="bad-guard")
    cursor = Cursor(tokens, line=3, field="guard", rule="bad-guard")
    guard = parse_guard(cursor, tokens_left=len(tokens))
    cursor.end("one guard")
    return guard


STATE: dict[str, Any] = {"verdict": "wrong", "n": 3, "text": "7", "items": ["a", "b"], "flag": True, "row": {"k": 1}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('verdict == "wrong"', True),
        ('verdict != "wrong"', False),
        ("visits.check < 3", True),
        ("visits.check >= 3", False),
        ("visits.other == 0", True),
        ("text == 7", True),
        ("text < 10", True),
        ("n > text", False),
        ('n < "abc"', False),
        ('n == "3"', True),
        ("len(items) == 2 and len(text) <= 1", True),
        ('"a" in items', True),
        ('verdict in ["right", "wrong"]', True),
        ('"ron" in verdict', True),
        ('"k" in row', True),
        ('"z" not in items', True),
        ('not verdict == "wrong" or n == 3', True),
        ('not (verdict == "wrong" or n == 3)', False),
        ('verdict == "x" and n == 3 or flag == true', True),
        ('verdict == "x" and (n == 3 or flag == true)', False),
        ("flag == 1", False),
        ("items < 3", False),
    ],
)
def test_guards_hold_or_not(text: str, expected: bool) -> None:
    assert holds(read(text), STATE, {"check": 2}) is expected


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('(a == "x")', 'a == "x"'),
        ("(a == 1 and b == 2) and c == 3", "a == 1 and b == 2 and c == 3"),
        ("a == 1.0", "a == 1"),
        ("not(a==1 or b==2)", "not (a == 1 or b == 2)"),
        ("a in [1,2]", "a in [1, 2]"),
        ("(a == 1 or b == 2) and c == 3", "(a == 1 or b == 2) and c == 3"),
    ],
)
def test_canonical_text_is_a_fixed_point(text: str, canonical: str) -> None:
    assert guard_text(read(text)) == canonical
    assert guard_text(read(canonical)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "open(x) == 1",
        "len(len(x)) == 1",
        "x.upper == 1",
        "visits.a.b == 1",
        "visits == 1",
        "x[0] == 1",
        "x + 1 == 2",
        "x * 2 == 2",
        "-x == 2",
        "x",
        "true",
        "a == 1 == 1",
        "x == ",
        "(x == 1",
        "x is 1",
        "x == 'y'",
        "lambda: 1",
        "x := 1",
        " and ".join(["x == 1"] * 40),
    ],
)
def test_anything_but_a_comparison_is_refused(text: str) -> None:
    with pytest.raises(HarnessError) as caught:
        read(text)
    assert caught.value.rule == "bad-guard"
    assert caught.value.line == 3
    assert caught.value.fix


def test_deep_nesting_neither_recurses_too_far_nor_passes() -> None:
    with pytest.raises(HarnessError):
        read("not " * 2000 + "x == 1")
