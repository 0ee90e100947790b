"""`GraphHarness`: harness kind `graph`, a declared multi-agent system in a short text.

Two layers after MAS-Architect (ICML 2026 poster 63290; the text form is ours): the structure (typed state,
nodes, conditional edges, limits) and how each llm node is carried out (`impl` blocks and presets). A chain::

    a = words(question)
    b = sort(a)
    answer = last(b)

and everything::

    state votes: list[str] append            # type; reducer overwrite (default), append or sum; `= initial`
    limits steps=20 visits=4 calls=12 tokens=4000
    draft = solve(question) temperature=0.7  # options of llm nodes: n, max_tokens, temperature
    check: verdict = verify(question, draft) # `label:` names a node, else n1, n2, ... by position
      if verdict == "wrong" and visits.check < 3 -> fix else done
    fix: draft = mend(question, draft)
      -> check                               # `-> x, y` runs both in the next superstep; END is a target
    done: answer = copy(draft)
    impl mend:                               # fields: `luthier.harnesses.graph.implementation`
      ask: "{question} {draft} Write a corrected answer."

* What a node runs is told by its name: an impl block, a preset, a tool (`luthier.tools.registry`), `vote` or `merge`.
* Inputs are state fields or literals. Fields that nodes write are declared by that as `str`, or `list[str]`
  where several samples or a `merge` are written. `question` is read-only, `answer` must be written.
* Without edge lines a node goes on to the next line's node, the last one to END. The first true `if` wins.
* Guards compare and do nothing else (`luthier.harnesses.graph.guards`).
* Nodes run in supersteps; `merge` and `vote` wait for what can still arrive (`luthier.harnesses.graph.supersteps`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from luthier.execution import Limits
from luthier.files import digest_text
from luthier.harnesses.graph.checks import check_names, node_kind
from luthier.harnesses.graph.document import Document, Node, StateField
from luthier.harnesses.graph.implementation import Implementation
from luthier.harnesses.graph.parser import check_size, parse_document
from luthier.harnesses.graph.paths import Walk, check_paths
from luthier.harnesses.graph.printer import print_document
from luthier.harnesses.graph.supersteps import Topology
from luthier.harnesses.graph.texts import own_texts


@dataclass(frozen=True, eq=False)
class GraphHarness:
    """A valid graph. Equal texts are equal graphs.

    Attributes:
        text: Canonical text.
        document: Declared state, limits, nodes and impl blocks; line numbers are those of the parsed text.
        states: All state fields but `question`, also those that nodes declare by writing them.
        implementations: Of every llm name in use, impl blocks and presets alike.
        topology: How it moves. walk: Every position it can be in.
    """

    text: str
    document: Document = field(repr=False)
    states: Mapping[str, StateField] = field(repr=False)
    implementations: Mapping[str, Implementation] = field(repr=False)
    topology: Topology = field(repr=False)
    walk: Walk = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> GraphHarness:
        """Parse and validate.

        Raises:
            HarnessError: the text breaks a rule; rule, line, field and fix are named.
        """
        return cls.of(parse_document(text))

    @classmethod
    def of(cls, document: Document, known: Mapping[str, Implementation] | None = None) -> GraphHarness:
        """Validate a parsed graph.

        Args:
            document: The graph.
            known: Implementations that its nodes may use besides its own impl blocks (default: the presets).

        Raises:
            HarnessError: as `parse`.
        """
        names = check_names(document, known)
        topology = Topology.of(document.nodes)
        walk = check_paths(document.nodes, names.states, topology)
        document = replace(document, nodes=tuple(_without_defaults(n, names.implementations) for n in document.nodes))
        canonical = print_document(document, names.implicit)
        check_size(canonical)
        return cls(canonical, document, names.states, names.implementations, topology, walk)

    @property
    def kind(self) -> Literal["graph"]:
        """Which executor runs it."""
        return "graph"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of kind and canonical text, 64 hex digits."""
        return digest_text(f"graph\n{self.text}")

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Nodes in document order."""
        return self.document.nodes

    @property
    def limits(self) -> Mapping[str, int]:
        """Limits that the document states; the executor's apply besides."""
        return self.document.limits

    def kind_of(self, node: Node) -> str:
        """llm, tool, vote or merge."""
        return node_kind(node)

    def texts(self) -> Iterator[str]:
        """Its constants and the texts of its impl blocks; presets are left out."""
        return own_texts(self.document, self.document.impls)

    def calls_bound(self, limits: Limits) -> int:
        """See `luthier.harnesses.graph.bounds`."""
        from luthier.harnesses.graph.bounds import calls_bound

        return calls_bound(self, limits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphHarness) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


def _without_defaults(node: Node, implementations: Mapping[str, Implementation]) -> Node:
    """The node without options that say what its implementation says anyway."""
    if not node.options:
        return node
    implementation = implementations[node.name]
    default = {"n": 1, "temperature": implementation.temperature, "max_tokens": implementation.max_tokens}
    return replace(node, options=tuple((name, value) for name, value in node.options if value != default[name]))
