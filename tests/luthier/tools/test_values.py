from __future__ import annotations

from datetime import date
from fractions import Fraction
from typing import Any

import pytest

from luthier.tools.values import (
    ToolInputError,
    majority,
    normalise,
    parse_date,
    parse_int,
    parse_list,
    parse_numbers,
    parse_word,
    plain,
    render,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(7), "7"),
        (Fraction(1, 8), "0.125"),
        (Fraction(-1, 8), "-0.125"),
        (Fraction(1, 3), "1/3"),
        (7.0, "7"),
        (0.5, "0.5"),
        (True, "true"),
        (["b", "a", Fraction(2)], "b, a, 2"),
        ({"b": 1, "a": "ä"}, '{"a": "ä", "b": 1}'),
    ],
)
def test_values_as_answer_texts(value: Any, text: str) -> None:
    assert render(value) == text


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("b, a, c", ["b", "a", "c"]),
        ("Words: b, a and c.", ["b", "a and c"]),
        ("b, a, and c", ["b", "a", "c"]),
        ("['b', \"a\"]", ["b", "a"]),
        ("b a c", ["b", "a", "c"]),
        ("b\na", ["b", "a"]),
    ],
)
def test_lists_as_models_write_them(text: str, items: list[str]) -> None:
    assert parse_list(text) == items


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1,234 and -5", [1234, -5]),
        ("3-4", [3, 4]),
        ("x = .5 or 1/4", [Fraction(1, 2), Fraction(1, 4)]),
        ("12,18", [12, 18]),
        ("7.0.", [7]),
    ],
)
def test_numbers_are_read_exactly(text: str, numbers: list[Fraction]) -> None:
    assert parse_numbers(text) == numbers


def test_words_dates_and_whole_numbers() -> None:
    assert parse_word(' "Apple". ') == "Apple"
    assert parse_date("on 2024-5-7, maybe") == date(2024, 5, 7)
    assert parse_int("about 12.0") == 12
    for parse, text in ((parse_word, "two words"), (parse_date, "7 May"), (parse_int, "1.5"), (parse_int, "1 or 2")):
        with pytest.raises(ToolInputError):
            parse(text)


def test_a_number_of_absurd_length_is_refused() -> None:
    with pytest.raises(ToolInputError, match="too long"):
        parse_numbers("9" * 500)


def test_votes_compare_answers_by_meaning_and_ties_go_to_the_first() -> None:
    assert normalise(" 7.0. ") == normalise("7") == "7"
    assert normalise("1,234") == "1234"
    assert majority(["8", "Seven", "seven."]) == "Seven"
    assert majority(["b", "a", "a", "b"]) == "b"
    assert majority(["", "", "x"]) == "x"
    assert majority(["", " "]) == ""


def test_plain_values_are_json_types() -> None:
    assert plain([Fraction(4, 2), Fraction(1, 2), "a"]) == [2, "0.5", "a"]
