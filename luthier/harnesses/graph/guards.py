"""The guard language of conditional edges: comparisons over state, `visits.<node>` and `len(x)`. It can only compare.

Parsed by hand into frozen parts and interpreted from those; Python never evaluates anything. Evaluation is
total: any state gives true or false, never an error. A text that reads as a number compares as that number
when the other side is one; values of different kinds are unequal and unordered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from luthier.harnesses.graph.lexer import Cursor, quote
from luthier.tools.values import Value

_FIX = 'compare (== != < <= > >= in, not in), join with and, or, not: verdict == "wrong" and visits.check < 3'
_OPERATORS = ("==", "!=", "<=", ">=", "<", ">")
_MAX_TOKENS = 80


@dataclass(frozen=True, slots=True)
class Operand:
    """`kind` is state, len (both: `value` is a field name), visits (`value` is a node id) or const."""

    kind: str
    value: Any


@dataclass(frozen=True, slots=True)
class GuardComparison:
    """`left op right`; `op` is one of == != < <= > >= in, not in."""

    left: Operand
    op: str
    right: Operand


@dataclass(frozen=True, slots=True)
class Not:
    """True when `item` is false."""

    item: Guard


@dataclass(frozen=True, slots=True)
class Junction:
    """`op` is and, or; two items at least."""

    op: str
    items: tuple[Guard, ...]


Guard = GuardComparison | Not | Junction


def parse_guard(cursor: Cursor, *, tokens_left: int) -> Guard:
    """Consume a guard; stops before `->`.

    Raises:
        HarnessError: rule "bad-guard": anything that is not a comparison (calls, arithmetic, attributes, subscripts).
    """
    if tokens_left > _MAX_TOKENS:
        raise cursor.error(f"the guard has more than {_MAX_TOKENS} words and signs", "write a shorter guard")
    return _either(cursor)


def holds(guard: Guard, state: Mapping[str, Value], visits: Mapping[str, int]) -> bool:
    """Whether the guard is true; fields and nodes that are absent count as "" and 0."""
    if isinstance(guard, Not):
        return not holds(guard.item, state, visits)
    if isinstance(guard, Junction):
        results = (holds(item, state, visits) for item in guard.items)
        return all(results) if guard.op == "and" else any(results)
    return _compare(_value(guard.left, state, visits), guard.op, _value(guard.right, state, visits))


def guard_text(guard: Guard) -> str:
    """Canonical text of a guard."""
    if isinstance(guard, Not):
        inner = guard_text(guard.item)
        return f"not ({inner})" if isinstance(guard.item, Junction) else f"not {inner}"
    if isinstance(guard, Junction):
        parts = [f"({guard_text(i)})" if isinstance(i, Junction) else guard_text(i) for i in guard.items]
        return f" {guard.op} ".join(parts)
    return f"{_operand_text(guard.left)} {guard.op} {_operand_text(guard.right)}"


def operands(guard: Guard) -> Iterator[Operand]:
    """All operands, left to right."""
    if isinstance(guard, GuardComparison):
        yield from (guard.left, guard.right)
    elif isinstance(guard, Not):
        yield from operands(guard.item)
    else:
        for item in guard.items:
            yield from operands(item)


def _either(cursor: Cursor) -> Guard:
    return _junction(cursor, "or", [_both(cursor)])


def _both(cursor: Cursor) -> Guard:
    return _junction(cursor, "and", [_negation(cursor)])


def _junction(cursor: Cursor, op: str, items: list[Guard]) -> Guard:
    while cursor.accept(op):
        items.append(_both(cursor) if op == "or" else _negation(cursor))
    flat: list[Guard] = []
    for item in items:
        flat.extend(item.items if isinstance(item, Junction) and item.op == op else (item,))
    return flat[0] if len(flat) == 1 else Junction(op, tuple(flat))


def _negation(cursor: Cursor) -> Guard:
    if cursor.accept("not"):
        return Not(_negation(cursor))
    if cursor.accept("("):
        guard = _either(cursor)
        cursor.expect(")", "close the parenthesis")
        return guard
    return _comparison(cursor)


def _comparison(cursor: Cursor) -> GuardComparison:
    left = _operand(cursor)
    if cursor.accept("not"):
        cursor.expect("in", _FIX)
        return GuardComparison(left, "not in", _operand(cursor))
    if cursor.accept("in"):
        return GuardComparison(left, "in", _operand(cursor))
    for op in _OPERATORS:
        if cursor.accept(op):
            return GuardComparison(left, op, _operand(cursor))
    raise cursor.error(f"a comparison expected, found {cursor.found}", _FIX)


def _operand(cursor: Cursor) -> Operand:
    if cursor.accept("["):
        return Operand("const", _items(cursor))
    if cursor.next.kind != "name" or cursor.next.text in ("true", "false"):
        return Operand("const", cursor.literal())
    name = cursor.take().text
    if name == "len":
        cursor.expect("(", _FIX)
        field = cursor.name("a state field", _FIX)
        cursor.expect(")", _FIX)
        return Operand("len", field)
    if name == "visits":
        cursor.expect(".", "write visits.<node>")
        return Operand("visits", cursor.name("a node", "write visits.<node>"))
    return Operand("state", name)


def _items(cursor: Cursor) -> tuple[Any, ...]:
    items = [cursor.literal()]
    while cursor.accept(","):
        items.append(cursor.literal())
    cursor.expect("]", "close the list")
    return tuple(items)


def _operand_text(operand: Operand) -> str:
    if operand.kind == "len":
        return f"len({operand.value})"
    if operand.kind == "visits":
        return f"visits.{operand.value}"
    if operand.kind == "state":
        return str(operand.value)
    if isinstance(operand.value, tuple):
        return f"[{', '.join(_const_text(item) for item in operand.value)}]"
    return _const_text(operand.value)


def _const_text(value: Any) -> str:
    return quote(value) if isinstance(value, str) else json.dumps(value)


def _value(operand: Operand, state: Mapping[str, Value], visits: Mapping[str, int]) -> Value:
    if operand.kind == "const":
        return operand.value
    if operand.kind == "visits":
        return visits.get(operand.value, 0)
    value = state.get(operand.value, "")
    if operand.kind == "len":
        return len(value) if isinstance(value, str | list | dict) else 0
    return value


def _compare(left: Value, op: str, right: Value) -> bool:
    if op in ("in", "not in"):
        return _contains(right, left) == (op == "in")
    left, right = _alike(left, right)
    if op in ("==", "!="):
        return (_same(left, right)) == (op == "==")
    numbers = _is_number(left) and _is_number(right)
    if not numbers and not (isinstance(left, str) and isinstance(right, str)):
        return False
    return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[op])


def _contains(container: Value, item: Value) -> bool:
    if isinstance(container, str):
        return isinstance(item, str) and item in container
    if isinstance(container, list | tuple):
        return any(_same(*_alike(item, member)) for member in container)
    return isinstance(container, dict) and isinstance(item, str) and item in container


def _alike(left: Value, right: Value) -> tuple[Value, Value]:
    if isinstance(left, str) and _is_number(right):
        return _as_number(left), right
    if isinstance(right, str) and _is_number(left):
        return left, _as_number(right)
    return left, right


def _as_number(text: str) -> Value:
    try:
        return float(text) if len(text) <= 40 else text
    except ValueError:
        return text


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(left: Value, right: Value) -> bool:
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    if isinstance(left, tuple | list) and isinstance(right, tuple | list):
        return len(left) == len(right) and all(_same(*_alike(a, b)) for a, b in zip(left, right, strict=True))
    return bool(left == right)
