"""Executions for the page's drill-down, as compact JSON: every text once, traces cut to a stated size."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from luthier.evaluation.comparability import family_of
from luthier.evaluation.method_run import BudgetResult, MethodRun
from luthier.evaluation.results import Comparison
from luthier.execution import Step
from luthier.question import Question
from luthier.report.comparison.charts import Colours
from luthier.report.html.charts import OUTCOMES
from luthier.report.html.markup import Html

LONGEST_QUESTION = 1600
"""Characters of a question."""
LONGEST_VALUE = 400
"""Characters of an answer, and of each thing that a step read or wrote."""
LONGEST_HARNESS = 6000
"""Characters of a harness text."""
MOST_STEPS = 24
"""Steps of a trace, from its start."""


def embedded(
    comparison: Comparison, contenders: Sequence[MethodRun], questions: Mapping[str, Question], colours: Colours
) -> Html:
    """JSON for a data block: `<` is written as an escape, so that no text can end the block."""
    texts, traces = _Table(), _Table()
    families = {group.task: family_of(group.standings[0].runs[0]) for group in comparison.groups}
    asked = [(task, question) for task in sorted(families) for question in families[task]]
    places = {key: place for place, key in enumerate(asked)}
    runs, rows = [], []
    for index, run in enumerate(sorted(contenders, key=lambda item: (item.task, item.method, item.name))):
        runs.append(_run(run))
        rows += [[index, places[run.task, t.question], *_row(t, texts, traces)] for t in run.trials]
    labels = {s.method: (s.label, s.kind) for group in comparison.groups for s in group.standings}
    document = {
        "methods": [[method, *labels[method], colours[method]] for method in colours],
        "outcomes": OUTCOMES,
        "questions": [_question(task, families[task][one], one, questions.get(one)) for task, one in asked],
        "runs": runs,
        "rows": rows,
        "texts": texts.items,
        "traces": [json.loads(item) for item in traces.items],
    }
    return Html(json.dumps(document, separators=(",", ":")).replace("<", "\\u003c"))


def _question(task: str, family: str, identity: str, known: Question | None) -> list[str]:
    text, reference = (known.text, known.reference) if known else (f"question {identity}", "")
    return [identity, task, family, _cut(text, LONGEST_QUESTION), _cut(reference, LONGEST_VALUE)]


def _run(run: MethodRun) -> list[Any]:
    budget = run.budget.name if run.budget and run.kind != "fixed" else ""
    return [run.method, run.task, budget, run.target, run.target == run.home, run.seed]


def _row(trial: BudgetResult, texts: _Table, traces: _Table) -> list[Any]:
    execution = trial.execution
    steps = [_step(step, texts) for step in execution.trace[:MOST_STEPS]]
    left_out = max(0, len(execution.trace) - MOST_STEPS)
    return [
        round(execution.score or 0.0, 4),
        OUTCOMES.index(execution.outcome),
        int(trial.held_out),
        texts.add(_cut(trial.harness, LONGEST_HARNESS)),
        texts.add(_cut(execution.answer, LONGEST_VALUE)),
        texts.add(_cut(execution.error or execution.feedback, LONGEST_VALUE)),
        traces.add(json.dumps([steps, left_out])),
        trial.generator.prompt_tokens + trial.generator.completion_tokens,
        execution.usage.prompt_tokens + execution.usage.completion_tokens,
        execution.usage.calls,
    ]


def _step(step: Step, texts: _Table) -> list[Any]:
    inputs = [[name, texts.add(_cut(_plain(value), LONGEST_VALUE))] for name, value in step.inputs.items()]
    tokens = step.usage.prompt_tokens + step.usage.completion_tokens
    return [step.node, step.kind, inputs, texts.add(_cut(_plain(step.output), LONGEST_VALUE)), tokens]


@dataclass
class _Table:
    """Texts in order of first use; the same text has the same number."""

    items: list[str] = field(default_factory=list)
    _known: dict[str, int] = field(default_factory=dict)

    def add(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = len(self.items)
            self.items.append(text)
        return self._known[text]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text) - longest:,} more characters)"
