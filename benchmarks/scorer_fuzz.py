"""Mutated answers through every scorer: none may raise, none may take more than 0.1 s.

Answers begin as the reference in the forms that models write, and are mutated: letters whose case changes in any
script, digits of other scripts, lone surrogates, LaTeX, brackets, tags, pieces repeated up to far beyond what an
answer may have. HumanEval's part is what reads the answer; a few of its answers run in the sandbox, too.

    python -m benchmarks.scorer_fuzz            # a few minutes on one core
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.record import record
from luthier.errors import SandboxError
from luthier.question import SPLITS, Question
from luthier.task import Published
from luthier.tasks import TASKS, open_task
from luthier.tasks.benchmarks.humaneval import complete_sources

SLOWEST = 0.1
"""Seconds of processor time that one scoring may take."""
LONG = 400_000
"""Characters of the longest answers."""

OPTIONS = "\n(A) a red cat\n(B) a cat\n(C) 7\n(D) A\n(E) x"
FUNCTION = {
    "task_id": "Own/0",
    "prompt": 'def double(x):\n    """Twice x."""\n',
    "canonical_solution": "    return 2 * x\n",
    "entry_point": "double",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n",
}
ROWS: dict[str, list[dict[str, Any]]] = {
    "gsm8k": [{"question": f"q{n}", "answer": f"#### {n}"} for n in ("18", "1,234", "-0.5")],
    "bbh": [
        {"input": f"Which?{OPTIONS}", "target": "(B)"},
        *({"input": t, "target": t} for t in ("valid", "24", "] ) }", "ant bee cow", "no, yes, unknown")),
    ],
    "bbeh": [{"input": f"Which one?{OPTIONS}", "target": "(E)"}, {"input": "?", "target": "yes, unknown"}],
    "mmlu": [{"question": "q", "choices": ["w", "a red cat", "7", "Both A and B"], "answer": n} for n in (0, 3)][:1],
    "hotpotqa": [{"question": t, "answer": t} for t in ("The New York Times", "yes", "The The")],
    "math": [
        {"problem": t, "answer": t}
        for t in (
            r"\frac{1}{2}",
            "(1,2)",
            "x=5",
            r"10\text{ cm}",
            r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
            r"\{1,2\}",
            r"\text{Monday}",
            "[0,1)",
        )
    ],
    "sst2": [{"sentence": "fine", "label": 1}, {"sentence": "dull", "label": 0}],
    "humaneval": [FUNCTION],
}
SHAPES = (
    "{}",
    "The answer is {}.",
    "so it is.\n#### {}",
    r"hence \boxed{{{}}}",
    "<think>hm</think>{}",
    "${}$",
    "({})",
    "{} dollars",
    r"{}\,\text{{cm}}",
    "the answer is {}. I hope it is correct.\n\nQuestion: next?",
    "Queue: {}\nExplanation: because",
    "```python\n{}\n```",
)
PIECES = (
    *"()[]{}$\\,.;:/=&-+%^_#*'\" \t\n\r\u2028\ufeff\u200b\x00",
    *("\ud800", "\udfff", "\U0001f600", "\u0301", "٣", "²", "Ⅷ", "一", "−", "½", "1" * 50, "e308", "1e9", "nan", "inf"),
    *(
        r"\text{",
        r"\frac",
        r"\boxed{",
        r"\left(",
        r"\\",
        r"\,",
        r"\begin{pmatrix}",
        r"\sqrt",
        "####",
        "</think>",
        "<think>",
    ),
    *(
        "answer is ",
        "Answer: ",
        "\nQuestion:",
        "thousand",
        " dozen",
        " less",
        "(A) ",
        "B.",
        "option ",
        "\n\n",
        "```",
        "def ",
    ),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One question with what scores it."""

    task: str
    question: Question
    score: Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer that raised, or took too long."""

    task: str
    answer: str
    problem: str


def case_changing() -> list[str]:
    """Every character of Unicode that lower, upper or casefold changes."""
    letters = map(chr, range(sys.maxunicode + 1))
    return [c for c in letters if c.lower() != c or c.upper() != c or c.casefold() != c]


def cases(folder: Path) -> list[Case]:
    """Questions of every task; those of published form are written to a folder first."""
    found = []
    for name in TASKS:
        source = folder / f"{name}.jsonl"
        if name in ROWS:
            source.write_text("".join(json.dumps(row) + "\n" for row in ROWS[name]), encoding="utf-8")
        task = open_task(name, str(source) if name in ROWS else "")
        for split in SPLITS:
            for question in task.questions(split, task.size(split) if isinstance(task, Published) else 5, 7):
                score: Callable[[str], object] = partial(task.score, question)
                if name == "humaneval":
                    entry_point = question.metadata["entry_point"]
                    score = partial(_read_code, question.text, entry_point)
                found.append(Case(name, question, score))
    return found


def _read_code(prompt: str, entry_point: str, answer: str) -> object:
    return complete_sources(prompt, answer, entry_point)


def mutants(reference: str, letters: list[str], rng: Random) -> Iterator[str]:
    """Endless answers, each some mutations away from the reference in one of its forms."""
    while True:
        text = rng.choice(SHAPES).format(reference)
        for _ in range(rng.randint(0, 6)):
            text = _mutated(text, letters, rng)
        if rng.random() < 0.01:
            piece = text[: rng.randint(1, 12)] if rng.random() < 0.5 else rng.choice(PIECES)
            at = rng.randint(0, len(text))
            long = rng.choice((2_000, 20_000, 49_000, LONG))
            text = text[:at] + piece * (long // max(len(piece), 1)) + text[at:]
        yield text


def _mutated(text: str, letters: list[str], rng: Random) -> str:
    at = rng.randint(0, len(text))
    end = min(len(text), at + rng.randint(0, 4))
    kind = rng.randrange(6)
    if kind == 0:
        return text[:at] + rng.choice(letters) + text[end:]
    if kind == 1:
        return text[:at] + rng.choice(PIECES) + text[at:]
    if kind == 2:
        return text[:at] + text[end:]
    if kind == 3:
        return text[:at] + text[at:end] * rng.randint(2, 40) + text[end:]
    if kind == 4:
        return text[:at] + chr(rng.randrange(sys.maxunicode + 1)) + text[at:]
    return text.swapcase() if rng.random() < 0.5 else text.upper()


def tried(case: Case, answer: str) -> Failure | None:
    """Score one answer; a slow one is timed again, because another process may have had the core."""
    fastest = float("inf")
    for _ in range(3):
        started = time.process_time()
        try:
            case.score(answer)
        except SandboxError:
            raise
        except Exception as error:
            return Failure(case.task, answer, f"{type(error).__name__}: {error}")
        fastest = min(fastest, time.process_time() - started)
        if fastest <= SLOWEST:
            return None
    return Failure(case.task, answer, f"{fastest:.2f} s")


def fuzz(answers: int, seed: int, folder: Path) -> list[Failure]:
    """`answers` mutated answers through the scorer of every task, and every case-changing letter as an answer."""
    letters = case_changing()
    failures: list[Failure] = []
    by_task: dict[str, list[Case]] = {}
    for case in cases(folder):
        by_task.setdefault(case.task, []).append(case)
    for name, own in by_task.items():
        for letter in letters:
            failures += filter(None, (tried(own[0], text) for text in (letter, f"({letter}) a cat")))
        rng = Random(f"{seed}:{name}")
        streams = [(case, mutants(case.question.reference, letters, rng)) for case in own]
        for number in range(answers):
            case, stream = streams[number % len(streams)]
            failures += filter(None, [tried(case, next(stream))])
    return failures


def sandboxed(answers: int, seed: int, folder: Path) -> list[Failure]:
    """Mutated HumanEval answers through the judge and its sandbox; only exceptions count there."""
    (case,) = (case for case in cases(folder) if case.task == "humaneval")
    task = open_task("humaneval", str(folder / "humaneval.jsonl"))
    stream = mutants(case.question.reference, case_changing(), Random(seed))
    failures = []
    for _ in range(answers):
        answer = next(stream)
        try:
            task.score(case.question, answer)
        except Exception as error:
            failures.append(Failure("humaneval", answer, f"{type(error).__name__}: {error}"))
    return failures


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=100_000, help="mutated answers of each scorer")
    parser.add_argument("--sandboxed", type=int, default=100, help="HumanEval answers that run")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--no-record", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        failures = fuzz(arguments.answers, arguments.seed, Path(folder))
        failures += sandboxed(arguments.sandboxed, arguments.seed, Path(folder))
    for failure in failures[:20]:
        print(f"{failure.task}: {failure.problem}: {failure.answer[:200]!r}", file=sys.stderr)
    record(
        "scorer_fuzz_failures",
        len(failures),
        unit="answers",
        n=arguments.answers * len(TASKS) + arguments.sandboxed,
        seeds=[arguments.seed],
        keep=not arguments.no_record,
    )


if __name__ == "__main__":
    main()
