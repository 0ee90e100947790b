"""Static checks of names, inputs, options and types. Each complaint names its rule, line, field and fix.

What depends on paths (cycles, reads before writes, the answer) is in `graph_paths`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from luthier.errors import HarnessError
from luthier.execution import Limits
from luthier.harnesses.graph.document import (
    BUILTINS,
    REDUCERS,
    RESERVED,
    STATE_TYPES,
    Const,
    Document,
    Node,
    Ref,
    StateField,
)
from luthier.harnesses.graph.guards import operands
from luthier.harnesses.graph.implementation import MAX_TOKENS_CEILING, TEMPERATURE_CEILING, Implementation
from luthier.harnesses.graph.presets import presets
from luthier.tools.registry import ALL_TOOLS

CEILING = Limits(steps=256, visits=64, calls=256, tokens=200_000)
"""Largest limits that a document may ask for (ours); the executor's own limits apply as well."""

MAX_SAMPLES = 32
_KIND_OF_TYPE = {"int": "int", "float": "number", "bool": "bool", "dict": "dict"}
_WRITABLE = {
    "int": frozenset({"int", "number", "text"}),
    "float": frozenset({"int", "number", "text"}),
    "bool": frozenset({"bool", "int", "text"}),
    "dict": frozenset({"dict", "text"}),
}


@dataclass(frozen=True, slots=True)
class Names:
    """What the names of a checked document mean.

    Attributes:
        implicit: State fields that nodes declare by writing them.
        states: All state fields but `question`, declared ones first choice.
        implementations: Of every llm name in use.
    """

    implicit: Mapping[str, StateField]
    states: Mapping[str, StateField]
    implementations: Mapping[str, Implementation]


def node_kind(node: Node) -> str:
    """llm, tool, vote or merge; the name of a valid node tells."""
    if node.name in BUILTINS:
        return node.name
    return "tool" if node.name in ALL_TOOLS else "llm"


def check_names(document: Document, known: Mapping[str, Implementation] | None = None) -> Names:
    """Resolve every name and check inputs, options, limits and types.

    Args:
        document: The parsed graph.
        known: Implementations that its nodes may use besides its own impl blocks (default: the presets).

    Raises:
        HarnessError: name-clash, unknown-name, missing-impl, bad-option, arity, question-write,
            unknown-state, unknown-node, bad-type or limits-too-high.
    """
    known = presets() if known is None else known
    _check_impl_names(document, known)
    implementations: dict[str, Implementation] = {}
    for node in document.nodes:
        _check_writes(node)
        implementation = _resolve(document, node, known)
        if implementation is not None:
            implementations[node.name] = implementation
            _check_llm(node, implementation)
        else:
            _check_plain(node)
    for state in document.states.values():
        _check_state(state)
    implicit = _implicit_states(document.nodes, implementations)
    names = Names(implicit, {**implicit, **document.states}, implementations)
    _check_reads(document, names)
    _check_types(document, names)
    _check_limits(document)
    return names


def _fail(rule: str, problem: str, line: int, field: str, fix: str) -> NoReturn:
    raise HarnessError(problem, rule=rule, line=line, field=field, fix=fix)


def _check_impl_names(document: Document, known: Mapping[str, Implementation]) -> None:
    for name, block in document.impls.items():
        if name in ALL_TOOLS or name in BUILTINS or name in known or name in RESERVED:
            owner = "tool" if name in ALL_TOOLS else "preset" if name in known else "word of the language"
            _fail(
                "name-clash",
                f"{name} is already a {owner}",
                block.line,
                f"impl {name}",
                "rename the block and its nodes",
            )


def _check_writes(node: Node) -> None:
    for name in node.writes:
        if name == "question":
            _fail("question-write", "question is read-only", node.line, "writes", "write to another state field")
        if name in RESERVED:
            _fail("syntax", f"{name!r} is a word of the language", node.line, "writes", "choose another name")
    if len(set(node.writes)) != len(node.writes):
        _fail("syntax", "one field is written twice", node.line, "writes", "remove one of the two")


def _resolve(document: Document, node: Node, known: Mapping[str, Implementation]) -> Implementation | None:
    """The implementation of an llm node; None for tools and builtins."""
    if node.name in document.impls:
        return document.impls[node.name]
    if node.name in known:
        return known[node.name]
    if node.name in ALL_TOOLS or node.name in BUILTINS:
        return None
    if node.options:
        fix = f"add a block `impl {node.name}:` with `ask: ...` at the end"
        _fail(
            "missing-impl", f"{node.name} has options of an llm node but no implementation", node.line, node.name, fix
        )
    near = difflib.get_close_matches(node.name, [*document.impls, *known, *ALL_TOOLS, *BUILTINS], n=3)
    fix = (
        f"did you mean {', '.join(near)}?"
        if near
        else f"use a tool ({', '.join(ALL_TOOLS)}), a preset or an impl block"
    )
    _fail("unknown-name", f"there is no impl block, preset, tool or builtin {node.name}", node.line, node.name, fix)


