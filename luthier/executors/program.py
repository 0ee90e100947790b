"""`ProgramExecutor`: runs programs as the graphs that they compile to. `module_traces`: what each module did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from luthier.errors import InputError
from luthier.execution import Execution, Limits, Step
from luthier.executor import Run
from luthier.executors.graph import CODE_VERSION, GraphExecutor
from luthier.executors.llm_calls import show
from luthier.harness import Harness
from luthier.harnesses.graph.document import Const, Node
from luthier.harnesses.program.harness import ProgramHarness
from luthier.question import Question
from luthier.target import Usage


class ProgramExecutor:
    """Runs programs: supersteps, limits and outcomes are those of `luthier.executors.graph`.

    An output that cannot be read is "" and the run goes on; `ModuleTrace.unread` counts it.
    """

    kind = "program"

    @property
    def version(self) -> str:
        """Changes whenever equal programs may run differently. Presets play no part."""
        return f"program-1-{CODE_VERSION}"

    def start(self, harness: Harness, question: Question, limits: Limits, seed: int) -> Run:
        """Begin a run. Equal arguments give equal requests.

        Raises:
            InputError: the harness is no program, or as `GraphExecutor.start`.
        """
        if not isinstance(harness, ProgramHarness):
            raise InputError(f"a {harness.kind} harness is no program", fix="use luthier.executor.executor_for(kind)")
        return GraphExecutor().start(harness.graph, question, limits, seed)


@dataclass(frozen=True, slots=True)
class ModuleTrace:
    """One call of one module.

    Attributes:
        module: Its name. node: The node that ran it. visit: Earlier runs of that node. sample: Index within the node.
        inputs: As the target read them. outputs: As they were read from its answer; "" where it could not be read.
        usage: Of the node's run, all its samples together.
    """

    module: str
    node: str
    visit: int
    sample: int
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    usage: Usage

    @property
    def unread(self) -> tuple[str, ...]:
        """Outputs that could not be read from the answer, or were empty."""
        return tuple(name for name, text in self.outputs.items() if not text)

    @property
    def demo(self) -> dict[str, str]:
        """The call as a demonstration. It holds what happened, right or wrong."""
        return {**self.inputs, **self.outputs}


def module_traces(execution: Execution, harness: ProgramHarness) -> list[ModuleTrace]:
    """Every module call of an execution, in the order of the trace; samples of one node one after the other.

    Raises:
        InputError: the execution is of another harness.
    """
    if execution.harness != harness.digest:
        problem = f"the execution ran harness {execution.harness[:12]}, not {harness.digest[:12]}"
        raise InputError(problem, fix="give the program that was executed")
    return wired_traces(execution, harness)


def wired_traces(execution: Execution, harness: ProgramHarness) -> list[ModuleTrace]:
    """As `module_traces`, for an execution of any program with the same wiring and signatures."""
    nodes = {node.id: node for node in harness.graph.nodes}
    visits: dict[str, int] = {}
    traces: list[ModuleTrace] = []
    for step in execution.trace:
        if step.kind == "llm":
            traces.extend(_traces_of(step, nodes[step.node], harness, visits.get(step.node, 0)))
        visits[step.node] = visits.get(step.node, 0) + 1
    return traces


def _traces_of(step: Step, node: Node, harness: ProgramHarness, visit: int) -> list[ModuleTrace]:
    module = harness.modules[node.name]
    values = [arg.value if isinstance(arg, Const) else step.inputs[arg.name] for arg in node.args]
    inputs = {name: show(value) for name, value in zip(module.inputs, values, strict=True)}
    samples = step.output if node.option("n", 1) > 1 else [step.output]
    traces = []
    for sample, output in enumerate(samples):
        texts = output if len(module.outputs) > 1 else [output]
        outputs = dict(zip(module.outputs, texts, strict=True))
        traces.append(ModuleTrace(module.name, node.id, visit, sample, inputs, outputs, step.usage))
    return traces
