"""MMLU: four-way multiple choice over 57 subjects (Hendrycks et al. 2021, arXiv 2009.03300)."""

from __future__ import annotations

from pathlib import PurePath
from string import ascii_uppercase

from luthier.question import Question, Split
from luthier.tasks.answers import readings
from luthier.tasks.benchmarks.benchmark import Benchmark
from luthier.tasks.benchmarks.options import chosen, permute, render
from luthier.tasks.benchmarks.sources import Form, SourceRow
from luthier.tasks.splits import named_split


def mmlu_split(name: str) -> Split | None:
    """MMLU's own split names: `dev` holds the few-shot examples and is train here, `val` is validation."""
    words = set(PurePath(name).stem.lower().replace("-", "_").split("_")) | set(PurePath(name.lower()).parts[:-1])
    return "train" if words & {"dev", "auxiliary", "auxiliary_train"} else named_split(name)


class Mmlu(Benchmark):
    """CSV files `question,A,B,C,D,answer` (header optional), or the hub form `cais/mmlu`.

    The hub form has `question`, `choices`, `answer` (a number from 0 or a letter) and `subject`. The
    family is the subject. Options are shown in our own order, recorded in `metadata["permutation"]`.
    """

    name = "mmlu"
    form = Form(
        "mmlu",
        (".csv", ".jsonl", ".parquet"),
        hub_config="all",
        columns=("question", "A", "B", "C", "D", "answer"),
        split_of=mmlu_split,
    )
    example = "cais/mmlu"

    def content(self, record: SourceRow) -> str:
        # The options are part of it: MMLU repeats stems such as "Which of these is true?".
        return "\n".join((record.text("question").strip(), *sorted(_options(record))))

    def question(self, record: SourceRow, split: Split) -> Question:
        options = _options(record)
        published = _answer_place(record, len(options))
        permutation = permute(options, self.content(record))
        shown = [options[place] for place in permutation]
        return Question.make(
            task=self.name,
            family=str(record.row.get("subject") or record.group),
            text=f"{record.text('question').strip()}\n{render(shown)}",
            reference=ascii_uppercase[permutation.index(published)],
            split=split,
            metadata={"choices": shown, "permutation": list(permutation)},
        )

    def correct(self, question: Question, text: str) -> bool:
        """See `Benchmark.correct`."""
        return chosen(readings(text), question.reference, question.metadata["choices"])


def _options(record: SourceRow) -> tuple[str, ...]:
    if "choices" not in record.row:
        return tuple(record.text(letter).strip() for letter in "ABCD")
    choices = record.row["choices"]
    if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(text, str) for text in choices):
        raise record.error("field choices: not a list of two or more texts", 'write "choices": ["...", "..."]')
    return tuple(text.strip() for text in choices)


def _answer_place(record: SourceRow, count: int) -> int:
    answer = record.row.get("answer")
    if isinstance(answer, str) and len(answer.strip()) == 1 and answer.strip().upper() in ascii_uppercase[:count]:
        return ascii_uppercase.index(answer.strip().upper())
    if isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < count:
        return answer
    raise record.error(
        f"field answer: {answer!r} names no option", f"write a letter from A to {ascii_uppercase[count - 1]}"
    )