def _check_llm(node: Node, implementation: Implementation) -> None:
    expected, given = implementation.reads, len(node.args)
    if given != len(expected):
        fix = f"write {node.name}({', '.join(expected)})"
        _fail("arity", f"{node.name} takes {len(expected)} inputs, {given} given", node.line, node.name, fix)
    samples = node.option("n", 1)
    temperature = node.option("temperature", implementation.temperature)
    if not isinstance(samples, int) or not 1 <= samples <= MAX_SAMPLES:
        _fail("bad-option", f"n={samples} is not a whole number from 1 to {MAX_SAMPLES}", node.line, "n", "write n=3")
    if samples > 1 and temperature == 0:
        _fail("bad-option", f"n={samples} greedy samples are all equal", node.line, "n", "add temperature=0.7")
    if not 0 <= temperature <= TEMPERATURE_CEILING:
        _fail("bad-option", f"temperature={temperature} is not from 0 to 2", node.line, "temperature", "write 0.7")
    tokens = node.option("max_tokens", 1)
    if not isinstance(tokens, int) or not 1 <= tokens <= MAX_TOKENS_CEILING:
        problem = f"max_tokens={tokens} is not a whole number from 1 to {MAX_TOKENS_CEILING}"
        _fail("bad-option", problem, node.line, "max_tokens", "write max_tokens=64")
    if len(node.writes) > 1 and (samples > 1 or implementation.parse not in ("list", "json")):
        fix = "write one field, or use `parse: list` or `parse: json` and one sample"
        _fail("arity", f"{node.name} gives one value, {len(node.writes)} fields are written", node.line, "writes", fix)


def _check_plain(node: Node) -> None:
    if node.options:
        fix = "remove the options"
        _fail("bad-option", f"{node.name} is no llm node and takes no options", node.line, node.options[0][0], fix)
    if len(node.writes) > 1:
        problem = f"{node.name} gives one value, {len(node.writes)} fields are written"
        _fail("arity", problem, node.line, "writes", "write one field")
    low, high = (ALL_TOOLS[node.name].min_args, ALL_TOOLS[node.name].max_args) if node.name in ALL_TOOLS else (1, 64)
    if not low <= len(node.args) <= high:
        wanted = str(low) if low == high else f"{low} to {high}"
        signature = ALL_TOOLS[node.name].signature if node.name in ALL_TOOLS else f"{node.name}(a, b, ...)"
        _fail(
            "arity",
            f"{node.name} takes {wanted} inputs, {len(node.args)} given",
            node.line,
            node.name,
            f"write {signature}",
        )


def _check_state(state: StateField) -> None:
    if state.name == "question":
        _fail("question-write", "question is declared by the language", state.line, "state", "remove the line")
    if state.name in RESERVED:
        _fail("syntax", f"{state.name!r} is a word of the language", state.line, "state", "choose another name")
    if state.type not in STATE_TYPES:
        _fail("bad-type", f"type {state.type} is unknown", state.line, "type", f"use one of {', '.join(STATE_TYPES)}")
    if state.reducer not in REDUCERS:
        _fail(
            "bad-type",
            f"reducer {state.reducer} is unknown",
            state.line,
            "reducer",
            f"use one of {', '.join(REDUCERS)}",
        )
    if state.reducer == "append" and not state.type.startswith("list"):
        _fail("bad-type", f"append needs a list, not {state.type}", state.line, "reducer", "write list[str] append")
    if state.reducer == "sum" and state.type not in ("int", "float"):
        _fail("bad-type", f"sum needs int or float, not {state.type}", state.line, "reducer", "write int sum")
    if state.initial is not None and not _fits(state.initial, state.type):
        _fail("bad-type", f"the initial value is no {state.type}", state.line, "initial value", f"write a {state.type}")


def _fits(value: Any, kind: str) -> bool:
    if kind.startswith("list"):
        return isinstance(value, list) and all(_fits(item, kind[5:-1]) for item in value)
    if isinstance(value, bool):
        return kind == "bool"
    allowed = {"str": str, "int": int, "float": (int, float), "dict": dict}
    return kind in allowed and isinstance(value, allowed[kind])  # type: ignore[arg-type]


