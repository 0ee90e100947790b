"""`PromptHarness`: harness kind `prompt`, one instruction around the question.

The text is a template that holds `{question}` once; a text without it stands before the question, two line
breaks apart. An optional first line starting with `#` sets options::

    # raw max_tokens=32 temperature=0
    Sort these words.
    {question}

`raw` lets the model continue the text and stops at the end of the line (default: one chat message);
`max_tokens` is 1 to 2048 (default 64), `temperature` 0 to 2 (default 0).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NoReturn

from luthier.errors import HarnessError
from luthier.execution import Limits
from luthier.files import digest_text
from luthier.harnesses.graph.implementation import (
    MAX_TOKENS_CEILING,
    TEMPERATURE_CEILING,
    Implementation,
    default_stop,
)
from luthier.harnesses.graph.lexer import normal_number
from luthier.harnesses.graph.parser import MAX_CHARACTERS
from luthier.reading import HALF_CHARACTER

_PLACE = "{question}"
_HEADER = re.compile(r"#(?:\s+(?:raw|chat|[a-z_]+=\S*))*\s*$")
_FIX = "write `# raw max_tokens=32 temperature=0` with what differs from the defaults"


@dataclass(frozen=True, slots=True)
class _Options:
    style: str = "chat"
    max_tokens: int = 64
    temperature: float = 0.0


@dataclass(frozen=True, eq=False)
class PromptHarness:
    """A valid prompt.

    Attributes:
        text: Canonical text: options line when not default, then the template.
        implementation: The one call that it makes.
    """

    text: str
    implementation: Implementation

    @classmethod
    def parse(cls, text: str) -> PromptHarness:
        """Parse and validate.

        Raises:
            HarnessError: empty, too long, `{question}` more than once, or a wrong option.
        """
        if len(text) > MAX_CHARACTERS:
            _fail(
                "too-long",
                f"the text has {len(text)} characters, at most {MAX_CHARACTERS} are allowed",
                "text",
                "shorten it",
            )
        if HALF_CHARACTER.search(text):
            _fail("syntax", "the text holds half a character (a lone surrogate)", "text", "remove it")
        first, _, rest = text.strip().partition("\n")
        options, template = (_read_options(first), rest.strip()) if _HEADER.match(first) else (_Options(), text.strip())
        if not template:
            _fail("syntax", "the prompt is empty", "template", f"write an instruction with {_PLACE}")
        if template.count(_PLACE) > 1:
            _fail("syntax", f"{_PLACE} stands {template.count(_PLACE)} times", "template", f"use {_PLACE} once")
        if _PLACE not in template:
            template = f"{template}\n\n{_PLACE}"
        header = _write_options(options)
        if not header and _HEADER.match(template.partition("\n")[0]):
            header = "# chat\n"
        implementation = Implementation(
            name="prompt",
            reads=("question",),
            ask=template,
            style=options.style,
            stop=default_stop(options.style, "direct"),
            parse="text",
            max_tokens=options.max_tokens,
            temperature=options.temperature,
        )
        return cls(header + template, implementation)

    @property
    def kind(self) -> Literal["prompt"]:
        """Which executor runs it."""
        return "prompt"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of kind and canonical text, 64 hex digits."""
        return digest_text(f"prompt\n{self.text}")

    def texts(self) -> Iterator[str]:
        """The template with its options."""
        yield self.text

    def calls_bound(self, limits: Limits) -> int:
        """It makes one call."""
        return 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PromptHarness) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


def _read_options(line: str) -> _Options:
    style, max_tokens, temperature = "chat", 64, 0.0
    for word in line[1:].split():
        name, _, value = word.partition("=")
        if word in ("raw", "chat"):
            style = word
        elif name == "max_tokens" and re.fullmatch(r"[0-9]{1,5}", value) and 1 <= int(value) <= MAX_TOKENS_CEILING:
            max_tokens = int(value)
        elif (
            name == "temperature"
            and re.fullmatch(r"[0-9](\.[0-9]{1,6})?", value)
            and float(value) <= TEMPERATURE_CEILING
        ):
            temperature = float(value)
        else:
            _fail("bad-option", f"option {word} is unknown or out of range", name, _FIX)
    return _Options(style, max_tokens, temperature)


def _write_options(options: _Options) -> str:
    words = ["raw"] if options.style == "raw" else []
    if options.max_tokens != _Options().max_tokens:
        words.append(f"max_tokens={options.max_tokens}")
    if options.temperature:
        words.append(f"temperature={normal_number(options.temperature)}")
    return f"# {' '.join(words)}\n" if words else ""


def _fail(rule: str, problem: str, field: str, fix: str) -> NoReturn:
    raise HarnessError(problem, rule=rule, line=1, field=field, fix=fix)
