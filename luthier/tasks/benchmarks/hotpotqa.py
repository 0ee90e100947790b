"""HotpotQA: questions over two paragraphs (Yang et al. 2018, arXiv 1809.09600)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping
from typing import Any

from luthier.question import Question, Split
from luthier.task import Score
from luthier.tasks.answers import readings
from luthier.tasks.benchmarks.benchmark import Benchmark
from luthier.tasks.benchmarks.sources import Form, SourceRow

_CLOSED = ("yes", "no", "noanswer")


class HotpotQa(Benchmark):
    """JSON list, or JSON Lines, with `question`, `answer` and `context`; hub `hotpotqa/hotpot_qa`.

    The publisher's test split has no answers, so half of its dev rows become our test split (ours).
    The score is exact match as the official evaluation normalises it (case, punctuation, articles);
    F1 over words stands in the feedback. A lead-in ("The answer is") is dropped first (ours).

    Args:
        source: Local file or folder, or hub id.
        context: Whether the question text begins with the row's paragraphs (the distractor setting).
    """

    name = "hotpotqa"
    form = Form("hotpotqa", (".json", ".jsonl", ".parquet"), hub_config="distractor")
    example = "hotpotqa/hotpot_qa"

    def __init__(self, source: str, *, context: bool = True) -> None:
        super().__init__(source)
        self.context = context

    def keep(self, record: SourceRow) -> bool:
        return not (record.split == "test" and not record.row.get("answer"))

    def content(self, record: SourceRow) -> str:
        return record.text("question")

    def question(self, record: SourceRow, split: Split) -> Question:
        text = record.text("question").strip()
        paragraphs = _paragraphs(record) if self.context else []
        if paragraphs:
            text = "\n".join([*paragraphs, "", f"Question: {text}"])
        return Question.make(
            task=self.name,
            family=str(record.row.get("type") or self.name),
            text=text,
            reference=record.text("answer").strip(),
            split=split,
        )

    def correct(self, question: Question, text: str) -> bool:
        """See `Benchmark.correct`."""
        wanted = _compared(question.reference, question.reference)
        return any(_compared(stated, question.reference) == wanted for stated in readings(text))

    def judged(self, question: Question, answer: str, text: str) -> Score:
        """See `Benchmark.judged`; the feedback has the word F1 of what the answer states."""
        if self.correct(question, text):
            return Score(1.0, "Correct.")
        stated = (readings(text)[1:] or readings(text) or ("",))[0]
        f1 = word_f1(normal_words(stated), normal_words(question.reference))
        return Score(0.0, f"Expected {question.reference!r}; word F1 of the answer is {f1:.2f}.")


def _compared(text: str, reference: str) -> list[str]:
    """The words to compare; as written where the reference has only articles and punctuation ("The The")."""
    return normal_words(text) if normal_words(reference) else text.lower().split()


def normal_words(text: str) -> list[str]:
    """The words of a text without case, punctuation and the articles a, an and the."""
    kept = "".join(character for character in text.lower() if character not in string.punctuation)
    return re.sub(r"\b(?:a|an|the)\b", " ", kept).split()


def word_f1(stated: list[str], wanted: list[str]) -> float:
    """Harmonic mean of word precision and recall; 0 when one side is yes or no and the other differs."""
    if stated != wanted and (" ".join(stated) in _CLOSED or " ".join(wanted) in _CLOSED):
        return 0.0
    common = sum((Counter(stated) & Counter(wanted)).values())
    return 2 * common / (len(stated) + len(wanted)) if common else 0.0


def _paragraphs(record: SourceRow) -> list[str]:
    """One line "title: sentences" a paragraph, from the publisher's pairs or the hub's two columns."""
    context: Any = record.row.get("context")
    if not context:
        return []
    try:
        pairs = zip(context["title"], context["sentences"], strict=True) if isinstance(context, Mapping) else context
        return [f"{title}: {''.join(sentences).strip()}" for title, sentences in pairs]
    except (KeyError, TypeError, ValueError) as error:
        raise record.error(
            f"field context: not a list of [title, [sentences]] ({error})", "restore the row from its publisher"
        ) from error
