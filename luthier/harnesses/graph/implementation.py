"""`Implementation`: how one llm node is carried out. The second layer of a graph document, and of `presets.yaml`.

Fields (an `impl` block and a preset have the same; presets add `about`):

* `style`: chat (messages through the target's own template) or raw (a text that the model continues).
* `reads`: names of the positional inputs. In an `impl` block it is left out when they are called like the
  state that the first node using the block passes.
* `role`: system text. `ask`: template over the inputs, `{name}`. `shots`: worked examples, `{name: ..., out: ...}`.
* `stop`, `max_tokens`, `temperature`: generation. `parse`: how the text becomes a value. `choices`: the only
  allowed answers, with `parse: choice`.
* `reasoning`: direct, or cot: the model is told to think first and to end with "Answer:".

All fields are read as texts (YAML's typed scalars are off: `no` stays "no"), aliases are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from luthier.errors import HarnessError

STYLES = ("chat", "raw")
PARSES = ("line", "text", "number", "last_number", "choice", "letter", "list", "json")
REASONINGS = ("direct", "cot")
_HOW = ("stop", "parse", "choices", "max_tokens", "temperature", "reasoning")
FIELDS = ("about", "style", "reads", "role", "ask", "shots", *_HOW)
"""Fields of an impl block, in the order in which they are printed."""
MAX_TOKENS_CEILING = 2048
TEMPERATURE_CEILING = 2.0
PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Shot:
    """A worked example: the inputs by name, in the order of `reads`, and the wanted output."""

    values: tuple[tuple[str, str], ...]
    out: str


@dataclass(frozen=True, slots=True)
class Implementation:
    """How an llm node asks and reads; every default is filled in. See the module's text for the fields.

    Attributes:
        labels: Of a program's module alone: names before its answers in the text; no field of an impl block.
    """

    name: str
    reads: tuple[str, ...]
    ask: str
    style: str = "chat"
    role: str = ""
    shots: tuple[Shot, ...] = ()
    stop: tuple[str, ...] = ()
    parse: str = "line"
    choices: tuple[str, ...] = ()
    max_tokens: int = 64
    temperature: float = 0.0
    reasoning: str = "direct"
    about: str = ""
    labels: tuple[str, ...] = field(default=(), repr=False)
    line: int = field(default=0, compare=False, repr=False)


def default_stop(style: str, reasoning: str) -> tuple[str, ...]:
    """Chat: none. Raw: the end of the line; of the paragraph when the model is to think first."""
    if style == "chat":
        return ()
    return ("\n\n",) if reasoning == "cot" else ("\n",)


def default_max_tokens(reasoning: str) -> int:
    """64 new tokens, 256 with reasoning (ours)."""
    return 256 if reasoning == "cot" else 64


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with `{name}` replaced in one pass, so that braces inside values stay as they are."""
    return PLACEHOLDER.sub(lambda match: values.get(match.group(1), match.group()), template)


def load_yaml(text: str, *, first_line: int = 1, field: str) -> Any:
    """YAML as texts, lists and mappings.

    Raises:
        HarnessError: rule "syntax": not YAML, an alias or anchor, or a key twice.
    """
    try:
        return yaml.load(text, Loader=_TextLoader)
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None)
        other = "nested too deep" if isinstance(error, RecursionError) else "an escape names no character"
        problem = str(getattr(error, "problem", None) or other)
        raise HarnessError(
            f"the block is not readable ({problem})",
            rule="syntax",
            line=first_line + mark.line if mark else first_line,
            field=field,
            fix="write `field: value` lines indented by two spaces; put texts with signs into double quotes",
        ) from error


def tidy(text: str) -> str:
    """Without outer space and without spaces at line ends, so that one text has one spelling."""
    return "\n".join(line.rstrip() for line in text.strip().split("\n"))


