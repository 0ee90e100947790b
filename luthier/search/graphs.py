"""`GraphBinding`: a graph as a candidate. The role prompts of its impl blocks are the components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from luthier.errors import HarnessError, InputError
from luthier.execution import Execution, Step
from luthier.executors.llm_calls import show
from luthier.harnesses.graph.document import Const
from luthier.harnesses.graph.harness import GraphHarness
from luthier.search.candidate import Candidate
from luthier.search.contracts import Evidence


@dataclass(frozen=True)
class GraphBinding:
    """Between a graph and the candidates of a search; nodes, edges and questions to the model never change.

    Attributes:
        harness: Where the search starts. It has at least one impl block: presets are everybody's and stay.
    """

    harness: GraphHarness

    def candidate(self) -> Candidate:
        """The graph as it stands: the role prompt of each impl block, "" where it has none.

        Raises:
            InputError: it has no impl block.
        """
        if not self.harness.document.impls:
            raise InputError("the graph has no impl block", where="search", fix="write one with a role to be edited")
        return Candidate.make({name: block.role for name, block in self.harness.document.impls.items()})

    def build(self, candidate: Candidate) -> GraphHarness:
        """The graph with a candidate's role prompts.

        Raises:
            HarnessError: a role breaks a rule of the graph's text, or there are demonstrations.
        """
        if candidate.demonstrations:
            raise HarnessError(
                "a graph's roles take no demonstrations",
                rule="bad-demo",
                field=candidate.demonstrations[0][0],
                fix="search with `scope: { demonstrations: false }`",
            )
        document = self.harness.document
        impls = {name: replace(block, role=candidate.text(name)) for name, block in document.impls.items()}
        # Parsed again, so that a text which the language cannot hold is refused here and not when it is read back.
        return GraphHarness.parse(GraphHarness.of(replace(document, impls=impls)).text)

    def steps(self, component: str, execution: Execution) -> Sequence[Step]:
        """The calls of the nodes that use an impl block, one for each sample: inputs by its field names."""
        reads = self.harness.document.impls[component].reads
        nodes = {node.id: node for node in self.harness.nodes if node.name == component}
        found: list[Step] = []
        for step in execution.trace:
            node = nodes.get(step.node)
            if node is None or step.kind != "llm":
                continue
            values = [arg.value if isinstance(arg, Const) else step.inputs[arg.name] for arg in node.args]
            inputs = {name: show(value) for name, value in zip(reads, values, strict=True)}
            samples = step.output if node.option("n", 1) > 1 else [step.output]
            found += [Step(component, "llm", inputs, show(output)) for output in samples]
        return found

    def worked_case(self, component: str, evidence: Evidence) -> str:
        """The call as a line for each input and one for what was written; "" when the evidence is of no such call."""
        if {name for name, _ in evidence.inputs} != set(self.harness.document.impls[component].reads):
            return ""
        return "\n".join([*(f"{name}: {text}" for name, text in evidence.inputs), f"Written: {evidence.output}"])
