"""The JSON form of a graph, for large models and tools: the same document, field for field, and its JSON Schema.

`from_json(to_json(graph)) == graph`. The schema (draft 2020-12) is published as `docs/graph.schema.json`; it
checks the shape, `GraphHarness.parse` checks the meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, ValidationError

from luthier.errors import HarnessError
from luthier.harnesses.graph.document import END, Argument, Branch, Const, Document, Node, Ref, StateField
from luthier.harnesses.graph.guards import guard_text, parse_guard
from luthier.harnesses.graph.harness import GraphHarness
from luthier.harnesses.graph.implementation import (
    MAX_TOKENS_CEILING,
    TEMPERATURE_CEILING,
    Implementation,
    default_max_tokens,
    default_stop,
    read_implementation,
)
from luthier.harnesses.graph.lexer import Cursor, normal_number, tokenise
from luthier.harnesses.graph.parser import MAX_NODES, input_names
from luthier.harnesses.graph.printer import print_document

Name = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$")]
StateType = Literal["str", "int", "float", "bool", "list[str]", "list[int]", "list[float]", "list[bool]", "dict"]
Parse = Literal["line", "text", "number", "last_number", "choice", "letter", "list", "json"]
MaxTokens = Annotated[StrictInt, Field(ge=1, le=MAX_TOKENS_CEILING)]
Temperature = Annotated[float, Field(ge=0, le=TEMPERATURE_CEILING)]
Limit = Annotated[StrictInt, Field(ge=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StatePart(_Part):
    """A declared state field."""

    type: StateType = "str"
    reducer: Literal["overwrite", "append", "sum"] = "overwrite"
    init: Any = Field(default=None, description="Value before the first write, of the field's type.")


class LimitsPart(_Part):
    """Bounds of one run; the executor's own apply as well."""

    steps: Limit | None = None
    visits: Limit | None = None
    calls: Limit | None = None
    tokens: Limit | None = None


class StateArgument(_Part):
    """Reads a state field."""

    state: Name


class ValueArgument(_Part):
    """A literal."""

    value: StrictStr | StrictBool | StrictInt | StrictFloat


class OptionsPart(_Part):
    """Options of an llm node."""

    max_tokens: MaxTokens | None = None
    n: Annotated[StrictInt, Field(ge=1)] | None = None
    temperature: Temperature | None = None


class EdgePart(_Part):
    """Where to go; all but the last edge of a node have a guard."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    guard: str | None = Field(default=None, alias="if", description='For example: verdict == "wrong"')
    to: list[Name] = Field(min_length=1, description="Node ids that run together, or END.")


class NodePart(_Part):
    """One node: what it writes, what it runs (impl block, preset, tool, vote or merge), what that reads."""

    id: Name | None = Field(default=None, description="Default n1, n2, ... by position.")
    writes: list[Name] = Field(min_length=1)
    name: Name
    args: list[StateArgument | ValueArgument] = []
    options: OptionsPart = OptionsPart()
    edges: list[EdgePart] = Field(default=[], description="Default: to the next node, at last END.")


class ImplPart(_Part):
    """How an llm node is carried out."""

    about: str = ""
    style: Literal["chat", "raw"] = "chat"
    reads: list[Name] | None = Field(default=None, description="Input names, default as the first user passes them.")
    role: str = ""
    ask: str = Field(min_length=1, description="Template over the inputs, {name}.")
    shots: list[dict[str, str]] = Field(default=[], description="Worked examples: each input by name, and out.")
    stop: list[str] | None = None
    parse: Parse = "line"
    choices: list[str] | None = None
    max_tokens: MaxTokens | None = None
    temperature: Temperature = 0.0
    reasoning: Literal["direct", "cot"] = "direct"


class GraphPart(_Part):
    """A multi-agent system: typed state, nodes with conditional edges, limits, and llm implementations."""

    state: dict[Name, StatePart] = {}
    limits: LimitsPart = LimitsPart()
    nodes: list[NodePart] = Field(min_length=1, max_length=MAX_NODES)
    impl: dict[Name, ImplPart] = {}


def to_json(graph: GraphHarness) -> dict[str, Any]:
    """The JSON object of a graph; what is default is left out."""
    document = graph.document
    row: dict[str, Any] = {}
    if document.states:
        row["state"] = {name: _state_row(state) for name, state in document.states.items()}
    if document.limits:
        row["limits"] = dict(document.limits)
    row["nodes"] = [_node_row(node) for node in document.nodes]
    if document.impls:
        row["impl"] = {
            name: _impl_row(impl, input_names(name, document.nodes)) for name, impl in document.impls.items()
        }
    return row


def from_json(value: Any) -> GraphHarness:
    """Inverse of `to_json`.

    Raises:
        HarnessError: wrong shape (rule syntax, the field is named) or a broken rule; line numbers are those of
            the text form.
    """
    try:
        part = GraphPart.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(item) for item in first["loc"]) or "document"
        fix = "follow docs/graph.schema.json"
        raise HarnessError(f"{place}: {first['msg']}", rule="syntax", field=place, fix=fix) from error
    nodes = tuple(_node(part.nodes, index) for index in range(len(part.nodes)))
    document = Document(
        states={n: StateField(n, s.type, s.reducer, _plain_init(s.init)) for n, s in sorted(part.state.items())},
        limits=part.limits.model_dump(exclude_none=True),
        nodes=nodes,
        impls={name: _impl(name, impl, nodes) for name, impl in sorted(part.impl.items())},
    )
    try:
        text = print_document(document, {})
    except (ValueError, RecursionError) as error:
        problem = f"an initial value cannot be written ({error})"
        raise HarnessError(problem, rule="syntax", field="state", fix="write a shorter and flatter one") from error
    return GraphHarness.parse(text)


def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the JSON form."""
    generated = GraphPart.model_json_schema(by_alias=True)
    generated["title"] = "Luthier graph"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **generated}


