"""Tokens of one line of a graph, and a cursor over them that explains what it misses."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from luthier.errors import HarnessError

_TOKEN = re.compile(
    r"""(?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<op>->|==|!=|<=|>=|[<>()\[\],.:=])""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is name, number, string, op or end; `text` as written."""

    kind: str
    text: str


def tokenise(text: str, *, line: int, field: str, rule: str = "syntax") -> list[Token]:
    """Tokens of a line, comments dropped, an `end` token last.

    Raises:
        HarnessError: a character that starts no token.
    """
    tokens, position = [], 0
    while position < len(text):
        if text[position] in " \t":
            position += 1
            continue
        if text[position] == "#":
            break
        match = _TOKEN.match(text, position)
        if match is None:
            raise HarnessError(
                f"{text[position]!r} has no meaning here",
                rule=rule,
                line=line,
                field=field,
                fix='use names, numbers, "texts" in double quotes and the signs of the graph form only',
            )
        tokens.append(Token(str(match.lastgroup), match.group()))
        position = match.end()
    return [*tokens, Token("end", "")]


def literal(token: Token, *, line: int, field: str, rule: str = "syntax") -> str | int | float | bool:
    """Value of a number, string, `true` or `false` token; whole floats become int.

    Raises:
        HarnessError: not a literal, a broken escape, or a number without a finite value.
    """
    try:
        if token.kind == "string":
            value = json.loads(token.text)
            value.encode()
            return str(value)
        if token.kind == "number":
            number = float(token.text)
            if abs(number) > 1e300:
                raise ValueError("too large")
            return int(token.text) if re.fullmatch(r"-?[0-9]+", token.text) else normal_number(number)
    except ValueError as error:
        raise HarnessError(
            f"{token.text[:40]} is not a valid literal ({error})",
            rule=rule,
            line=line,
            field=field,
            fix="write a JSON string or a plain number",
        ) from error
    if token.text in ("true", "false"):
        return token.text == "true"
    raise HarnessError(
        f"{token.text or 'end of line'!r} is not a literal",
        rule=rule,
        line=line,
        field=field,
        fix='write "text", a number, true or false',
    )


def normal_number(number: int | float) -> int | float:
    """Whole floats as int, so that 1.0 and 1 are one spelling."""
    return int(number) if isinstance(number, float) and number.is_integer() and abs(number) < 1e15 else number


def quote(text: str) -> str:
    """A JSON string on one line; characters that a document may not hold are escaped."""
    return FORBIDDEN.sub(lambda match: f"\\u{ord(match.group()):04x}", json.dumps(text, ensure_ascii=False))


FORBIDDEN = re.compile("[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""Characters that a document may not hold: controls, other line breaks, surrogates, byte order marks."""


class Cursor:
    """Reads tokens left to right; every complaint names the line and the field."""

    def __init__(self, tokens: list[Token], *, line: int, field: str, rule: str = "syntax") -> None:
        self.line, self.field, self.rule = line, field, rule
        self._tokens, self._at = tokens, 0

    @property
    def next(self) -> Token:
        """The token to come."""
        return self._tokens[self._at]

    def take(self) -> Token:
        """The token to come, consumed."""
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def accept(self, text: str) -> bool:
        """Consume an operator or word if it comes next."""
        if self.next.text == text and self.next.kind in ("op", "name"):
            self._at += 1
            return True
        return False

    def expect(self, text: str, fix: str) -> None:
        """Consume this operator or word, or complain."""
        if not self.accept(text):
            raise self.error(f"{text!r} expected, found {self.found}", fix)

    def name(self, what: str, fix: str) -> str:
        """Consume a name, or complain."""
        if self.next.kind != "name":
            raise self.error(f"{what} expected, found {self.found}", fix)
        return self.take().text

    def literal(self) -> str | int | float | bool:
        """Consume a literal, or complain."""
        return literal(self.take(), line=self.line, field=self.field, rule=self.rule)

    def end(self, fix: str) -> None:
        """Complain unless the line is finished."""
        if self.next.kind != "end":
            raise self.error(f"{self.found} is too much", fix)

    @property
    def found(self) -> str:
        """The token to come, for messages."""
        return repr(self.next.text[:40]) if self.next.text else "the end of the line"

    def error(self, problem: str, fix: str) -> HarnessError:
        """A complaint at this place."""
        return HarnessError(problem, rule=self.rule, line=self.line, field=self.field, fix=fix)
