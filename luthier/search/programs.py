"""`ProgramBinding`: a program as a candidate. Modules are the components; wiring and signatures never change.

What a search edits is a `Candidate` (an instruction and demonstrations for each module); what runs is a
`ProgramHarness`. The binding goes both ways and reads each module's calls out of a trace, under the module's name
and field names (a trace itself speaks of nodes and state fields).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from luthier.errors import HarnessError
from luthier.execution import Execution, Step
from luthier.executors.program import wired_traces
from luthier.harnesses.program.harness import ProgramHarness
from luthier.harnesses.program.module import Demo, Module, worked_case
from luthier.search.candidate import Candidate, Demonstration
from luthier.search.contracts import Evidence


@dataclass(frozen=True)
class ProgramBinding:
    """Between a program and the candidates of a search.

    Attributes:
        program: Where the search starts.
    """

    program: ProgramHarness

    @property
    def harness(self) -> ProgramHarness:
        """The program."""
        return self.program

    def candidate(self) -> Candidate:
        """The program as it stands: instruction and demonstrations by module name."""
        modules = self.program.modules
        shots = {name: [_demonstration(module, demo) for demo in module.demos] for name, module in modules.items()}
        return Candidate.make({name: module.instruction for name, module in modules.items()}, shots)

    def build(self, candidate: Candidate) -> ProgramHarness:
        """The program with a candidate's instructions and demonstrations.

        Raises:
            HarnessError: they do not fit the program (too long, a demonstration that lacks a field).
        """
        modules = [
            replace(
                module,
                instruction=candidate.text(name),
                demos=tuple(_demo(module, item) for item in candidate.shots(name)),
            )
            for name, module in self.program.modules.items()
        ]
        return ProgramHarness.of(modules, self.program.wiring)

    def steps(self, component: str, execution: Execution) -> Sequence[Step]:
        """A module's calls in an execution of any candidate: inputs by field name, output as demonstrations have it."""
        return [
            Step(trace.module, "llm", dict(trace.inputs), written(self.program.modules[component], trace.outputs))
            for trace in wired_traces(execution, self.program)
            if trace.module == component
        ]

    def worked_case(self, component: str, evidence: Evidence) -> str:
        """A module's call as a paragraph, for instructions that hold cases; "" when the evidence is of no such call."""
        module = self.program.modules[component]
        if {name for name, _ in evidence.inputs} != set(module.inputs):
            return ""
        shot = Demonstration(evidence.question, evidence.inputs, evidence.output, "bootstrapped")
        try:
            return worked_case(module, _demo(module, shot))
        except HarnessError:
            return ""


def written(module: Module, outputs: Mapping[str, str]) -> str:
    """A module's outputs as one text: the text of the only one, else a JSON object by field name."""
    if len(module.outputs) == 1:
        return outputs[module.outputs[0]]
    return json.dumps({name: outputs[name] for name in module.outputs}, ensure_ascii=False)


def _demonstration(module: Module, demo: Demo) -> Demonstration:
    return Demonstration("", tuple((name, demo[name]) for name in module.inputs), written(module, demo), "labelled")


def _demo(module: Module, item: Demonstration) -> Demo:
    """The fields of a demonstration."""
    fields = dict(item.inputs)
    if len(module.outputs) == 1:
        return {**fields, module.outputs[0]: item.output}
    try:
        outputs = json.loads(item.output)
        return {**fields, **{name: outputs[name] for name in module.outputs}}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise HarnessError(
            f"the demonstration's output {item.output[:60]!r} does not hold {', '.join(module.outputs)}",
            rule="bad-demo",
            field=f"module {module.name}, demos",
            fix="write a JSON object with these fields",
        ) from error
