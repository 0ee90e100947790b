"""MATH: competition mathematics (Hendrycks et al. 2021, arXiv 2103.03874)."""

from __future__ import annotations

from luthier.question import Question, Split
from luthier.tasks.answers import readings
from luthier.tasks.benchmarks.benchmark import Benchmark
from luthier.tasks.benchmarks.sources import Form, SourceRow
from luthier.tasks.latex import boxed, normal_form, same_math


class Math(Benchmark):
    r"""Folders `train/<subject>/<n>.json`, or JSON Lines; hub `HuggingFaceH4/MATH-500` and the like.

    A row has `problem`, `solution` (the reference stands in its last \boxed) or `answer`, and perhaps
    `type` or `subject` (the family) and `level`. An answer is its last box, else what follows its last
    "answer is", else the whole text (`luthier.tasks.answers`).
    """

    name = "math"
    form = Form("math", (".json", ".jsonl", ".parquet"))
    example = "HuggingFaceH4/MATH-500"

    def content(self, record: SourceRow) -> str:
        return record.text("problem", "question")

    def question(self, record: SourceRow, split: Split) -> Question:
        row = record.row
        given = row.get("answer")
        stated = given if isinstance(given, str) and given.strip() else ""
        reference = boxed(stated or record.text("solution")) or stated
        if not normal_form(reference):
            raise record.error(r"field solution: has no \boxed answer", r"put the answer in \boxed{...}")
        return Question.make(
            task=self.name,
            family=str(row.get("type") or row.get("subject") or record.group or self.name),
            text=record.text("problem", "question").strip(),
            reference=reference.strip(),
            split=split,
            metadata={"level": str(row["level"])} if "level" in row else {},
        )

    def correct(self, question: Question, text: str) -> bool:
        """See `Benchmark.correct`."""
        return any(same_math(stated, question.reference) for stated in readings(text, math=True))
