"""The report of a step: all that one proposal for all modules needs to know. And the blame that it shows.

Trace's OptoPrime (Cheng et al., NeurIPS 2024; trace-opt 0.1.3.8) shows its optimizer the minimal
executed sub-graph (code, values, feedback) with every trainable parameter and its constraints. The order of the
parts follows it, the words are ours. Ours too: runs with different sentences stand side by side (the library wants
equal ones), names are those of the wiring (the library's come from a counter of the process), a run with a full
score is one line, and `tries` are the last full validations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from luthier.harnesses.graph.document import END, Node
from luthier.harnesses.graph.guards import guard_text
from luthier.harnesses.graph.printer import argument_text
from luthier.harnesses.program.harness import ProgramHarness
from luthier.question import Question
from luthier.search.candidate import Candidate
from luthier.search.contracts import Evaluation, Evidence, Feedback, LogRow, Scope
from luthier.search.critics import cut
from luthier.search.failed_runs import FailedRun, failed_runs, gathered
from luthier.search.fault_rules import blame


@dataclass(frozen=True)
class ReportCredit:
    """Credit by one look at the whole executed sub-graph: the evident faults, else all suspects (ours, offline).

    For the offline proposer. A model reads the report itself and finds out what to blame.

    Attributes:
        program: Any program with the wiring and signatures of the candidates.
    """

    program: ProgramHarness = field(repr=False)

    def assign(
        self, component: str, evaluation: Evaluation, questions: Sequence[Question], feedback: Feedback
    ) -> list[Evidence]:
        """See `luthier.search.contracts.Credit`."""
        runs = failed_runs(self.program, evaluation, questions, feedback)
        said = [blame(run.graph, run.loss) for run in runs]
        return gathered(runs, said, [component], feedback).get(component, [])


@dataclass(frozen=True, slots=True)
class Try:
    """A candidate that was validated before: its texts by component, and its mean score."""

    texts: Mapping[str, str]
    score: float


def tries_of(rows: Sequence[LogRow], most: int) -> list[Try]:
    """The last `most` full validations of a log, oldest first; of validation questions only scores are known."""
    texts: dict[str, Mapping[str, str]] = {}
    found: list[Try] = []
    for row in rows:
        if "candidate" in row.detail:
            texts[row.candidate] = row.detail["candidate"]["texts"]
        if row.event == "evaluate" and row.detail["full"] and row.candidate in texts:
            scores = row.detail["scores"]
            found.append(Try(texts[row.candidate], sum(scores) / len(scores)))
    return found[-most:] if most else []


@dataclass(frozen=True)
class Reporter:
    """Writes reports.

    Attributes:
        program: Any program with the wiring and signatures of the candidates.
        max_characters: Each value is cut here, so that a report cannot grow without bound (ours).
    """

    program: ProgramHarness = field(repr=False)
    max_characters: int = 1500

    def report(
        self,
        candidate: Candidate,
        evaluation: Evaluation,
        questions: Sequence[Question],
        scope: Scope,
        tries: Sequence[Try] = (),
    ) -> str:
        """Parameters, code, runs and earlier tries; no more of the runs than the scope's feedback allows."""
        runs = failed_runs(self.program, evaluation, questions, scope.feedback)
        parts = ["# Parameters", *(self._parameter(candidate, name, scope) for name in scope.components)]
        parts += ["# Code that ran", self._code(runs), "# Runs"]
        parts += [self._run(number, run, scope.feedback) for number, run in enumerate(runs, start=1)]
        right = len(evaluation.executions) - len(runs)
        parts += [f"{right} other runs had the full score."] if right else []
        if tries:
            parts += ["# Earlier tries, oldest first", *(self._try(item, scope.components) for item in tries)]
        return "\n\n".join(parts)

    def _parameter(self, candidate: Candidate, name: str, scope: Scope) -> str:
        module = self.program.modules[name]
        return (
            f"{name}: instruction of a call that reads {', '.join(module.inputs)} and writes"
            f" {', '.join(module.outputs)}; at most {scope.max_characters} characters\n```\n{candidate.text(name)}\n```"
        )

    def _code(self, runs: Sequence[FailedRun]) -> str:
        """The nodes that led to the answers of these runs, in the wiring's order."""
        ran = {call.node for run in runs for call in run.graph.leading()}
        lines = [line for node in self.program.graph.nodes if node.id in ran for line in _node_lines(node)]
        return "\n".join(lines) or "(nothing ran)"

    def _run(self, number: int, run: FailedRun, feedback: Feedback) -> str:
        lines = [f"Run {number}, score {run.row.score or 0.0:g} of 1", f"  question: {self._cut(run.question.text)}"]
        if feedback == "trace":
            for call in run.graph.leading():
                inputs = "; ".join(f"{name} = {self._cut(value)}" for name, value in call.inputs)
                lines.append(f"  {call.label} read {inputs or 'nothing'}")
                lines.append(f"    and wrote {self._cut(call.output) or '(nothing)'}")
        lines.append(f"  answer: {self._cut(run.row.answer) or '(none)'}")
        return "\n".join(lines if feedback == "score" else [*lines, f"  feedback: {self._cut(run.loss)}"])

    def _try(self, item: Try, components: Sequence[str]) -> str:
        lines = [f"Score {item.score:.3f} on other questions, with"]
        lines += [f"  {name}: {self._cut(item.texts[name]) or '(empty)'}" for name in components]
        return "\n".join(lines)

    def _cut(self, text: str) -> str:
        return cut(text, self.max_characters)


def _node_lines(node: Node) -> list[str]:
    """A node as code, always with its name, and the ways that it may go where it chooses."""
    lines = [f"{node.id}: {', '.join(node.writes)} = {node.name}({', '.join(map(argument_text, node.args))})"]
    if len(node.branches) > 1:
        for branch in node.branches:
            condition = "else" if branch.guard is None else f"if {guard_text(branch.guard)}"
            lines.append(f"  {condition} -> {', '.join(branch.targets) or END}")
    return lines
