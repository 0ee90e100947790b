"""`Draft`: a generated question before it has a split, and the choice of its wording."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Draft:
    """A question before it has a split.

    Attributes:
        subject: What is asked about, without the wording: two wordings of one subject are one question
            for the purpose of keeping splits apart.
        text: Question text. reference: Exact answer.
    """

    subject: str
    text: str
    reference: str


def worded(seed: int, subject: str, wordings: tuple[str, ...], **values: str) -> str:
    """One of the wordings, chosen by seed and subject, with its fields filled in."""
    return Random(f"wording:{seed}:{subject}").choice(wordings).format(**values)
