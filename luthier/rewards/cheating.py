"""Cheat checks: a harness that carries the answer instead of finding it earns nothing.

After MAS-Architect (Huang et al., ICML 2026), whose detector is not published; the three checks are ours:

* literal: the reference stands in an instruction, guard, initial value or constant of the harness, and not in
  the question.
* constant: on the executed path no llm call feeds the answer.
* counterfactual: with a driver that answers every call with meaningless text, the harness still gives the
  reference. It costs no tokens. Two different drivers must agree, so that chance is not taken for a cheat.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence

from luthier.execution import Execution, Limits
from luthier.executor import RunResult, executor_for
from luthier.harness import Harness
from luthier.harnesses.document import Const
from luthier.harnesses.graph import GraphHarness
from luthier.harnesses.guards import guard_text
from luthier.question import Question
from luthier.target import Completion, Request, Usage
from luthier.task import Score

Scorer = Callable[[Question, str], Score]


def find_cheat(harness: Harness, question: Question, execution: Execution, scorer: Scorer, limits: Limits) -> str:
    """Name of the cheat by which a correct execution was correct, "" when it is honest.

    Executions that are not correct need no check; they earn nothing to defend.
    """
    if execution.outcome != "ok" or execution.score != 1.0:
        return ""
    if _carries_reference(harness, question):
        return "literal"
    if not _llm_feeds_answer(harness, execution):
        return "constant"
    if all(_stays_correct(harness, question, scorer, limits, salt) for salt in ("first", "second")):
        return "counterfactual"
    return ""


def _carries_reference(harness: Harness, question: Question) -> bool:
    reference = _normalise(question.reference)
    if not reference or _contains(_normalise(question.text), reference):
        return False
    return any(_contains(_normalise(text), reference) for text in _own_texts(harness))


def _own_texts(harness: Harness) -> Iterator[str]:
    """Every text in which a harness could hide an answer."""
    if not isinstance(harness, GraphHarness):
        yield harness.text
        return
    for state in harness.document.states.values():
        yield str(state.initial) if state.initial is not None else ""
    for node in harness.nodes:
        yield from (str(arg.value) for arg in node.args if isinstance(arg, Const))
        yield from (guard_text(branch.guard) for branch in node.branches if branch.guard is not None)
    for implementation in harness.document.impls.values():
        yield from (implementation.role, implementation.ask, *implementation.choices)
        for shot in implementation.shots:
            yield from (shot.out, *(value for _, value in shot.values))


def _normalise(text: str) -> str:
    return " ".join(re.sub(r"[^\w.\-]+", " ", text.casefold()).split())


def _contains(text: str, part: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(part)}(?![\w.])", text) is not None


def _llm_feeds_answer(harness: Harness, execution: Execution) -> bool:
    """Walk the trace with the set of state fields that hold something from the model."""
    if not isinstance(harness, GraphHarness):
        return execution.usage.calls > 0
    nodes = {node.id: node for node in harness.nodes}
    fed: set[str] = set()
    for step in execution.trace:
        node = nodes[step.node]
        if step.kind == "llm" or fed & set(node.reads):
            fed.update(node.writes)
    return "answer" in fed


def _stays_correct(harness: Harness, question: Question, scorer: Scorer, limits: Limits, salt: str) -> bool:
    result = run_with(harness, question, limits, lambda request: _meaningless(request, salt))
    return result.outcome == "ok" and scorer(question, result.answer).value == 1.0


def _meaningless(request: Request, salt: str) -> str:
    """Letters and digits that depend on the request alone."""
    if request.choices:
        index = int(hashlib.sha256(f"{salt}{request.prompt}".encode()).hexdigest()[:8], 16)
        return request.choices[index % len(request.choices)]
    return "zq" + hashlib.sha256(f"{salt}{request.prompt}".encode()).hexdigest()[:10]


def run_with(harness: Harness, question: Question, limits: Limits, answer: Callable[[Request], str]) -> RunResult:
    """Run a harness with a stub driver: no target, no tokens."""
    run = executor_for(harness.kind).start(harness, question, limits, 0)
    try:
        requests: Sequence[Request] = next(run)
        while True:
            replies = [Completion(answer(request), "stop", Usage(calls=1)) for request in requests]
            requests = run.send(replies)
    except StopIteration as end:
        result: RunResult = end.value
        return result
