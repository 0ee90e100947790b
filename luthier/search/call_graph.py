"""`CallGraph`: what ran in one execution of a program, and what depended on what. The graph of backward passes.

A trace is replayed over the program's wiring, without any call: the same supersteps, writes and guards as in
`luthier.executors.graph`. So every value read has its writer (of an appended or summed field all of them), and
every guarded choice its router. Edges therefore are of two roles (ours): *value*, the reader used what the writer
wrote; *choice*, the reader ran (or the run ended) because a guard looked at what the writer wrote. A choice holds
for the nodes that it names and for those after them that the other branches might not have reached.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from luthier.execution import Execution, Step
from luthier.executors.graph import written_values
from luthier.executors.llm_calls import show
from luthier.executors.memory import Memory
from luthier.executors.program import ModuleTrace, wired_traces
from luthier.harnesses.graph.document import Node, Ref
from luthier.harnesses.graph.guards import Guard, GuardComparison, Not, holds, operands
from luthier.harnesses.graph.supersteps import Frontier
from luthier.harnesses.program.harness import ProgramHarness
from luthier.search.programs import written
from luthier.tools.values import ToolInputError, render

_FAILED_NODE = re.compile(r"node ([^:\s]+): ")


@dataclass(frozen=True, slots=True)
class Edge:
    """Something that an earlier call wrote and that mattered to a later one, or to the answer.

    Attributes:
        source: Place of the earlier call. role: See the module.
        name: The reader's name of the input (value), or the state field that the guard looked at (choice).
        value: What the field held.
        known: Of a choice, the texts that the guards look for.
        exact: Of a choice, whether the field has to be one of them, with nothing around it.
    """

    source: int
    role: Literal["value", "choice"]
    name: str
    value: str
    known: tuple[str, ...] = ()
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One run of one node.

    Attributes:
        place: Position in the trace, from 0. node: Its id. visit: Earlier runs of the node.
        runs: The module, tool or builtin. is_module: Whether it is a module.
        inputs: Name and text of what it read. output: What it wrote, as text.
        unread: Outputs of a module that could not be read from the model's answer, or were empty.
        cut: Whether the answer was as long as the module may write (it probably goes on).
        edges: Where its inputs come from, and what made it run; by place of the source.
    """

    place: int
    node: str
    visit: int
    runs: str
    is_module: bool
    inputs: tuple[tuple[str, str], ...]
    output: str
    unread: tuple[str, ...] = ()
    cut: bool = False
    edges: tuple[Edge, ...] = ()

    @property
    def label(self) -> str:
        """Its name in prompts and reports, equal in every run: the node, and which visit of it."""
        return f"{self.node} ({self.runs}{f', visit {self.visit + 1}' if self.visit else ''})"


@dataclass(frozen=True, slots=True)
class CallGraph:
    """All calls of one execution.

    Attributes:
        calls: In the order of the trace, which is topological. answer: The answer, "" when there is none.
        ends: What the answer depended on; when there is none, the calls that the run ended with.
    """

    calls: tuple[Call, ...]
    answer: str
    ends: tuple[Edge, ...]

    def leading(self) -> tuple[Call, ...]:
        """The calls that lead to the answer, in order; the rest played no part in it."""
        return self._closure(self.ends)

    def upstream(self, place: int) -> tuple[Call, ...]:
        """The calls that a call depends on, in order, itself left out."""
        return self._closure(self.calls[place].edges)

    def _closure(self, edges: Sequence[Edge]) -> tuple[Call, ...]:
        found: set[int] = set()
        waiting = [edge.source for edge in edges]
        while waiting:
            place = waiting.pop()
            if place not in found:
                found.add(place)
                waiting.extend(edge.source for edge in self.calls[place].edges)
        return tuple(self.calls[place] for place in sorted(found))


def call_graph(execution: Execution, program: ProgramHarness, question: str) -> CallGraph:
    """Read an execution of any program with this wiring and these signatures; `question` is the question's text."""
    return _Replay(execution, program, question).graph()


