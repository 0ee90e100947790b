"""GSM8K: grade-school word problems (Cobbe et al. 2021, arXiv 2110.14168)."""

from __future__ import annotations

from luthier.question import Question, Split
from luthier.tasks.answers import readings
from luthier.tasks.benchmarks.benchmark import Benchmark
from luthier.tasks.benchmarks.sources import Form, SourceRow
from luthier.tasks.quantities import quantity
from luthier.tasks.scoring import TOLERANCE, number


class Gsm8k(Benchmark):
    """JSON Lines with `question` and `answer`, whose last line is "#### N"; hub `openai/gsm8k`.

    The publisher has no validation split: a fifth of the train rows becomes it (ours).
    An answer is the number in the line after its last "####", else in its last box, else after its last
    "answer is", else the whole text (`luthier.tasks.answers`). A unit may follow it: "18 dollars" is 18, but
    "18 thousand" and "18 less" are not (`luthier.tasks.quantities`; ours).
    """

    name = "gsm8k"
    form = Form("gsm8k", (".jsonl", ".parquet"), hub_config="main")
    example = "openai/gsm8k"

    def content(self, record: SourceRow) -> str:
        return record.text("question")

    def question(self, record: SourceRow, split: Split) -> Question:
        solution = record.text("answer")
        reference = solution.rsplit("####", 1)[-1].strip().replace(",", "")
        if "####" not in solution or number(reference) is None:
            raise record.error("field answer: does not end in #### and a number", 'end it in "#### 42"')
        return Question.make(task=self.name, text=record.text("question").strip(), reference=reference, split=split)

    def correct(self, question: Question, text: str) -> bool:
        """See `Benchmark.correct`."""
        stated = next(filter(None.__ne__, map(quantity, readings(text, hashes=True))), None)
        wanted = number(question.reference)
        return stated is not None and wanted is not None and abs(stated - wanted) <= TOLERANCE
