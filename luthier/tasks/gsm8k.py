"""GSM8K: grade-school word problems (Cobbe et al. 2021, arXiv 2110.14168)."""

from __future__ import annotations

import re

from luthier.question import Question, Split
from luthier.task import Score
from luthier.tasks.benchmark import Benchmark
from luthier.tasks.latex import boxed
from luthier.tasks.scoring import final_answer, judge, number, same_number
from luthier.tasks.sources import Form, Record

_UNIT_WORD = re.compile(r"(.*\d)\s+[A-Za-z]+\.?", re.DOTALL)


class Gsm8k(Benchmark):
    """JSON Lines with `question` and `answer`, whose last line is "#### N"; hub `openai/gsm8k`.

    The publisher has no validation split: a fifth of the train rows becomes it (ours).
    An answer is the number after its last "####", else in its last box, else after "answer is" in its last
    line, else the whole text, which may be followed by one word of unit ("18 dollars"; ours).
    """

    name = "gsm8k"
    form = Form((".jsonl", ".parquet"), hub_config="main")
    example = "openai/gsm8k"

    def content(self, record: Record) -> str:
        return record.text("question")

    def question(self, record: Record, split: Split) -> Question:
        solution = record.text("answer")
        reference = solution.rsplit("####", 1)[-1].strip().replace(",", "")
        if "####" not in solution or number(reference) is None:
            raise record.error("field answer: does not end in #### and a number", 'end it in "#### 42"')
        return Question.make(task=self.name, text=record.text("question").strip(), reference=reference, split=split)

    def score(self, question: Question, answer: str) -> Score:
        return judge(same_number(_stated_number(answer), question.reference), answer, question.reference)


def _stated_number(answer: str) -> str:
    if "####" in answer:
        return answer.rsplit("####", 1)[-1]
    stated = boxed(answer) or final_answer(answer)
    with_unit = _UNIT_WORD.fullmatch(stated.strip())
    return with_unit[1] if with_unit and number(with_unit[1]) is not None else stated
