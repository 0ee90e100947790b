"""`GraphExecutor`: runs a graph in supersteps. All calls of one superstep are one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from luthier.errors import InputError
from luthier.execution import Limits, Outcome, Step
from luthier.executor import Run, RunResult
from luthier.executors.llm_calls import build_requests, read_answer
from luthier.executors.memory import Memory
from luthier.harness import Harness
from luthier.harnesses.graph.bounds import calls_bound, llm_calls_min
from luthier.harnesses.graph.document import Const, Node
from luthier.harnesses.graph.guards import holds
from luthier.harnesses.graph.harness import GraphHarness
from luthier.harnesses.graph.presets import presets_digest
from luthier.harnesses.graph.supersteps import Frontier
from luthier.question import Question
from luthier.target import Completion, Request, Usage
from luthier.tasks.generated.corpora import open_corpus
from luthier.tools.registry import ALL_TOOLS, CORPUS_TOOLS
from luthier.tools.retrieval import Corpus
from luthier.tools.values import ToolInputError, Value, majority, plain, render

__all__ = ["CODE_VERSION", "GraphExecutor", "calls_bound", "llm_calls_min", "tightest"]

CODE_VERSION = "graph-1"
"""Changes whenever this code may run equal graphs differently."""


class GraphExecutor:
    """Runs graphs.

    Nodes of a frontier read the state as it was when the superstep began; their writes are applied in
    document order. A tool that cannot read its input, or a value that does not fit its field, ends the run as
    `noop` with that text; a limit reached ends it as `incomplete`.
    """

    kind = "graph"

    @property
    def version(self) -> str:
        """Changes whenever equal graphs may run differently: code version and digest of the presets."""
        return f"{CODE_VERSION}-{presets_digest()}"

    def start(self, harness: Harness, question: Question, limits: Limits, seed: int) -> Run:
        """Begin a run. Equal arguments give equal requests; of the question only its text and corpus are read.

        A graph with a corpus tool is `invalid` for a question without a corpus, before it costs anything.

        Raises:
            InputError: the harness is no graph, or the question's corpus cannot be opened.
        """
        if not isinstance(harness, GraphHarness):
            raise InputError(f"a {harness.kind} harness is no graph", fix="use luthier.executor.executor_for(kind)")
        corpus = open_corpus(question.corpus) if question.corpus and _searches(harness) else None
        return _GraphRun(harness, question.text, corpus, tightest(limits, harness), seed).run()


def tightest(limits: Limits, graph: GraphHarness) -> Limits:
    """The smaller of the executor's limits and the document's, one by one."""
    stated = graph.limits
    return Limits(
        steps=min(limits.steps, stated.get("steps", limits.steps)),
        visits=min(limits.visits, stated.get("visits", limits.visits)),
        calls=min(limits.calls, stated.get("calls", limits.calls)),
        tokens=min(limits.tokens, stated.get("tokens", limits.tokens)),
    )


@dataclass
class _Work:
    """One node's run in a superstep: its inputs, the requests that it needs, then its output."""

    node: Node
    kind: str
    inputs: tuple[Value, ...]
    requests: list[Request]
    output: Value = None
    usage: Usage = field(default_factory=Usage)


