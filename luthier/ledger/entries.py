"""`Entry`: one line of the ledger, with its account and on whose behalf it was."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal, get_args

from luthier.errors import InputError
from luthier.files import digest_text
from luthier.ledger.budget import Amount
from luthier.target import Role

Account = Literal["data", "train", "search", "use", "test"]
"""Who pays. `test` is reported and never limits."""

TRAINING_PARTS = ("draw", "reference", "update", "broken update")
"""Work of a training: samples drawn, rows that a reference model read, update passes, and those of a step
that did not end. Their pace is no call's pace."""


@dataclass(frozen=True, slots=True)
class Context:
    """On whose behalf a call is made. `scope` separates steps of a method that resumes by itself."""

    account: Account
    role: Role
    method: str
    phase: str
    split: str = ""
    seed: int = 0
    scope: str = ""

    def __post_init__(self) -> None:
        for name, value, known in (("account", self.account, Account), ("role", self.role, Role)):
            if value not in get_args(known):
                raise InputError(f"field {name}: {value!r} is unknown", fix=f"use one of {', '.join(get_args(known))}")

    @property
    def values(self) -> tuple[str | int, ...]:
        """The fields in order, as columns."""
        return (self.account, self.role, self.method, self.phase, self.split, self.seed, self.scope)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger; never changed once written.

    Attributes:
        context: Account, role, method, phase, split, seed.
        purpose: What it was for; equal after a restart.
        part: "answer", "failed N" (N-th failed attempt, from 0), "rollout", or one of `TRAINING_PARTS`.
        cached: The answer came from the store, or from an equal request of the same batch.
        paid, alone: See `luthier.ledger.ledger`.
        problem: What went wrong with this attempt, "" when nothing.
        target: Fingerprint of the model.
    """

    context: Context
    purpose: str
    part: str
    cached: bool
    paid: Amount
    alone: Amount
    problem: str = ""
    target: str = ""

    @property
    def key(self) -> str:
        """Identity within a run."""
        return digest_text(json.dumps([*self.context.values, self.purpose, self.part]))


@dataclass(frozen=True, slots=True)
class Line:
    """Totals of one account x role x method x phase."""

    account: str
    role: str
    method: str
    phase: str
    paid: Amount
    alone: Amount
    entries: int
    cached: int
    problems: int