class _TextLoader(yaml.BaseLoader):
    """BaseLoader (every scalar stays a text) without aliases and without repeated keys."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.events.AliasEvent) or getattr(event, "anchor", None):
            raise yaml.MarkedYAMLError(problem="anchors and aliases are not allowed", problem_mark=event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a field's name is no text", problem_mark=key.start_mark)
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} stands twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def read_implementation(
    name: str, row: Any, *, reads: Sequence[str], line: int = 0, lines: Mapping[str, int] | None = None
) -> Implementation:
    """Build and check an implementation from its fields.

    Args:
        name: Name of the block.
        row: Its fields as read by `load_yaml`.
        reads: Input names when the row gives none.
        line: Line of the block.
        lines: Line of each field, where known.

    Raises:
        HarnessError: "missing-impl" (no `ask`), "unknown-state" (a placeholder that is no input) or "bad-option".
    """
    return _Reader(name, row, line, lines or {}).read(tuple(reads))


class _Reader:
    """One row being read; every complaint names the block, the field and a line."""

    def __init__(self, name: str, row: Any, line: int, lines: Mapping[str, int]) -> None:
        self._name, self._line, self._lines = name, line, lines
        if not isinstance(row, dict):
            raise self._error("", "has no fields", "indent `ask: ...` under it", rule="missing-impl")
        self._row: dict[str, Any] = row

    def read(self, reads: tuple[str, ...]) -> Implementation:
        for name in sorted(self._row):
            if name not in FIELDS:
                raise self._error(name, "is no field", f"use {', '.join(FIELDS)}")
        if not self._text("ask"):
            raise self._error("ask", "is missing or empty", "add `ask: ...` with the inputs in braces", "missing-impl")
        reads = self._list("reads") if "reads" in self._row else reads
        style = self._one_of("style", STYLES, "chat")
        reasoning = self._one_of("reasoning", REASONINGS, "direct")
        parse = self._one_of("parse", PARSES, "line")
        implementation = Implementation(
            name=self._name,
            reads=self._names(reads),
            ask=self._text("ask"),
            style=style,
            role=self._text("role"),
            shots=self._shots(reads),
            stop=self._stop(style, reasoning),
            parse=parse,
            choices=self._choices(parse),
            max_tokens=int(self._number("max_tokens", 1, MAX_TOKENS_CEILING, default_max_tokens(reasoning))),
            temperature=self._number("temperature", 0, TEMPERATURE_CEILING, 0.0),
            reasoning=reasoning,
            about=self._text("about"),
            line=self._line,
        )
        self._placeholders("ask", implementation.ask, reads)
        return implementation

    def _text(self, field: str) -> str:
        value = self._row.get(field, "")
        if not isinstance(value, str):
            raise self._error(field, "is not a text", "write one text")
        self._check_characters(field, value)
        return tidy(value)

    def _list(self, field: str) -> tuple[str, ...]:
        value = self._row.get(field, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value) or len(value) > 16:
            raise self._error(field, "is not a list of at most 16 texts", f'write {field}: ["...", "..."]')
        for item in value:
            self._check_characters(field, item)
        return tuple(value)

    def _one_of(self, field: str, allowed: Sequence[str], default: str) -> str:
        value = self._row.get(field, default)
        if value not in allowed:
            raise self._error(field, f"{value!r} is unknown", f"use one of {', '.join(allowed)}")
        return str(value)

    def _number(self, field: str, low: float, high: float, default: float) -> float:
        value = self._row.get(field, default)
        pattern = r"[0-9]+" if field == "max_tokens" else r"[0-9]+(\.[0-9]+)?"
        if isinstance(value, str) and len(value) < 12 and re.fullmatch(pattern, value):
            value = float(value)
        if isinstance(value, str | list | dict) or not low <= value <= high:
            raise self._error(field, f"{value!r} is not a number from {low:g} to {high:g}", "correct the number")
        return value

    def _names(self, reads: Sequence[str]) -> tuple[str, ...]:
        if len(set(reads)) != len(reads) or any(not _NAME.fullmatch(n) or n == "out" for n in reads):
            raise self._error("reads", "needs distinct names, none of them `out`", "write reads: [question, draft]")
        return tuple(reads)

    def _stop(self, style: str, reasoning: str) -> tuple[str, ...]:
        if "stop" not in self._row:
            return default_stop(style, reasoning)
        stop = self._list("stop")
        if any(not item for item in stop):
            raise self._error("stop", "holds an empty text", "remove it")
        return stop

    def _choices(self, parse: str) -> tuple[str, ...]:
        if "choices" not in self._row:
            return ()
        choices = self._list("choices")
        if (
            parse != "choice"
            or len(choices) < 2
            or len(set(choices)) != len(choices)
            or not all(map(str.strip, choices))
        ):
            raise self._error("choices", "needs `parse: choice` and two or more distinct texts", "correct the list")
        if self._row.get("reasoning") == "cot":
            raise self._error("choices", "leaves no room for reasoning", "remove `reasoning: cot` or `choices`")
        return choices

    def _shots(self, reads: Sequence[str]) -> tuple[Shot, ...]:
        rows = self._row.get("shots", [])
        if not isinstance(rows, list) or len(rows) > 16:
            raise self._error("shots", "is not a list of at most 16 examples", "write `- question: ...` items")
        shots = []
        for row in rows:
            if not isinstance(row, dict) or not all(isinstance(value, str) for value in row.values()):
                raise self._error("shots", "holds something that is not `name: text` lines", "write `- question: ...`")
            if sorted(row) != sorted([*reads, "out"]):
                raise self._error("shots", f"an example has the names {sorted(row)}", f"give {[*reads, 'out']}")
            for name in sorted(row):
                self._check_characters("shots", row[name])
            shots.append(Shot(tuple((name, tidy(row[name])) for name in reads), tidy(row["out"])))
        return tuple(shots)

    def _placeholders(self, field: str, template: str, reads: Sequence[str]) -> None:
        for name in PLACEHOLDER.findall(template):
            if name not in reads:
                raise self._error(field, f"reads {{{name}}}, which is no input", f"use {list(reads)}", "unknown-state")

    def _check_characters(self, field: str, value: str) -> None:
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise self._error(field, "holds half a character", "remove the broken escape", "syntax") from error

    def _error(self, field: str, problem: str, fix: str, rule: str = "bad-option") -> HarnessError:
        return HarnessError(
            f"impl {self._name}: {field} {problem}".replace(":  ", ": "),
            rule=rule,
            line=self._lines.get(field, self._line),
            field=field or "impl",
            fix=fix,
        )
