"""`HumanEval`: 164 Python functions with unit tests.

Chen et al. 2021, "Evaluating Large Language Models Trained on Code", arXiv 2107.03374.
"""

from __future__ import annotations

import re
import textwrap
from typing import ClassVar

from luthier.question import Question, Split
from luthier.sandbox import Sandbox, SandboxLimits
from luthier.sandboxes import open_sandbox
from luthier.sandboxes.support.judge import judge_function
from luthier.task import Score
from luthier.tasks.benchmarks.benchmark import Benchmark
from luthier.tasks.benchmarks.sources import Form, SourceRow

_FENCED = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
_INDENT = "    "


def _always_test(name: str) -> Split:
    return "test"


class HumanEval(Benchmark):
    """Function completion, scored by the published unit tests: 1 if all pass, else 0.

    The question's text is the published prompt (imports, helpers, signature, docstring), its reference
    the canonical body. Every row is a `test` row, wherever it comes from: the set has no other split,
    and its authors ask that it stay out of training.

    An answer may be the body alone or a whole function, bare or in a fenced block (the last block that
    defines the function, else the first block). A body that lost its indentation, wholly or on its first
    line, is indented again (ours). Prose around code outside a fence is not removed.

    The tests run behind a fence, apart from the answer: see `luthier.sandboxes.support.judge`. A timeout, an
    early exit, a wrong type and an empty answer score 0. A missing fence is a broken machine, not a
    wrong answer: `score` raises `SandboxError` then, and never for an answer's text.

    Args:
        source: HumanEval.jsonl or .jsonl.gz, a folder that holds it, or the hub id.
        sandbox: Where to run; `open_sandbox()` at the first score when None.
        limits: Bounds of one scoring (10 s and 1 GiB, ours).

    Raises:
        InputError: no source is given.
    """

    name = "humaneval"
    form: ClassVar[Form] = Form(
        "humaneval", suffixes=(".jsonl", ".jsonl.gz", ".parquet"), split_of=_always_test, short_answers=False
    )
    example: ClassVar[str] = "openai/openai_humaneval"

    def __init__(self, source: str, *, sandbox: Sandbox | None = None, limits: SandboxLimits | None = None) -> None:
        super().__init__(source)
        self._sandbox = sandbox
        self._limits = limits or SandboxLimits()

    def content(self, record: SourceRow) -> str:
        """See `Benchmark.content`."""
        return record.text("prompt")

    def question(self, record: SourceRow, split: Split) -> Question:
        """See `Benchmark.question`."""
        return Question.make(
            task=self.name,
            text=record.text("prompt"),
            reference=record.text("canonical_solution"),
            split=split,
            metadata={name: record.text(name) for name in ("task_id", "entry_point", "test")},
        )

    def agree(self, one: Question, other: Question) -> bool:
        """See `Benchmark.agree`: the tests decide what is right."""
        return one.metadata["test"] == other.metadata["test"]

    def sound(self, question: Question) -> bool:
        """See `Benchmark.sound`: proved by `luthier tasks validate`, not at reading, since it takes a sandbox."""
        return True

    def correct(self, question: Question, text: str) -> bool:
        """See `Benchmark.correct`.

        Raises:
            SandboxError: no fence can be built here.
        """
        return self.judged(question, text, text).value == 1.0

    def judged(self, question: Question, answer: str, text: str) -> Score:
        """Run the tests on an answer; the feedback is the last error line.

        Raises:
            SandboxError: no fence can be built here.
        """
        if not text.strip():
            return Score(0.0, "the answer is empty")
        if self._sandbox is None:
            self._sandbox = open_sandbox()
        verdict = judge_function(
            self._sandbox,
            sources=complete_sources(question.text, text, question.metadata["entry_point"]),
            entry_point=question.metadata["entry_point"],
            reference=_joined(question.text, question.reference),
            tests=question.metadata["test"],
            limits=self._limits,
        )
        return Score(1.0, "all tests pass") if verdict.passed else Score(0.0, verdict.problem)


def complete_sources(prompt: str, answer: str, entry_point: str) -> tuple[str, ...]:
    """Readings of an answer as a whole program, the most literal first.

    The prompt always comes first: its helpers and imports are there for a body and for a whole
    function alike, and a whole function simply defines the name again.

    Args:
        prompt: The question's text.
        answer: What the model wrote.
        entry_point: The function's name.
    """
    code = _code_of(answer, entry_point).strip("\n")
    readings = (code, _INDENT + code.lstrip(), textwrap.indent(code, _INDENT))
    return tuple(dict.fromkeys(_joined(prompt, reading) for reading in readings))


def _code_of(answer: str, entry_point: str) -> str:
    blocks = _FENCED.findall(answer)
    if not blocks:
        return answer
    definition = re.compile(rf"^[ \t]*(?:async )?def {re.escape(entry_point)}\b", re.MULTILINE)
    defining = [block for block in blocks if definition.search(block)]
    return textwrap.dedent(defining[-1]) if defining else blocks[0]


def _joined(prompt: str, code: str) -> str:
    return prompt.rstrip("\n") + "\n" + code + "\n"
