from __future__ import annotations

from fractions import Fraction

import pytest

from luthier.tools.arithmetic import evaluate
from luthier.tools.values import ToolInputError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", Fraction(7)),
        ("-2 ** 2", Fraction(-4)),
        ("2 ** 3 ** 2", Fraction(512)),
        ("2 ** -2", Fraction(1, 4)),
        ("(1 + 2) × 3 ÷ 2", Fraction(9, 2)),
        ("7 // 2 + 7 % 3", Fraction(4)),
        ("0.1 + 0.2", Fraction(3, 10)),
        ("1,234 + 1 = ?", Fraction(1235)),
        ("--3", Fraction(3)),
    ],
)
def test_values_are_exact(text: str, expected: Fraction) -> None:
    assert evaluate(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "1 +", "(1", "1)", "1 / 0", "5 % 0", "0 ** -1", "2 ** 0.5", "9 ** 999", "9**99**99", "a", "1 2", "1" * 201],
)
def test_what_is_no_small_expression_is_refused(text: str) -> None:
    with pytest.raises(ToolInputError):
        evaluate(text)


def test_a_product_cannot_grow_beyond_the_bound() -> None:
    with pytest.raises(ToolInputError, match="too large"):
        evaluate("*".join(["9**256"] * 10))
