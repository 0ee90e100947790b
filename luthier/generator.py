"""`Generator`: a request in, a harness text out. Searched ones are constant, learned ones are checkpoints."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from luthier.harness import Harness
from luthier.ledger.meter import Meter
from luthier.question import Question
from luthier.target import Failure, Request, Usage


@dataclass(frozen=True, slots=True)
class HarnessRequest:
    """What a generator is asked for: one harness.

    Attributes:
        text: What it reads. For one question its text; for a packet, what the method makes of its questions.
        questions: Those that the harness is for, at least one. Their references are not for the generator.
    """

    text: str
    questions: tuple[Question, ...]

    @classmethod
    def of(cls, question: Question) -> HarnessRequest:
        """A harness for one question."""
        return cls(question.text, (question,))


@dataclass(frozen=True, slots=True)
class Proposal:
    """A harness text for one request.

    Attributes:
        text: What the generator wrote; may be invalid, the executor finds out.
        usage: Tokens of writing it, uncached; zero for a constant generator.
        problem: Why the machine gave no text ("" when it did).
    """

    text: str
    usage: Usage = field(default_factory=Usage)
    problem: str = ""


class Generator(Protocol):
    """Writes harnesses of one kind."""

    @property
    def name(self) -> str:
        """What reports call it."""
        ...

    @property
    def kind(self) -> str:
        """Kind of what it writes."""
        ...

    def propose(self, requests: Sequence[HarnessRequest]) -> list[Proposal]:
        """One proposal per request, in order. Sees texts, never a reference."""
        ...


@dataclass(frozen=True, slots=True)
class ConstantGenerator:
    """The same harness for every question: what a search ends with."""

    name: str
    harness: Harness

    @property
    def kind(self) -> str:
        """Kind of the one harness."""
        return self.harness.kind

    def propose(self, requests: Sequence[HarnessRequest]) -> list[Proposal]:
        """The constant text, at no cost."""
        return [Proposal(self.harness.text)] * len(requests)


@dataclass(frozen=True, slots=True)
class RandomGenerator:
    """A random valid harness per request: the floor that a generator must leave behind (ours)."""

    name: str
    kind: str
    draw: Callable[[random.Random], Harness]
    seed: int

    def propose(self, requests: Sequence[HarnessRequest]) -> list[Proposal]:
        """One draw per request, seeded by seed and question ids."""
        seeds = [f"{self.seed}:{'+'.join(question.id for question in request.questions)}" for request in requests]
        return [Proposal(self.draw(random.Random(seed)).text) for seed in seeds]


@dataclass(frozen=True, slots=True)
class ModelGenerator:
    """A model that writes the harness as a continuation of a prompt: a trained checkpoint, or a large server model.

    Attributes:
        meter: Pays as role generator (or teacher).
        request: Builds the model's request from the text that is asked about.
        clean: Cuts the harness text out of the model's text.
    """

    name: str
    kind: str
    meter: Meter
    request: Callable[[str], Request]
    clean: Callable[[str], str]

    def propose(self, requests: Sequence[HarnessRequest]) -> list[Proposal]:
        """One call per request, as one batch."""
        answers = self.meter.complete([self.request(request.text) for request in requests])
        return [
            Proposal("", problem=str(answer.error))
            if isinstance(answer, Failure)
            else Proposal(self.clean(answer.text), usage=answer.usage)
            for answer in answers
        ]
