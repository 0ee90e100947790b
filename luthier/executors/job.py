"""`Job`: one harness to run on one question, and the key under which its execution is stored."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from luthier.execution import Limits
from luthier.executors import executor_for
from luthier.files import digest_text
from luthier.harness import Harness
from luthier.question import Question

SCORING_VERSION = 1
"""Part of every execution's key, beside the executor's version: raise it when a scorer changes its scores."""


@dataclass(frozen=True, slots=True)
class InvalidHarness:
    """A harness text that did not parse. It costs nothing and scores 0, but it counts.

    Attributes:
        kind, text: What was written.
        error: The message of the `HarnessError`.
    """

    kind: str
    text: str
    error: str

    @property
    def digest(self) -> str:
        """Differs from the digest of every valid harness."""
        return digest_text(f"invalid {self.kind}\n{self.text}")

    def calls_bound(self, limits: Limits) -> int:
        """It makes no call."""
        return 0


@dataclass(frozen=True, slots=True)
class Job:
    """One harness to run on one question; `seed` is that of sampled calls."""

    harness: Harness | InvalidHarness
    question: Question
    seed: int = 0


def execution_key(job: Job, fingerprint: str, limits: Limits) -> str:
    """Content hash of everything that an execution depends on, 64 hex digits."""
    harness = job.harness
    version = "invalid" if isinstance(harness, InvalidHarness) else executor_for(harness.kind).version
    parts = [harness.digest, job.question.id, fingerprint, version, SCORING_VERSION, job.seed, asdict(limits)]
    if job.question.corpus:  # not part of the question's id; keys of questions without one stay as they were
        parts.append(job.question.corpus)
    return digest_text(json.dumps(parts))
