"""When a search must end before its next evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from luthier.ledger.budget import Amount, Budget


@dataclass(frozen=True, slots=True)
class WholeSteps:
    """Begin no evaluation that might not fit (ours; gepa 0.1.4 stops where `used + 2b + V > limit`).

    So nothing is spent on half an evaluation, and whether a search stops does not depend on a restart.
    The ledger stays the hard stop behind it.
    """

    max_steps: int | None = None

    def reason(self, budget: Budget, spent: Amount, need: Amount, steps: int) -> str:
        """See `StoppingRule`."""
        if self.max_steps is not None and steps >= self.max_steps:
            return f"steps: {self.max_steps} allowed"
        over = budget.exceeded(spent + need)
        return "" if over is None else f"{over[0]}: {over[1]:g} allowed, up to {over[2]:g} needed"
