"""The tiered reward of MAS-Architect (Huang et al., ICML 2026): 0, 0.1 or 1.

R = 0 if the harness is invalid or cheats, 0.1 if it is valid but wrong, 1 if it is correct. An execution
that broke a limit counts as invalid, one that ran and answered nothing (`noop`) as valid but wrong (ours).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from luthier.execution import Execution
from luthier.question import Question
from luthier.reward import RewardValue


@dataclass(frozen=True, slots=True)
class TieredReward:
    """See the module. `valid_but_wrong` is the middle tier (the paper's 0.1)."""

    valid_but_wrong: float = 0.1

    def rewards(self, question: Question, executions: Sequence[Execution], cheats: Sequence[str]) -> list[RewardValue]:
        """One value per execution, independent of the other members of the group."""
        return [self._reward(execution, cheat) for execution, cheat in zip(executions, cheats, strict=True)]

    def _reward(self, execution: Execution, cheat: str) -> RewardValue:
        if execution.outcome == "infra_error":
            return RewardValue(None)
        valid = execution.outcome in ("ok", "noop")
        correct = execution.outcome == "ok" and execution.score == 1.0
        parts = {"valid": float(valid), "correct": float(correct and not cheat), "cheating": float(bool(cheat))}
        if cheat or not valid:
            return RewardValue(0.0, parts)
        return RewardValue(1.0 if correct else self.valid_but_wrong, parts)
