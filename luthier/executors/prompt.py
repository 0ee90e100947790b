"""`PromptExecutor`: fills the template, makes one call, answers with its text."""

from __future__ import annotations

from luthier.errors import InputError
from luthier.execution import Limits, Step
from luthier.executor import Run, RunResult
from luthier.executors.llm_calls import build_requests, read_answer
from luthier.harness import Harness
from luthier.harnesses.graph.implementation import Implementation
from luthier.harnesses.prompt import PromptHarness
from luthier.question import Question


class PromptExecutor:
    """Runs prompts: one call, never more."""

    kind = "prompt"
    version = "prompt-1"

    def start(self, harness: Harness, question: Question, limits: Limits, seed: int) -> Run:
        """Begin a run. Equal arguments give equal requests; of the question only its text is read.

        Raises:
            InputError: the harness is no prompt.
        """
        if not isinstance(harness, PromptHarness):
            raise InputError(f"a {harness.kind} harness is no prompt", fix="use luthier.executor.executor_for(kind)")
        return _run(harness.implementation, question.text, limits, seed)


def _run(implementation: Implementation, text: str, limits: Limits, seed: int) -> Run:
    if limits.steps < 1 or limits.calls < 1 or limits.visits < 1:
        return RunResult("incomplete", error="limit reached: a prompt needs one step and one call")
    requests = build_requests(
        implementation,
        [text],
        samples=1,
        temperature=implementation.temperature,
        max_tokens=implementation.max_tokens,
        seed=seed,
        visit=0,
    )
    (completion,) = yield requests
    answer = str(read_answer(implementation, completion.text))
    trace = (Step("prompt", "llm", {"question": text}, answer, completion.usage),)
    if completion.usage.prompt_tokens + completion.usage.completion_tokens > limits.tokens:
        return RunResult("incomplete", error=f"limit reached: {limits.tokens} tokens", trace=trace)
    if not answer:
        return RunResult("noop", error="the answer is empty", trace=trace)
    return RunResult("ok", answer, trace=trace)