def _implicit_states(nodes: tuple[Node, ...], implementations: Mapping[str, Implementation]) -> dict[str, StateField]:
    """Fields that are written: list[str] where a node writes several samples or a merge, else str."""
    kinds: dict[str, str] = {}
    for node in nodes:
        several = node.name == "merge" or (node.name in implementations and node.option("n", 1) > 1)
        for name in node.writes:
            kinds[name] = "list[str]" if several else kinds.get(name, "str")
    return {name: StateField(name, kinds[name]) for name in sorted(kinds)}


def _check_reads(document: Document, names: Names) -> None:
    known = {"question", *names.states}
    ids = {node.id for node in document.nodes}
    for node in document.nodes:
        for name in node.reads:
            if name not in known:
                _unknown_state(name, known, node.line, "reads")
        for branch in node.branches:
            for operand in operands(branch.guard) if branch.guard is not None else ():
                if operand.kind in ("state", "len") and operand.value not in known:
                    _unknown_state(operand.value, known, branch.line, "guard")
                if operand.kind == "visits" and operand.value not in ids:
                    fix = f"use one of {', '.join(sorted(ids))}"
                    _fail("unknown-node", f"there is no node {operand.value}", branch.line, "guard", fix)


def _unknown_state(name: str, known: set[str], line: int, field: str) -> NoReturn:
    near = difflib.get_close_matches(name, sorted(known), n=3) or sorted(known)
    fix = f"use one of {', '.join(near)}, or put a literal text into double quotes"
    _fail("unknown-state", f"no node writes {name} and no state line declares it", line, field, fix)


def _check_types(document: Document, names: Names) -> None:
    kinds = _state_kinds(document, names)
    for node in document.nodes:
        for name in node.writes:
            declared, kind = names.states[name], _result_kind(node, names)
            several = kind == "list" and node.name in names.implementations and node.option("n", 1) > 1
            if declared.type in _WRITABLE and declared.reducer != "append" and kind not in _WRITABLE[declared.type]:
                problem = f"{node.name} gives a {kind}, but {name} is {declared.type}"
                _fail("bad-type", problem, node.line, name, "correct the state line or write to another field")
            if several and not declared.type.startswith("list"):
                problem = f"{name} takes several samples, but is {declared.type}"
                _fail("bad-type", problem, node.line, name, f"write `state {name}: list[str]`")
        if node.name in ALL_TOOLS:
            _check_tool_inputs(node, kinds)


def _check_tool_inputs(node: Node, kinds: Mapping[str, frozenset[str]]) -> None:
    tool = ALL_TOOLS[node.name]
    for index, arg in enumerate(node.args):
        possible = kinds[arg.name] if isinstance(arg, Ref) else frozenset({_const_kind(arg)})
        if possible and not any(tool.accepts(index, kind) for kind in possible):
            label = arg.name if isinstance(arg, Ref) else repr(arg.value)
            problem = f"{label} is always {' or '.join(sorted(possible))}, which {tool.signature} cannot read"
            _fail("bad-type", problem, node.line, label, "use another tool, or another input")


def _const_kind(arg: Const) -> str:
    if isinstance(arg.value, bool):
        return "bool"
    return {str: "text", int: "int", float: "number"}[type(arg.value)]


def _result_kind(node: Node, names: Names) -> str:
    """Kind of a node's result: text where it cannot be known."""
    if node.name in ALL_TOOLS:
        return ALL_TOOLS[node.name].returns
    if node.name in BUILTINS:
        return "list" if node.name == "merge" else "text"
    implementation = names.implementations[node.name]
    if node.option("n", 1) > 1 or (implementation.parse == "list" and len(node.writes) == 1):
        return "list"
    return "dict" if implementation.parse == "json" and len(node.writes) == 1 else "text"


def _state_kinds(document: Document, names: Names) -> dict[str, frozenset[str]]:
    """Per field the kinds that its value may have; a str field keeps the kinds of what is written into it."""
    kinds: dict[str, frozenset[str]] = {"question": frozenset({"text"})}
    for name, state in names.states.items():
        if state.type == "str":
            written = {_result_kind(node, names) for node in document.nodes if name in node.writes}
            kinds[name] = frozenset(written | ({"text"} if state.initial is not None else set()))
        else:
            kinds[name] = frozenset({_KIND_OF_TYPE.get(state.type, "list")})
    return kinds


def _check_limits(document: Document) -> None:
    for name, value in document.limits.items():
        ceiling = getattr(CEILING, name)
        if value > ceiling:
            fix = f"write {name}={ceiling} or less"
            _fail("limits-too-high", f"{name}={value} is above {ceiling}", document.limits_line, name, fix)
