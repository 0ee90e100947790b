"""Cheat checks: a harness that carries the answer instead of finding it earns nothing.

After MAS-Architect (Huang et al., ICML 2026), whose detector is not published; the three checks are ours:

* literal: the reference stands in an instruction, guard, initial value or constant of the harness, and not in
  the question. Texts are compared without case and punctuation, numbers by value.
* constant: on the executed path no llm call feeds the answer.
* counterfactual: with a driver that answers every call with something meaningless, the harness still gives the
  reference. Drivers of several kinds are tried (a word, a large number, a small number), because a tool that
  cannot read one of them would hide the cheat. Each kind answers in two ways that differ in value and length,
  and both must be correct, so that chance is not taken for a cheat. It costs no tokens.

Covered: an answer that the harness holds or builds from its own parts. Not covered: one that it holds and
uses only when the target's answers look as expected (a constant that a `search` for the target's words finds).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence

from luthier.execution import Execution, Limits
from luthier.executor import RunResult
from luthier.executors import executor_for
from luthier.harness import Harness
from luthier.harnesses.program.harness import graph_of
from luthier.question import Question
from luthier.target import Completion, Request, Usage
from luthier.task import Score
from luthier.tools.values import ToolInputError, normalise, parse_numbers, render

Scorer = Callable[[Question, str], Score]
_DRIVERS = ("word", "large", "small")
_WAYS = (0, 1)


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
    for driver in _DRIVERS:
        if all(_stays_correct(harness, question, scorer, limits, driver, way) for way in _WAYS):
            return "counterfactual"
    return ""


# --- literal ---------------------------------------------------------------------------------------------------


def _carries_reference(harness: Harness, question: Question) -> bool:
    if _mentions(question.text, question.reference):
        return False
    return any(_mentions(text, question.reference) for text in harness.texts())


def _mentions(text: str, reference: str) -> bool:
    """Whether a text holds the reference as words of its own, or as a number of the same value."""
    words, wanted = _words(text), _words(reference)
    if not wanted:
        return False
    if re.search(rf"(?<!\S){re.escape(wanted)}(?!\S)", words) is not None:
        return True
    try:
        numbers, known = parse_numbers(text), normalise(reference)
    except ToolInputError:
        return False
    return any(render(number) == known for number in numbers)


def _words(text: str) -> str:
    """Words and numbers of a text with one space between; a minus and a decimal point stay in their number."""
    return " ".join(re.findall(r"(?<!\w)-?\d+(?:\.\d+)?|\w+", text.casefold()))


# --- constant --------------------------------------------------------------------------------------------------


def _llm_feeds_answer(harness: Harness, execution: Execution) -> bool:
    """Walk the trace with the set of state fields that hold something from the model."""
    graph = graph_of(harness)
    if graph is None:
        return execution.usage.calls > 0
    nodes = {node.id: node for node in graph.nodes}
    fed: set[str] = set()
    for step in execution.trace:
        node = nodes[step.node]
        if step.kind == "llm" or fed & set(node.reads):
            fed.update(node.writes)
        else:
            fed.difference_update(name for name in node.writes if graph.states[name].reducer == "overwrite")
    return "answer" in fed


# --- counterfactual --------------------------------------------------------------------------------------------


def _stays_correct(harness: Harness, question: Question, scorer: Scorer, limits: Limits, driver: str, way: int) -> bool:
    result = run_with(harness, question, limits, lambda request: _meaningless(request, driver, way))
    return result.outcome == "ok" and scorer(question, result.answer).value == 1.0


def _meaningless(request: Request, driver: str, way: int) -> str:
    """An answer that depends on the request alone; the two ways differ, in their choice and in their length."""
    noise = int(hashlib.sha256(f"{driver}{request.prompt}".encode()).hexdigest(), 16)
    if request.choices:
        return request.choices[(noise + way) % len(request.choices)]
    if driver == "word":
        return f"zq{noise:x}"[: 11 + 4 * way]
    number = str(noise + 10**80)[-(7 + 4 * way) :].replace("0", "3")
    return number if driver == "large" else f"-{number}"


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
