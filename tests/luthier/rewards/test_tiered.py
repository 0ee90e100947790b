"""The reward table of MAS-Architect, row by row."""

from __future__ import annotations

import pytest

from luthier.execution import Execution
from luthier.question import Question
from luthier.rewards.tiered import TieredReward

QUESTION = Question.make(task="toy", text="t", reference="r", split="train")


def execution(outcome: str, score: float | None) -> Execution:
    return Execution(QUESTION.id, "h", "graph", "t", 0, outcome, score=score)


TABLE = [
    ("cheating", "ok", 1.0, "literal", 0.0, (1, 0, 1)),
    ("invalid", "invalid", 0.0, "", 0.0, (0, 0, 0)),
    ("over limits", "incomplete", 0.0, "", 0.0, (0, 0, 0)),
    ("valid but wrong", "ok", 0.0, "", 0.1, (1, 0, 0)),
    ("partly right is wrong", "ok", 0.5, "", 0.1, (1, 0, 0)),
    ("valid but without an answer", "noop", 0.0, "", 0.1, (1, 0, 0)),
    ("correct", "ok", 1.0, "", 1.0, (1, 1, 0)),
]


@pytest.mark.parametrize(("name", "outcome", "score", "cheat", "value", "parts"), TABLE, ids=[row[0] for row in TABLE])
def test_the_table(name, outcome, score, cheat, value, parts):
    (found,) = TieredReward().rewards(QUESTION, [execution(outcome, score)], [cheat])
    assert found.value == value
    assert found.parts == dict(zip(("valid", "correct", "cheating"), map(float, parts), strict=True))


def test_a_machine_failure_has_no_reward_at_all():
    (found,) = TieredReward().rewards(QUESTION, [execution("infra_error", None)], [""])
    assert found.value is None
    assert found.parts == {}


def test_the_middle_tier_is_a_setting():
    (found,) = TieredReward(valid_but_wrong=0.0).rewards(QUESTION, [execution("ok", 0.0)], [""])
    assert found.value == 0.0


def test_members_of_a_group_are_graded_one_by_one_in_order():
    group = [execution("ok", 1.0), execution("invalid", 0.0), execution("ok", 0.0)]
    assert [item.value for item in TieredReward().rewards(QUESTION, group, ["", "", ""])] == [1.0, 0.0, 0.1]
    with pytest.raises(ValueError, match="zip"):
        TieredReward().rewards(QUESTION, group, [""])
