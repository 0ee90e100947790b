"""`Document` -> canonical graph text: the one spelling of a graph, a fixed point of parse and print.

State lines sorted by name, then limits, nodes in order with what is not default, impl blocks sorted by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from luthier.harnesses.graph.document import END, Argument, Branch, Document, Node, Ref, StateField
from luthier.harnesses.graph.guards import guard_text, operands
from luthier.harnesses.graph.implementation import FIELDS, Implementation, default_max_tokens, default_stop
from luthier.harnesses.graph.lexer import FORBIDDEN, normal_number, quote
from luthier.harnesses.graph.parser import input_names

_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 _,.'?!()/-]*[A-Za-z0-9.?!)])?")


def print_document(document: Document, implicit: Mapping[str, StateField]) -> str:
    """Canonical text, without a line break at the end.

    Args:
        document: The graph.
        implicit: State that its nodes declare by writing; equal state lines are left out.
    """
    lines = [_state_line(s) for _, s in sorted(document.states.items()) if implicit.get(s.name) != s]
    if document.limits:
        lines.append("limits " + " ".join(f"{name}={value}" for name, value in document.limits.items()))
    referenced = _referenced(document.nodes)
    for index, node in enumerate(document.nodes):
        lines.append(_node_line(node, labelled=node.id != f"n{index + 1}" or node.id in referenced))
        lines.extend(f"  {line}" for line in _edge_lines(document.nodes, index))
    for name, implementation in sorted(document.impls.items()):
        lines.extend(_impl_lines(implementation, input_names(name, document.nodes)))
    return "\n".join(lines)


def json_text(value: Any) -> str:
    """A JSON value on one line, keys sorted, forbidden characters escaped."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return FORBIDDEN.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def neutral(state: StateField) -> Any:
    """Value that a reducer starts from: [] for append, 0 for sum, none for overwrite."""
    return {"append": [], "sum": 0}.get(state.reducer)


def _state_line(state: StateField) -> str:
    reducer = "" if state.reducer == "overwrite" else f" {state.reducer}"
    known = state.initial is None or state.initial == neutral(state)
    return f"state {state.name}: {state.type}{reducer}" + ("" if known else f" = {json_text(state.initial)}")


def _node_line(node: Node, *, labelled: bool) -> str:
    args = ", ".join(map(argument_text, node.args))
    options = "".join(f" {name}={json_text(normal_number(value))}" for name, value in node.options)
    return f"{f'{node.id}: ' if labelled else ''}{', '.join(node.writes)} = {node.name}({args}){options}"


def argument_text(arg: Argument) -> str:
    """An argument as it stands in a node line."""
    if isinstance(arg, Ref):
        return arg.name
    return quote(arg.value) if isinstance(arg.value, str) else json_text(arg.value)


def _after(nodes: Sequence[Node], index: int) -> tuple[str, ...]:
    return (nodes[index + 1].id,) if index + 1 < len(nodes) else ()


def _edge_lines(nodes: Sequence[Node], index: int) -> list[str]:
    *guarded, last = nodes[index].branches
    falls_through = last.targets == _after(nodes, index)
    if not guarded:
        return [] if falls_through else [f"-> {_targets(last)}"]
    lines = [f"if {guard_text(b.guard)} -> {_targets(b)}" for b in guarded if b.guard is not None]
    return lines if falls_through else [*lines[:-1], f"{lines[-1]} else {_targets(last)}"]


def _targets(branch: Branch) -> str:
    return ", ".join(branch.targets) or END


def _referenced(nodes: Sequence[Node]) -> set[str]:
    names: set[str] = set()
    for index, node in enumerate(nodes):
        for branch in node.branches:
            if branch.guard is not None:
                names.update(o.value for o in operands(branch.guard) if o.kind == "visits")
                names.update(branch.targets)
            elif branch.targets != _after(nodes, index):
                names.update(branch.targets)
    return names


def _impl_lines(implementation: Implementation, names: tuple[str, ...]) -> list[str]:
    default = Implementation(
        name=implementation.name,
        reads=names,
        ask="",
        stop=default_stop(implementation.style, implementation.reasoning),
        max_tokens=default_max_tokens(implementation.reasoning),
    )
    lines = [f"impl {implementation.name}:"]
    for field in FIELDS:
        value = getattr(implementation, field)
        if value == getattr(default, field):
            continue
        if field == "shots":
            lines.append("  shots:")
            for shot in implementation.shots:
                pairs = [*shot.values, ("out", shot.out)]
                item = [line for name, text in pairs for line in text_lines(name, text, 6)]
                lines.extend(["    - " + item[0].lstrip(), *item[1:]])
        elif isinstance(value, tuple):
            lines.append(f"  {field}: [{', '.join(value if field == 'reads' else map(quote, value))}]")
        elif isinstance(value, str):
            lines.extend(text_lines(field, value, 2))
        else:
            lines.append(f"  {field}: {json_text(normal_number(value))}")
    return lines


def text_lines(name: str, text: str, indent: int) -> list[str]:
    """A YAML field with a text: a block where it has several lines, else plain or in double quotes."""
    pad = " " * indent
    if "\n" in text and not FORBIDDEN.search(text):
        return [f"{pad}{name}: |", *(f"{pad}  {line}".rstrip() for line in text.split("\n"))]
    return [f"{pad}{name}: {text if _PLAIN.fullmatch(text) else quote(text)}"]
