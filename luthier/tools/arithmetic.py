"""Exact arithmetic on texts, by recursive descent. Nothing is evaluated by Python; sizes are bounded."""

from __future__ import annotations

import re
from fractions import Fraction

from luthier.tools.values import ToolInputError

_TOKEN = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+|\*\*|//|[-+*/%^()])")
_ALIASES = str.maketrans({"×": "*", "÷": "/", "−": "-", "–": "-", "·": "*", "[": "(", "]": ")"})
_MAX_CHARACTERS = 200
_MAX_BITS = 4096
_MAX_EXPONENT = 256


def evaluate(text: str) -> Fraction:
    """Value of an expression with + - * / // % ** ^ and parentheses, exact.

    A trailing "=", "= ?" and thousands separators are ignored. Powers need whole exponents of at most 256 in
    size; results are bounded by 4096 bits.

    Raises:
        ToolInputError: not an expression, a division by zero, or too large.
    """
    cleaned = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text.translate(_ALIASES)).strip()
    cleaned = re.sub(r"[=?\s.]+$", "", cleaned)
    if not cleaned or len(cleaned) > _MAX_CHARACTERS:
        raise ToolInputError(f"an expression of 1 to {_MAX_CHARACTERS} characters is needed, got {text[:60]!r}")
    parser = _Parser(_tokens(cleaned, text), text)
    value = parser.sum()
    parser.end()
    return value


def _tokens(cleaned: str, text: str) -> list[str]:
    tokens, position = [], 0
    while position < len(cleaned):
        match = _TOKEN.match(cleaned, position)
        if match is None:
            raise ToolInputError(f"not an arithmetic expression: {text[:60]!r}")
        tokens.append(match.group(1))
        position = match.end()
    return tokens


class _Parser:
    """sum := term (+|- term)*; term := sign (* / // % sign)*; sign := -sign | power; power := atom (** sign)?"""

    def __init__(self, tokens: list[str], text: str) -> None:
        self._tokens, self._text, self._at = tokens, text, 0

    def sum(self) -> Fraction:
        value = self._term()
        while self._next() in ("+", "-"):
            value = self._bounded(value + self._term() if self._take() == "+" else value - self._term())
        return value

    def end(self) -> None:
        if self._next():
            raise self._error()

    def _term(self) -> Fraction:
        value = self._sign()
        while self._next() in ("*", "/", "//", "%"):
            operator, right = self._take(), self._sign()
            if operator == "*":
                value = self._bounded(value * right)
            elif right == 0:
                raise ToolInputError(f"division by zero in {self._text[:60]!r}")
            elif operator == "/":
                value = self._bounded(value / right)
            else:
                value = Fraction(value // right) if operator == "//" else value % right
        return value

    def _sign(self) -> Fraction:
        if self._next() in ("-", "+"):
            return -self._sign() if self._take() == "-" else self._sign()
        return self._power()

    def _power(self) -> Fraction:
        base = self._atom()
        if self._next() not in ("**", "^"):
            return base
        self._take()
        exponent = self._sign()
        size = max(base.numerator.bit_length(), base.denominator.bit_length())
        if exponent.denominator != 1 or abs(exponent) > _MAX_EXPONENT or size * abs(exponent) > _MAX_BITS:
            raise ToolInputError(f"exponent too large or not whole in {self._text[:60]!r}")
        if base == 0 and exponent < 0:
            raise ToolInputError(f"division by zero in {self._text[:60]!r}")
        return Fraction(base ** int(exponent))

    def _atom(self) -> Fraction:
        token = self._take()
        if token == "(":
            value = self.sum()
            if self._take() != ")":
                raise self._error()
            return value
        if not token or token[0] not in "0123456789.":
            raise self._error()
        return Fraction(token)

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._next()
        self._at += 1
        return token

    def _bounded(self, value: Fraction) -> Fraction:
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_BITS:
            raise ToolInputError(f"the value of {self._text[:60]!r} is too large")
        return value

    def _error(self) -> ToolInputError:
        return ToolInputError(f"not an arithmetic expression: {self._text[:60]!r}")
