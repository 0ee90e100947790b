"""`FailedRun`: a training run below the full score, with its executed graph. What credits over graphs start from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from luthier.execution import Execution
from luthier.harnesses.program.harness import ProgramHarness
from luthier.question import Question
from luthier.search.call_graph import CallGraph, call_graph
from luthier.search.contracts import Evaluation, Evidence, Feedback
from luthier.search.credit import remark


@dataclass(frozen=True, slots=True)
class FailedRun:
    """One run.

    Attributes:
        row: What happened. question: On which question. graph: What ran, and what depended on what.
        loss: What it is criticised for: the task's sentence, or the score where the scope hides that.
    """

    row: Execution
    question: Question
    graph: CallGraph
    loss: str

    def evidence(self, component: str, said: Mapping[int, str], feedback: Feedback) -> list[Evidence]:
        """Evidence for one module out of what was said of its calls, by place; "" is no complaint.

        "trace" shows each of its calls with what was said of that. "text" shows the question, the answer and the
        task's sentence, "score" no sentence: there only the choice of modules follows from what was said.
        """
        score = self.row.score or 0.0
        calls = [call for call in self.graph.calls if call.runs == component and said.get(call.place)]
        if feedback == "trace":
            return [Evidence(self.question.id, call.inputs, call.output, score, said[call.place]) for call in calls]
        sentence = "" if feedback == "score" else self.loss
        whole = Evidence(self.question.id, (("question", self.question.text),), self.row.answer, score, sentence)
        return [whole] if calls else []


def failed_runs(
    program: ProgramHarness, evaluation: Evaluation, questions: Sequence[Question], feedback: Feedback
) -> list[FailedRun]:
    """The runs below a full score, in order; `program` has the wiring and signatures of what ran."""
    return [
        FailedRun(row, question, call_graph(row, program, question.text), _loss(row, feedback))
        for row, question in zip(evaluation.executions, questions, strict=True)
        if (row.score or 0.0) < 1.0
    ]


def gathered(
    runs: Sequence[FailedRun], said: Sequence[Mapping[int, str]], components: Sequence[str], feedback: Feedback
) -> dict[str, list[Evidence]]:
    """Evidence by component over all runs; a component without any is absent."""
    evidence: dict[str, list[Evidence]] = {}
    for name in components:
        for run, own in zip(runs, said, strict=True):
            if items := run.evidence(name, own, feedback):
                evidence.setdefault(name, []).extend(items)
    return evidence


def _loss(row: Execution, feedback: Feedback) -> str:
    said = "" if feedback == "score" else remark(row)
    return said or f"The score is {row.score or 0.0:g} of 1."
