"""`Redactor`: what a server says, fit to be stored and printed. Servers repeat keys in their errors."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qsl, quote, urlsplit

MARK = "[hidden]"
_MARKS = re.compile(rf"(?:{re.escape(MARK)}){{2,}}")
_LONGEST_TEXT = 20_000
_FRAGMENT = 8
"""Characters of a secret that hide a text holding them: servers shorten keys, and texts are cut."""
_SHORTEST = 4
"""A secret that is shorter is a placeholder, and hiding it would only spoil words."""


class Redactor:
    """Hides secrets, also in part, and makes a text printable on one line.

    Args:
        secrets: Keys and passwords; those of fewer than four characters are not hidden.
    """

    def __init__(self, *secrets: str) -> None:
        forms = {form for secret in secrets for form in (secret, quote(secret, safe=""), json.dumps(secret)[1:-1])}
        self._long = sorted(form for form in forms if len(form) >= _FRAGMENT)
        words = sorted(re.escape(form) for form in forms if _SHORTEST <= len(form) < _FRAGMENT)
        self._short = re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)") if words else None

    def __call__(self, text: object, most: int = 300) -> str:
        """The text without secrets, control characters and lone surrogates, cut to `most` characters afterwards."""
        line = " ".join(str(text)[:_LONGEST_TEXT].split())
        line = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in line)
        if self._short is not None:
            line = self._short.sub(MARK, line)
        for secret in self._long:
            line = _without(line, secret)
        return _MARKS.sub(MARK, line)[:most]


def secrets_of(url: str) -> tuple[str, ...]:
    """What may be secret in a web address: the user's name and password, and the values of its query."""
    parts = urlsplit(url)
    values = [value for _, value in parse_qsl(parts.query)]
    return tuple(value for value in (parts.username, parts.password, *values) if value)


def _without(text: str, secret: str) -> str:
    """The text with every run of `_FRAGMENT` or more characters of the secret replaced by one mark."""
    parts, kept, place = [], 0, 0
    while place + _FRAGMENT <= len(text):
        end = place + _FRAGMENT
        if text[place:end] not in secret:
            place += 1
            continue
        while end < len(text) and text[end - _FRAGMENT + 1 : end + 1] in secret:
            end += 1
        parts += [text[kept:place], MARK]
        kept = place = end
    return "".join([*parts, text[kept:]])
