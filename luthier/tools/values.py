"""Values between nodes: how texts are read as numbers, lists and dates, and how values are written as texts.

The parsers are the declared coercions of tool inputs and typed state. They read what a small model writes
("Words: b, a, c", "1,234", "the date 2024-05-17") and refuse what they cannot read; they never guess a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from typing import Any

Number = Fraction
Value = Any
"""A state or tool value: str, bool, int, float, Fraction, list of these, or dict (JSON object)."""

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})+(?:\.\d+)?(?!\d)|(?<![\w.])-?\d+(?:\.\d+)?(?:/[1-9]\d*)?|-?\.\d+")
_DATE = re.compile(r"(?<!\d)(\d{4})-(\d{1,2})-(\d{1,2})(?!\d)")
_MAX_DIGITS = 400


class ToolInputError(ValueError):
    """An input that a parser or a tool cannot use; the run ends as `noop` with this text."""


def render(value: Value) -> str:
    """A value as an answer text: "a, b, c" for lists, integers without ".0", exact decimals, else p/q."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Fraction):
        return _render_fraction(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, list | tuple):
        return ", ".join(render(item) for item in value)
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    return str(value)


def plain(value: Value) -> Value:
    """The same value with JSON types only (fractions become int where whole, else their text)."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else _render_fraction(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def parse_text(value: Value) -> str:
    """Any value as text."""
    return render(value)


def parse_word(value: Value) -> str:
    """A single word, quotes and surrounding punctuation removed.

    Raises:
        ToolInputError: nothing, or more than one word.
    """
    word = render(value).strip().strip(".,;:!?\"'()[]")
    if not word or re.search(r"[\s,]", word):
        raise ToolInputError(f"one word is needed, got {render(value)[:60]!r}")
    return word


def parse_list(value: Value) -> list[str]:
    """Items of a list: separated by commas, semicolons or lines, else by spaces; a "Words:" before
    them, brackets and quotes are removed.

    Raises:
        ToolInputError: no item.
    """
    if isinstance(value, list | tuple):
        items = [render(item) for item in value]
    else:
        text = re.sub(r"^\s*[^,;:\n]{1,40}:\s+", "", render(value)).strip().strip("[](){}").strip().rstrip(".")
        separator = r"[,;\n]" if re.search(r"[,;\n]", text) else r"\s+"
        items = [re.sub(r"^and\s+", "", item.strip()).strip("\"'` ") for item in re.split(separator, text)]
    items = [item for item in items if item]
    if not items:
        raise ToolInputError(f"a list is needed, got {render(value)[:60]!r}")
    return items


def parse_number(value: Value) -> Number:
    """The only number in a value, exact.

    Raises:
        ToolInputError: none, or several.
    """
    numbers = parse_numbers(value)
    if len(numbers) != 1:
        raise ToolInputError(f"one number is needed, got {render(value)[:60]!r}")
    return numbers[0]


def parse_int(value: Value) -> int:
    """The only number in a value, which must be whole.

    Raises:
        ToolInputError: none, several, or not whole.
    """
    number = parse_number(value)
    if number.denominator != 1:
        raise ToolInputError(f"a whole number is needed, got {render(value)[:60]!r}")
    return int(number)


def parse_numbers(value: Value) -> list[Number]:
    """All numbers in a value, in order, exact.

    Raises:
        ToolInputError: none, or one with more than 400 digits.
    """
    if isinstance(value, list | tuple):
        return [number for item in value for number in parse_numbers(item)]
    found = _NUMBER.findall(render(value))
    if not found:
        raise ToolInputError(f"a number is needed, got {render(value)[:60]!r}")
    if any(len(text) > _MAX_DIGITS for text in found):
        raise ToolInputError("the number is too long")
    return [Fraction(text.replace(",", "")) for text in found]


def parse_date(value: Value) -> date:
    """The first ISO date (YYYY-MM-DD) in a value.

    Raises:
        ToolInputError: no date, or one that the calendar does not have.
    """
    match = _DATE.search(render(value))
    if match is None:
        raise ToolInputError(f"a date YYYY-MM-DD is needed, got {render(value)[:60]!r}")
    try:
        return date(int(match.group(1)), int(match.group(2)), int(match.group(3)))
    except ValueError as error:
        raise ToolInputError(f"{match.group(0)} is not a date") from error


def normalise(value: Value) -> str:
    """Form in which two answers are compared by `vote`: no case, no outer punctuation, 7.0 as 7, "1,234" as 1234."""
    text = " ".join(render(value).casefold().split()).strip(".,;:!?\"'()[]$ ")
    match = _NUMBER.fullmatch(text)
    if match and len(text) <= _MAX_DIGITS:
        return _render_fraction(Fraction(text.replace(",", "")))
    return text


def majority(values: Sequence[Value]) -> Value:
    """The value whose normalised form is most frequent; the earliest one on a tie; "" when all are empty."""
    forms = [(normalise(value), value) for value in values]
    forms = [(form, value) for form, value in forms if form]
    counts: dict[str, int] = {}
    for form, _ in forms:
        counts[form] = counts.get(form, 0) + 1
    best = max(counts.values(), default=0)
    return next((value for form, value in forms if counts[form] == best), "")


def _render_fraction(value: Fraction) -> str:
    """Whole numbers and decimals of at most 12 places exactly; everything else as p/q, so that nothing is lost."""
    if value.denominator == 1:
        return str(value.numerator)
    scaled = value * 10**12
    if scaled.denominator != 1:
        return f"{value.numerator}/{value.denominator}"
    digits = str(abs(scaled.numerator)).rjust(13, "0")
    return f"{'-' if value < 0 else ''}{digits[:-12]}.{digits[-12:].rstrip('0')}"