@dataclass
class _Replay:
    """One run, walked through again."""

    execution: Execution
    program: ProgramHarness
    question: str
    calls: list[Call] = field(default_factory=list)
    writers: dict[str, tuple[int, ...]] = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=dict)
    choices: dict[int, dict[Edge, int]] = field(default_factory=dict)
    """For each node that is about to run: the choices that it depends on, and the node that made each."""
    ruling: dict[int, dict[Edge, int]] = field(default_factory=dict)
    """The same for the last run of each node that ran."""
    last: dict[Edge, int] = field(default_factory=dict)
    """The choices that ended the run."""

    def __post_init__(self) -> None:
        self.memory = Memory(self.program.graph.states, self.question)
        self.traces = iter(wired_traces(self.execution, self.program))

    def graph(self) -> CallGraph:
        graph, steps = self.program.graph, self.execution.trace
        position = graph.topology.start()
        first = 0
        while position.frontier and len(self.calls) < len(steps):
            first = len(self.calls)
            for place, index in enumerate(position.frontier, start=first):
                self.calls.append(self._call(place, index, steps[place]))
            if not self._write(first, steps):
                break
            taken = [self._choose(index) for index in position.frontier]
            position = graph.topology.advance(position, taken)
        return CallGraph(tuple(self.calls), self.execution.answer, self._ends(first))

    def _call(self, place: int, index: int, step: Step) -> Call:
        node = self.program.graph.nodes[index]
        visit = self.visits.get(node.id, 0)
        self.visits[node.id] = visit + 1
        chosen = self.ruling[index] = self.choices.pop(index, {})
        if step.kind != "llm":
            inputs = tuple((name, show(value)) for name, value in step.inputs.items())
            edges = self._edges(node, [name for name, _ in inputs])
            output = render(step.output)
            return Call(place, node.id, visit, node.name, False, inputs, output, edges=_ordered((*edges, *chosen)))
        module, count = self.program.modules[node.name], int(node.option("n", 1))
        traces: list[ModuleTrace] = [next(self.traces) for _ in range(count)]
        unread = tuple(dict.fromkeys(name for trace in traces for name in trace.unread))
        most = int(node.option("max_tokens", module.max_tokens))
        return Call(
            place,
            node.id,
            visit,
            node.name,
            True,
            tuple(traces[0].inputs.items()),
            "\n".join(written(module, trace.outputs) for trace in traces),
            unread,
            step.usage.completion_tokens >= most * count,
            _ordered((*self._edges(node, module.inputs), *chosen)),
        )

    def _edges(self, node: Node, names: Sequence[str]) -> Iterator[Edge]:
        for name, argument in zip(names, node.args, strict=True):
            if isinstance(argument, Ref):
                value = show(self.memory.values[argument.name])
                for source in self.writers.get(argument.name, ()):
                    yield Edge(source, "value", name, value)

    def _write(self, first: int, steps: Sequence[Step]) -> bool:
        """Apply the writes of a superstep; whether the run went on after them."""
        nodes = {node.id: node for node in self.program.graph.nodes}
        states = self.program.graph.states
        for call in self.calls[first:]:
            try:
                for name, value in written_values(nodes[call.node], steps[call.place].output):
                    self.memory.write(name, value)
                    kept = self.writers.get(name, ()) if states[name].reducer != "overwrite" else ()
                    self.writers[name] = (*kept, call.place)
            except ToolInputError:
                return False
        return True

    def _choose(self, index: int) -> Frontier:
        """The successors of a node that ran; the choices that these depend on are noted."""
        graph = self.program.graph
        branches = graph.nodes[index].branches
        met = next(
            number
            for number, branch in enumerate(branches)
            if branch.guard is None or holds(branch.guard, self.memory.values, self.visits)
        )
        targets = graph.topology.at(branches[met].targets)
        if len(graph.topology.outcomes[index]) > 1:
            guards = [branch.guard for branch in branches[: met + 1] if branch.guard is not None]
            own = dict.fromkeys(self._guard_edges(guards), index)
            for target in targets:
                self.choices.setdefault(target, {}).update(own)
            self.last.update(own if not targets else {})
        for edge, router in self.ruling.get(index, {}).items():
            for target in targets:
                if not self._always_follows(target, router):
                    self.choices.setdefault(target, {}).setdefault(edge, router)
        return targets

    def _guard_edges(self, guards: Sequence[Guard]) -> Iterator[Edge]:
        known: dict[str, dict[str, None]] = {}
        loose: set[str] = set()
        for comparison in (item for guard in guards for item in _comparisons(guard)):
            sides = list(operands(comparison))
            texts = [text for side in sides if side.kind == "const" for text in _texts(side.value)]
            for side in sides:
                if side.kind in ("state", "len"):
                    known.setdefault(side.value, {}).update(dict.fromkeys(texts if side.kind == "state" else ()))
                    within = comparison.op in ("in", "not in") and side is comparison.right
                    loose |= {side.value} if within or comparison.op in ("<", "<=", ">", ">=") else set()
        for name, values in known.items():
            for source in self.writers.get(name, ()):
                value = show(self.memory.values[name])
                yield Edge(source, "choice", name, value, tuple(values), bool(values) and name not in loose)

    def _always_follows(self, node: int, router: int) -> bool:
        """Whether every way from a router to the end passes the node (it post-dominates the router)."""
        outcomes = self.program.graph.topology.outcomes
        seen: set[int] = set()
        waiting = [router]
        while waiting:
            current = waiting.pop()
            if () in outcomes[current]:
                return False
            new = {target for targets in outcomes[current] for target in targets} - seen - {node}
            seen |= new
            waiting.extend(sorted(new))
        return True

    def _ends(self, first: int) -> tuple[Edge, ...]:
        """What the answer depended on, or where the run came to an end without one; `first` is the last superstep."""
        failed = _FAILED_NODE.match(self.execution.error)
        if failed is None and self.execution.outcome in ("ok", "noop"):
            value = show(self.memory.values.get("answer", ""))
            answer = [Edge(source, "value", "answer", value) for source in self.writers.get("answer", ())]
            return _ordered((*answer, *self.last))
        over = [call for call in self.calls[first:] if failed is None or call.node == failed.group(1)]
        return tuple(Edge(call.place, "value", "", call.output) for call in over)


def _ordered(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Each edge once, by place of its source; edges of one source stay in order."""
    return tuple(sorted(dict.fromkeys(edges), key=lambda edge: edge.source))


def _comparisons(guard: Guard) -> Iterator[GuardComparison]:
    if isinstance(guard, GuardComparison):
        yield guard
    elif isinstance(guard, Not):
        yield from _comparisons(guard.item)
    else:
        for item in guard.items:
            yield from _comparisons(item)


def _texts(value: object) -> list[str]:
    return [item for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, str)]
