"""The shared state of one graph run: typed fields, written through their reducers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from luthier.harnesses.graph.document import StateField
from luthier.harnesses.graph.printer import neutral
from luthier.tools.values import ToolInputError, Value, parse_int, parse_list, parse_number, render

MAX_CHARACTERS = 100_000
"""Largest value of one field, as text (ours): loops must not grow without bound."""

_TRUE, _FALSE = ("true", "yes", "1", "correct"), ("false", "no", "0", "wrong")


class Memory:
    """State of one run. Values have JSON types only.

    Args:
        fields: Declarations by name. question: The read-only text.
    """

    def __init__(self, fields: Mapping[str, StateField], question: str) -> None:
        self._fields = fields
        self.values: dict[str, Any] = {"question": question}
        for name, field in fields.items():
            initial = neutral(field) if field.initial is None else field.initial
            if initial is not None:
                self.values[name] = initial

    def write(self, name: str, value: Value) -> None:
        """Apply one write: coerce to the field's type, then reduce.

        Raises:
            ToolInputError: the value does not fit the type, or the field grows too large.
        """
        field = self._fields[name]
        if field.reducer == "append":
            self._store(name, [*self.values[name], *_items(value, field.type[5:-1])])
        elif field.reducer == "sum":
            self._store(name, self.values[name] + coerce(value, field.type))
        else:
            self._store(name, coerce(value, field.type))

    def _store(self, name: str, value: Any) -> None:
        if len(render(value)) > MAX_CHARACTERS:
            raise ToolInputError(f"state {name} would grow above {MAX_CHARACTERS} characters")
        self.values[name] = value


def coerce(value: Value, kind: str) -> Any:
    """A value as a state type, by the declared parsers.

    Raises:
        ToolInputError: it cannot be read as that type.
    """
    if kind == "str":
        return render(value)
    if kind == "int":
        return parse_int(value)
    if kind == "float":
        return _as_float(parse_number(value))
    if kind == "bool":
        return _as_bool(value)
    if kind == "dict":
        return _as_dict(value)
    if isinstance(value, str):
        value = parse_list(value) if value.strip() else []
    return [coerce(item, kind[5:-1]) for item in (value if isinstance(value, list) else [value])]


def _items(value: Value, kind: str) -> list[Any]:
    """What an append adds: the items of a list, else the value itself."""
    return [coerce(item, kind) for item in (value if isinstance(value, list) else [value])]


def _as_float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError as error:
        raise ToolInputError("the number is too large") from error


def _as_bool(value: Value) -> bool:
    text = render(value).strip().strip(".!").casefold()
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise ToolInputError(f"true or false is needed, got {text[:60]!r}")


def _as_dict(value: Value) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ToolInputError(f"a JSON object is needed, got {value[:60]!r}") from error
    if not isinstance(value, dict):
        raise ToolInputError(f"a JSON object is needed, got {render(value)[:60]!r}")
    return value
