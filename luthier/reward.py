"""`Reward`: a group of executions of one question -> one number each, with its named parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from luthier.execution import Execution
from luthier.question import Question


@dataclass(frozen=True, slots=True)
class RewardValue:
    """One execution's reward.

    Attributes:
        value: The number that training maximises; None when the machine failed (not applicable).
        parts: Named ingredients, for curves ("correct", "valid", "cheating").
    """

    value: float | None
    parts: Mapping[str, float] = field(default_factory=dict)


class Reward(Protocol):
    """Scores groups. Spends no tokens."""

    def rewards(self, question: Question, executions: Sequence[Execution], cheats: Sequence[str]) -> list[RewardValue]:
        """One value per execution; `cheats[i]` names the cheat found in execution i ("" when none)."""
        ...
