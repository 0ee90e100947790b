"""Who gets the credit for a run's score: evidence for each component, out of traces or out of the whole run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from luthier.execution import Execution, Step
from luthier.question import Question
from luthier.search.contracts import Evaluation, Evidence, Feedback

Steps = Callable[[str, Execution], Sequence[Step]]
"""Component and execution -> the component's own steps, in order."""


def named_steps(component: str, row: Execution) -> Sequence[Step]:
    """The steps whose node bears the component's name."""
    return [step for step in row.trace if step.node == component]


@dataclass(frozen=True, slots=True)
class OutcomeCredit:
    """The outcome of the whole run goes to every component alike (the DSPy family, GEPA without module feedback).

    With feedback "trace" a component is shown its own steps; otherwise always the question and the final answer.

    Attributes:
        steps: Finds a component's steps, for programs `luthier.search.programs.ProgramBinding.steps`; a run in
            which a component took no part is then no evidence for it. None: the steps that bear its name, and
            the question and final answer where there are none.
    """

    steps: Steps | None = field(default=None, repr=False)

    def assign(
        self, component: str, evaluation: Evaluation, questions: Sequence[Question], feedback: Feedback
    ) -> list[Evidence]:
        """See `luthier.search.contracts.Credit`."""
        return [
            item
            for row, question in zip(evaluation.executions, questions, strict=True)
            for item in self._evidence(component, row, question, feedback)
        ]

    def _evidence(self, component: str, row: Execution, question: Question, feedback: Feedback) -> list[Evidence]:
        score = row.score or 0.0
        said = "" if feedback == "score" else remark(row)
        steps = (self.steps or named_steps)(component, row) if feedback == "trace" else []
        if not steps and not (feedback == "trace" and self.steps):
            return [Evidence(question.id, (("question", question.text),), row.answer, score, said)]
        return [
            Evidence(question.id, readable_inputs(step.inputs), readable(step.output), score, said) for step in steps
        ]


def readable(value: object) -> str:
    """A step's value as text, equal whether it was just computed or read from the store."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def readable_inputs(inputs: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """A step's inputs as name and text, in their own order."""
    return tuple((name, readable(value)) for name, value in inputs.items())


def remark(row: Execution) -> str:
    """The task's sentence, or why there was nothing to score."""
    return row.feedback or (f"{row.outcome}: {row.error}" if row.outcome != "ok" else "")
