"""`validate` finds references that do not score 1 and empty answers that do not score 0."""

from __future__ import annotations

from luthier.question import Question
from luthier.task import Score, validate
from luthier.tasks.generated.mixed import MixedSuite


class Odd:
    """Scores by table: the reference of `half` scores 0.5, an empty answer to `gift` scores 1."""

    name = "odd"

    def questions(self, split, count, seed):
        return [Question.make(task="odd", text=text, reference="r", split=split) for text in ("good", "half", "gift")]

    def score(self, question, answer):
        if question.text == "gift":
            return Score(1.0)
        return Score(0.5 if question.text == "half" and answer else float(answer == question.reference))


def test_both_kinds_of_problem_are_told():
    found = validate(Odd(), Odd().questions("train", 3, 0))
    assert [(item.question.text, item.problem) for item in found] == [
        ("half", "the reference scores 0.5, not 1"),
        ("gift", "an empty answer scores 1, not 0"),
    ]


def test_a_sound_task_has_no_problem():
    task = MixedSuite()
    assert validate(task, task.questions("test", 34, 1)) == []