class _GraphRun:
    """One run in progress."""

    def __init__(self, graph: GraphHarness, question: str, corpus: Corpus | None, limits: Limits, seed: int) -> None:
        self._graph, self._corpus, self._limits, self._seed = graph, corpus, limits, seed
        self._memory = Memory(graph.states, question)
        self._visits: dict[str, int] = {}
        self._trace: list[Step] = []
        self._usage = Usage()
        self._requested = 0

    def run(self) -> Run:
        if self._corpus is None and _searches(self._graph):
            return self._end("invalid", error="the graph searches a corpus, and the question has none")
        position = self._graph.topology.start()
        while position.frontier:
            nodes = [self._graph.nodes[index] for index in position.frontier]
            if problem := self._over_limit(nodes):
                return self._end("incomplete", error=problem)
            works = [self._prepare(node) for node in nodes]
            requests = [request for work in works for request in work.requests]
            self._requested += len(requests)
            if self._requested > self._limits.calls:
                return self._end("incomplete", error=f"limit reached: {self._limits.calls} calls")
            completions = (yield requests) if requests else ()
            try:
                self._carry_out(works, completions)
            except ToolInputError as error:
                return self._end("noop", error=str(error))
            if self._usage.prompt_tokens + self._usage.completion_tokens > self._limits.tokens:
                return self._end("incomplete", error=f"limit reached: {self._limits.tokens} tokens")
            position = self._graph.topology.advance(position, [self._choose(index) for index in position.frontier])
        answer = render(self._memory.values["answer"]).strip()
        return self._end("ok", answer) if answer else self._end("noop", error="the answer is empty")

    def _over_limit(self, nodes: Sequence[Node]) -> str:
        if len(self._trace) + len(nodes) > self._limits.steps:
            return f"limit reached: {self._limits.steps} steps"
        for node in nodes:
            if self._visits.get(node.id, 0) >= self._limits.visits:
                return f"limit reached: {self._limits.visits} visits of node {node.id}"
        return ""

    def _prepare(self, node: Node) -> _Work:
        values = self._memory.values
        inputs = tuple(arg.value if isinstance(arg, Const) else values[arg.name] for arg in node.args)
        work = _Work(node, self._graph.kind_of(node), inputs, [])
        if work.kind == "llm":
            implementation = self._graph.implementations[node.name]
            work.requests = build_requests(
                implementation,
                inputs,
                samples=int(node.option("n", 1)),
                temperature=float(node.option("temperature", implementation.temperature)),
                max_tokens=int(node.option("max_tokens", implementation.max_tokens)),
                seed=self._seed,
                visit=self._visits.get(node.id, 0),
            )
        self._visits[node.id] = self._visits.get(node.id, 0) + 1
        return work

    def _carry_out(self, works: Sequence[_Work], completions: Sequence[Completion]) -> None:
        """Turn completions and tools into outputs, then write them in document order; every step is traced."""
        remaining = iter(completions)
        for work in works:
            answers = [next(remaining) for _ in work.requests]
            work.usage = sum((answer.usage for answer in answers), Usage())
            self._usage += work.usage
            if answers:
                implementation = self._graph.implementations[work.node.name]
                values = [read_answer(implementation, answer.text) for answer in answers]
                work.output = values if len(values) > 1 else values[0]
        failure: ToolInputError | None = None
        for work in works:
            try:
                if work.kind != "llm":
                    work.output = plain(_compute(work, self._corpus))
                self._write(work)
            except ToolInputError as error:
                failure = failure or ToolInputError(f"node {work.node.id}: {error}")
            self._trace.append(_step(work))
        if failure is not None:
            raise failure

    def _write(self, work: _Work) -> None:
        for name, value in written_values(work.node, work.output):
            self._memory.write(name, value)

    def _choose(self, index: int) -> Frontier:
        node = self._graph.nodes[index]
        for branch in node.branches:
            if branch.guard is None or holds(branch.guard, self._memory.values, self._visits):
                return self._graph.topology.at(branch.targets)
        raise AssertionError("the last branch of a node has no guard")

    def _end(self, outcome: Outcome, answer: str = "", error: str = "") -> RunResult:
        return RunResult(outcome, answer, error, tuple(self._trace))


def written_values(node: Node, output: Value) -> list[tuple[str, Value]]:
    """What a node writes into which state field, given its output; what is missing is ""."""
    names = node.writes
    if len(names) == 1:
        return [(names[0], output)]
    if isinstance(output, dict):
        return [(name, output.get(name, "")) for name in names]
    items = output if isinstance(output, list) else []
    return [(name, items[place] if place < len(items) else "") for place, name in enumerate(names)]


def _searches(graph: GraphHarness) -> bool:
    return any(node.name in CORPUS_TOOLS for node in graph.nodes)


def _compute(work: _Work, corpus: Corpus | None) -> Value:
    if work.kind == "tool":
        tool = ALL_TOOLS[work.node.name]
        return (tool if corpus is None else tool.bind(corpus))(*work.inputs)
    items = [item for value in work.inputs for item in (value if isinstance(value, list) else [value])]
    return majority(items) if work.kind == "vote" else items


def _step(work: _Work) -> Step:
    """The trace of a node's run; inputs are named as in the document, literals by position."""
    names = [
        f"arg{position}" if isinstance(arg, Const) else arg.name for position, arg in enumerate(work.node.args, start=1)
    ]
    return Step(work.node.id, work.kind, dict(zip(names, work.inputs, strict=True)), work.output, work.usage)
