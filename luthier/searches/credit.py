"""Who gets the credit for a run's score: evidence for each component, out of traces or out of the whole run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from luthier.execution import Execution
from luthier.question import Question
from luthier.search import Evaluation, Evidence, Feedback


@dataclass(frozen=True, slots=True)
class OutcomeCredit:
    """The outcome of the whole run goes to every component alike (the DSPy family, GEPA without module feedback).

    With feedback "trace" a component is shown the steps that bear its name, and the question and final answer
    when there are none; otherwise always the latter two.
    """

    def assign(
        self, component: str, evaluation: Evaluation, questions: Sequence[Question], feedback: Feedback
    ) -> list[Evidence]:
        """See `luthier.search.Credit`."""
        return [
            item
            for row, question in zip(evaluation.executions, questions, strict=True)
            for item in _evidence(component, row, question, feedback)
        ]


def readable(value: object) -> str:
    """A step's value as text, equal whether it was just computed or read from the store."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def readable_inputs(inputs: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """A step's inputs as name and text, in their own order."""
    return tuple((name, readable(value)) for name, value in inputs.items())


def _evidence(component: str, row: Execution, question: Question, feedback: Feedback) -> list[Evidence]:
    score = row.score or 0.0
    said = "" if feedback == "score" else _said(row)
    steps = [step for step in row.trace if step.node == component] if feedback == "trace" else []
    if not steps:
        return [Evidence(question.id, (("question", question.text),), row.answer, score, said)]
    return [Evidence(question.id, readable_inputs(step.inputs), readable(step.output), score, said) for step in steps]


def _said(row: Execution) -> str:
    """The task's sentence, or why there was nothing to score."""
    return row.feedback or (f"{row.outcome}: {row.error}" if row.outcome != "ok" else "")
