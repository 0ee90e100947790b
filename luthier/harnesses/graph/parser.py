"""Graph text -> `Document`: one line at a time, every complaint with its line. Meaning is checked in `graph_checks`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from luthier.errors import HarnessError
from luthier.harnesses.graph.document import (
    END,
    LIMIT_NAMES,
    OPTION_NAMES,
    RESERVED,
    Argument,
    Branch,
    Const,
    Document,
    Node,
    Ref,
    StateField,
)
from luthier.harnesses.graph.guards import Guard, parse_guard
from luthier.harnesses.graph.implementation import Implementation, load_yaml, read_implementation
from luthier.harnesses.graph.lexer import FORBIDDEN, Cursor, normal_number, tokenise

MAX_CHARACTERS = 4000
MAX_NODES = 64
_IMPL = re.compile(r"impl\s+([A-Za-z_][A-Za-z0-9_]*)\s*:\s*(?:#.*)?$")
_FIELD = re.compile(r"(\s+)([A-Za-z_]+)\s*:")
_NODE_FIX = 'write `answer = sort(question)`, or `label: a, b = name(x, "text") temperature=0.7`'
_EDGE_FIX = 'write `-> x`, `-> x, y` or `if verdict == "wrong" -> x else y` under the node'


@dataclass
class _RawEdge:
    guard: Guard | None
    targets: list[str]
    otherwise: list[str] | None
    line: int


@dataclass
class _RawNode:
    label: str | None
    writes: tuple[str, ...]
    name: str
    args: tuple[Argument, ...]
    options: tuple[tuple[str, int | float], ...]
    line: int
    edges: list[_RawEdge] = field(default_factory=list)


@dataclass
class _RawImpl:
    name: str
    line: int
    body: list[str] = field(default_factory=list)


def parse_document(text: str) -> Document:
    """Parse a graph text.

    Raises:
        HarnessError: rules syntax, bad-guard, bad-option, duplicate-label, unknown-node, unknown-state, missing-impl,
            unused-impl, too-long.
    """
    text = text.replace("\r\n", "\n")
    check_size(text)
    if found := FORBIDDEN.search(text):
        line = text.count("\n", 0, found.start()) + 1
        _fail(
            f"character U+{ord(found.group()):04X} is not allowed", line, "text", "remove it or escape it in a string"
        )
    return _Reader().read(text.split("\n"))


def check_size(text: str) -> None:
    """Refuse a text of more than 4000 characters (rule too-long)."""
    if len(text) > MAX_CHARACTERS:
        raise HarnessError(
            f"the text has {len(text)} characters, at most {MAX_CHARACTERS} are allowed",
            rule="too-long",
            line=text.count("\n", 0, MAX_CHARACTERS) + 1,
            field="text",
            fix="shorten the roles, questions and examples of the impl blocks",
        )


def _fail(problem: str, line: int, where: str, fix: str, rule: str = "syntax") -> NoReturn:
    raise HarnessError(problem, rule=rule, line=line, field=where, fix=fix)


class _Reader:
    """Collects raw parts line by line, then resolves labels, fall-through edges and input names."""

    def __init__(self) -> None:
        self._states: dict[str, StateField] = {}
        self._limits: dict[str, int] = {}
        self._limits_line = 0
        self._nodes: list[_RawNode] = []
        self._impls: list[_RawImpl] = []

    def read(self, lines: Sequence[str]) -> Document:
        block: _RawImpl | None = None
        for number, line in enumerate(lines, start=1):
            blank = not line.strip() or line.lstrip().startswith("#")
            if block is not None and (not line.strip() or line[0] in " \t"):
                block.body.append(line)
                continue
            if blank:
                continue
            block = self._line(line, number)
        if not self._nodes:
            _fail("the graph has no node", 1, "node", _NODE_FIX)
        return self._resolve()

    def _line(self, line: str, number: int) -> _RawImpl | None:
        """Take one line that starts something; returns the impl block that it opens."""
        if line[0] in " \t":
            self._edge(line, number)
        elif match := _IMPL.match(line):
            self._impls.append(_RawImpl(match.group(1), number))
            return self._impls[-1]
        elif re.match(r"state\s+[A-Za-z_]", line):
            self._state(line, number)
        elif re.match(r"limits(\s|$)", line):
            self._limit_line(line, number)
        else:
            self._node(line, number)
        return None

    def _state(self, line: str, number: int) -> None:
        left, equals, right = line.partition("=")
        fix = "write `state votes: list[str] append` or `state rounds: int sum = 0`"
        cursor = Cursor(tokenise(left, line=number, field="state"), line=number, field="state")
        cursor.take()
        name = cursor.name("a state field", fix)
        cursor.expect(":", fix)
        kind = cursor.name("a type", fix)
        if cursor.accept("["):
            kind += f"[{cursor.name('an item type', fix)}]"
            cursor.expect("]", fix)
        reducer = cursor.take().text if cursor.next.kind == "name" else "overwrite"
        cursor.end(fix)
        if name in self._states:
            _fail(f"state {name} is declared twice", number, "state", "keep one of the two lines")
        initial = _json_value(right, number) if equals else None
        self._states[name] = StateField(name, kind, reducer, initial, number)

    def _limit_line(self, line: str, number: int) -> None:
        fix = "write `limits steps=20 visits=4 calls=12 tokens=4000`, whole numbers from 1"
        cursor = Cursor(tokenise(line, line=number, field="limits"), line=number, field="limits")
        cursor.take()
        self._limits_line = number
        while cursor.next.kind != "end":
            name = cursor.name("a limit", fix)
            cursor.expect("=", fix)
            value = cursor.literal()
            if name not in LIMIT_NAMES or isinstance(value, bool) or not isinstance(value, int) or value < 1:
                _fail(f"limit {name}={value!r} is not valid", number, "limits", fix, "bad-option")
            if name in self._limits:
                _fail(f"limit {name} stands twice", number, "limits", fix)
            self._limits[name] = value

    def _node(self, line: str, number: int) -> None:
        cursor = Cursor(tokenise(line, line=number, field="node"), line=number, field="node")
        label, first = None, cursor.name("a state field to write", _NODE_FIX)
        if cursor.accept(":"):
            label, first = first, cursor.name("a state field to write", _NODE_FIX)
        writes = [first]
        while cursor.accept(","):
            writes.append(cursor.name("a state field to write", _NODE_FIX))
        cursor.expect("=", _NODE_FIX)
        name = cursor.name("what the node runs", _NODE_FIX)
        cursor.expect("(", _NODE_FIX)
        args = self._args(cursor)
        options = self._options(cursor)
        if label in RESERVED:
            _fail(f"{label!r} is a word of the language", number, "label", "choose another label")
        if len(self._nodes) == MAX_NODES:
            _fail(f"more than {MAX_NODES} nodes", number, "node", "write a smaller graph", "too-long")
        self._nodes.append(_RawNode(label, tuple(writes), name, args, options, number))

    def _args(self, cursor: Cursor) -> tuple[Argument, ...]:
        args: list[Argument] = []
        while not cursor.accept(")"):
            if args:
                cursor.expect(",", _NODE_FIX)
            if cursor.next.kind == "name" and cursor.next.text not in ("true", "false"):
                args.append(Ref(cursor.take().text))
            else:
                args.append(Const(cursor.literal()))
        return tuple(args)

    def _options(self, cursor: Cursor) -> tuple[tuple[str, int | float], ...]:
        options: dict[str, int | float] = {}
        fix = f"use {', '.join(f'{name}=<number>' for name in OPTION_NAMES)} after the closing parenthesis"
        while cursor.next.kind != "end":
            name = cursor.name("an option", fix)
            cursor.expect("=", fix)
            value = cursor.literal()
            if name not in OPTION_NAMES or isinstance(value, bool | str) or name in options:
                _fail(
                    f"option {name}={value!r} is unknown, repeated or not a number",
                    cursor.line,
                    name,
                    fix,
                    "bad-option",
                )
            options[name] = value
        return tuple(sorted(options.items()))

    def _edge(self, line: str, number: int) -> None:
        if not self._nodes or self._impls:
            _fail("an indented line without a node above it", number, "edge", "remove the spaces in front of the line")
        edges = self._nodes[-1].edges
        if edges and (edges[-1].guard is None or edges[-1].otherwise is not None):
            _fail("nothing can follow `->` or `else`", number, "edge", "put it before, or remove it")
        conditional = re.match(r"\s+if\b", line) is not None
        rule = "bad-guard" if conditional else "syntax"
        tokens = tokenise(line, line=number, field="guard" if conditional else "edge", rule=rule)
        cursor = Cursor(tokens, line=number, field="guard" if conditional else "edge", rule=rule)
        guard, otherwise = None, None
        if conditional:
            cursor.take()
            guard = parse_guard(cursor, tokens_left=len(tokens))
        cursor.expect("->", _EDGE_FIX)
        cursor.rule, cursor.field = "syntax", "edge"
        targets = self._targets(cursor)
        if conditional and cursor.accept("else"):
            otherwise = self._targets(cursor)
        cursor.end(_EDGE_FIX)
        edges.append(_RawEdge(guard, targets, otherwise, number))

    def _targets(self, cursor: Cursor) -> list[str]:
        targets = [cursor.name("a node", _EDGE_FIX)]
        while cursor.accept(","):
            targets.append(cursor.name("a node", _EDGE_FIX))
        return targets

    def _resolve(self) -> Document:
        order: dict[str, int] = {}
        for index, raw in enumerate(self._nodes):
            identity = raw.label or f"n{index + 1}"
            if identity in order:
                _fail(f"label {identity} is used twice", raw.line, "label", "rename one of the two", "duplicate-label")
            order[identity] = index
        ids = list(order)
        nodes = []
        for index, raw in enumerate(self._nodes):
            after = (ids[index + 1],) if index + 1 < len(ids) else ()
            branches = _branches(raw, order, after)
            nodes.append(Node(ids[index], raw.writes, raw.name, raw.args, raw.options, branches, raw.line))
        impls: dict[str, Implementation] = {}
        for block in self._impls:
            if block.name in impls:
                _fail(f"impl {block.name} stands twice", block.line, "impl", "keep one of the two blocks")
            impls[block.name] = _implementation(block, nodes)
        return Document(
            states={name: self._states[name] for name in sorted(self._states)},
            limits={name: self._limits[name] for name in LIMIT_NAMES if name in self._limits},
            nodes=tuple(nodes),
            impls={name: impls[name] for name in sorted(impls)},
            limits_line=self._limits_line,
        )


def input_names(name: str, nodes: Sequence[Node], line: int = 0) -> tuple[str, ...]:
    """Input names of an impl block without `reads`: those that the first node using it passes.

    A literal or a repeated name at position k becomes `arg<k>`.

    Raises:
        HarnessError: rule unused-impl, no node uses the block.
    """
    names: list[str] = []
    user = next((node for node in nodes if node.name == name), None)
    if user is None:
        _fail(f"impl {name} is used by no node", line, f"impl {name}", "remove the block", "unused-impl")
    for position, arg in enumerate(user.args, start=1):
        taken = not isinstance(arg, Ref) or arg.name in names or arg.name == "out"
        names.append(f"arg{position}" if taken or not isinstance(arg, Ref) else arg.name)
    return tuple(names)


def _implementation(block: _RawImpl, nodes: Sequence[Node]) -> Implementation:
    lines: dict[str, int] = {}
    indent = next((match.group(1) for line in block.body if (match := _FIELD.match(line))), "")
    for offset, line in enumerate(block.body, start=1):
        match = _FIELD.match(line)
        if match and match.group(1) == indent:
            lines.setdefault(match.group(2), block.line + offset)
    names = input_names(block.name, nodes, block.line)
    row = load_yaml("\n".join(block.body), first_line=block.line + 1, field=f"impl {block.name}")
    return read_implementation(block.name, row, reads=names, line=block.line, lines=lines)


def _branches(raw: _RawNode, order: dict[str, int], after: tuple[str, ...]) -> tuple[Branch, ...]:
    branches = []
    for edge in raw.edges:
        branches.append(Branch(edge.guard, _ordered(edge.targets, order, edge.line), edge.line))
        if edge.otherwise is not None:
            branches.append(Branch(None, _ordered(edge.otherwise, order, edge.line), edge.line))
    if not branches or branches[-1].guard is not None:
        branches.append(Branch(None, after, raw.line))
    return tuple(branches)


def _ordered(targets: Sequence[str], order: dict[str, int], line: int) -> tuple[str, ...]:
    wanted = {target for target in targets if target != END}
    for target in targets:
        if target != END and target not in order:
            _fail(f"there is no node {target}", line, "edge", f"use one of {', '.join([*order, END])}", "unknown-node")
    return tuple(sorted(wanted, key=order.__getitem__))


def _json_value(text: str, line: int) -> Any:
    def refuse(name: str) -> NoReturn:
        raise ValueError(f"{name} is no number")

    try:
        stripped = text.strip()
        value, end = json.JSONDecoder(parse_constant=refuse).raw_decode(stripped)
        rest = stripped[end:].strip()
        if rest and not rest.startswith("#"):
            raise ValueError(f"{rest[:20]!r} is too much")
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        _fail(
            f"the initial value is not JSON ({error})", line, "state", 'write "text", 0, true, ["a", "b"] or {"a": 1}'
        )
    if value is None:
        _fail("null is no initial value", line, "state", "leave the initial value out")
    return _normal(value)


def _normal(value: Any) -> Any:
    if isinstance(value, list):
        return [_normal(item) for item in value]
    if isinstance(value, dict):
        return {key: _normal(value[key]) for key in sorted(value)}
    return value if isinstance(value, bool) else normal_number(value) if isinstance(value, float) else value
