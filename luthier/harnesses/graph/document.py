"""The parts of a graph document: state, nodes with their edges, and limits. Plain frozen data, no behaviour.

The structure layer of MAS-Architect (ICML 2026 poster 63290; our reading in `luthier.harnesses.graph.harness`); the
implementation layer is `luthier.harnesses.graph.implementation`. Line numbers are for messages only and never
compared, so that two spellings of one graph are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from luthier.harnesses.graph.guards import Guard
from luthier.harnesses.graph.implementation import Implementation

STATE_TYPES = ("str", "int", "float", "bool", "list[str]", "list[int]", "list[float]", "list[bool]", "dict")
REDUCERS = ("overwrite", "append", "sum")
LIMIT_NAMES = ("steps", "visits", "calls", "tokens")
OPTION_NAMES = ("max_tokens", "n", "temperature")
BUILTINS = ("merge", "vote")
END = "END"
_WORDS = ("state", "limits", "impl", "visits", "if", "else", "and", "or", "not", "in", "len", "true", "false")
RESERVED = frozenset({"question", END, *_WORDS})


@dataclass(frozen=True, slots=True)
class StateField:
    """A declared state field.

    Attributes:
        type: One of `STATE_TYPES`. reducer: One of `REDUCERS`.
        initial: Value before the first write; None when there is none.
    """

    name: str
    type: str = "str"
    reducer: str = "overwrite"
    initial: Any = None
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Ref:
    """An argument that reads a state field."""

    name: str


@dataclass(frozen=True, slots=True)
class Const:
    """A literal argument."""

    value: str | int | float | bool


Argument = Ref | Const


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a node goes when `guard` is the first true one; the last branch of a node has no guard.

    `targets` are node ids in document order; empty means END.
    """

    guard: Guard | None
    targets: tuple[str, ...]
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Node:
    """One node.

    Attributes:
        id: Its label, or n1, n2, ... by position.
        writes: State fields that it writes. name: What it runs. args: What that reads, by position.
        options: Of an llm node: temperature, n, max_tokens; sorted by name.
        branches: Never empty; all but the last have a guard, the last has none.
    """

    id: str
    writes: tuple[str, ...]
    name: str
    args: tuple[Argument, ...]
    options: tuple[tuple[str, int | float], ...]
    branches: tuple[Branch, ...]
    line: int = field(default=0, compare=False)

    def option(self, name: str, default: int | float) -> int | float:
        """Value of an option, or the default."""
        return dict(self.options).get(name, default)

    @property
    def reads(self) -> tuple[str, ...]:
        """State fields that it reads as arguments."""
        return tuple(arg.name for arg in self.args if isinstance(arg, Ref))


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed graph before validation: declared state by name, limits by name, nodes in order, impl blocks by name."""

    states: Mapping[str, StateField]
    limits: Mapping[str, int]
    nodes: tuple[Node, ...]
    impls: Mapping[str, Implementation]
    limits_line: int = field(default=0, compare=False)