def _state_row(state: StateField) -> dict[str, Any]:
    row: dict[str, Any] = {"type": state.type, "reducer": state.reducer}
    return row if state.initial is None else {**row, "init": state.initial}


def _node_row(node: Node) -> dict[str, Any]:
    row: dict[str, Any] = {"id": node.id, "writes": list(node.writes), "name": node.name}
    row["args"] = [{"state": a.name} if isinstance(a, Ref) else {"value": a.value} for a in node.args]
    if node.options:
        row["options"] = dict(node.options)
    row["edges"] = []
    for branch in node.branches:
        guard = {} if branch.guard is None else {"if": guard_text(branch.guard)}
        row["edges"].append({**guard, "to": list(branch.targets) or [END]})
    return row


def _impl_row(implementation: Implementation, names: tuple[str, ...]) -> dict[str, Any]:
    row: dict[str, Any] = {"ask": implementation.ask, "reads": list(implementation.reads)}
    for field in ("about", "role", "style", "parse", "reasoning", "temperature"):
        row[field] = getattr(implementation, field)
    row["shots"] = [{**dict(shot.values), "out": shot.out} for shot in implementation.shots]
    row["stop"], row["max_tokens"] = list(implementation.stop), implementation.max_tokens
    if implementation.choices:
        row["choices"] = list(implementation.choices)
    default = {
        **ImplPart(ask="x").model_dump(),
        "reads": list(names),
        "stop": list(default_stop(implementation.style, implementation.reasoning)),
        "max_tokens": default_max_tokens(implementation.reasoning),
    }
    return {field: value for field, value in sorted(row.items()) if field == "ask" or value != default[field]}


def _node(parts: list[NodePart], index: int) -> Node:
    part, ids = parts[index], [p.id or f"n{position}" for position, p in enumerate(parts, start=1)]
    args: tuple[Argument, ...] = tuple(
        Ref(a.state) if isinstance(a, StateArgument) else Const(_plain_const(a.value)) for a in part.args
    )
    branches = [_branch(edge, ids) for edge in part.edges]
    for position, branch in enumerate(branches[:-1]):
        if branch.guard is None:
            place = f"nodes.{index}.edges.{position}"
            raise HarnessError(f"{place} has no guard but is not the last", rule="syntax", field=place, fix='add "if"')
    if not branches or branches[-1].guard is not None:
        branches.append(Branch(None, tuple(ids[index + 1 : index + 2])))
    options = part.options.model_dump(exclude_none=True)
    return Node(ids[index], tuple(part.writes), part.name, args, tuple(sorted(options.items())), tuple(branches))


def _branch(edge: EdgePart, ids: list[str]) -> Branch:
    targets = sorted({t for t in edge.to if t != END}, key=lambda t: ids.index(t) if t in ids else len(ids))
    if edge.guard is None:
        return Branch(None, tuple(targets))
    tokens = tokenise(edge.guard, line=0, field="guard", rule="bad-guard")
    cursor = Cursor(tokens, line=0, field="guard", rule="bad-guard")
    guard = parse_guard(cursor, tokens_left=len(tokens))
    cursor.end("write one comparison, joined with and, or, not")
    return Branch(guard, tuple(targets))


def _impl(name: str, part: ImplPart, nodes: tuple[Node, ...]) -> Implementation:
    row: Mapping[str, Any] = part.model_dump(exclude_none=True, exclude_unset=True)
    texts = {field: repr(value) if isinstance(value, int | float) else value for field, value in row.items()}
    return read_implementation(name, texts, reads=input_names(name, nodes))


def _plain_const(value: str | bool | int | float) -> str | bool | int | float:
    return value if isinstance(value, str | bool) else normal_number(value)


def _plain_init(value: Any) -> Any:
    """The initial value with normal numbers; the text form is read again and checked."""
    if isinstance(value, list):
        return [_plain_init(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain_init(value[key]) for key in value}
    return normal_number(value) if isinstance(value, float) else value
