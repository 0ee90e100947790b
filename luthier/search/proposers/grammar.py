"""`GrammarProposer`: the offline proposer (ours, offline). Instructions out of parts, chosen by what went wrong.

No paper stands behind it: it lets every search run without a model that writes well, and its results are
labelled "ours, offline". An instruction is the seed's own text, after its first paragraph at most one sentence of
each slot, and at its end worked cases, each a paragraph: calls of runs that went well, as a reflective model copies
them. A proposal changes one thing: it adds, replaces or removes a sentence, or adds a case. What answers the symptoms
seen in the evidence is more likely; a case answers all of them.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from luthier.errors import InputError
from luthier.search.candidate import Candidate
from luthier.search.contracts import Evidence, TextDraft

Symptom = Literal["nothing", "too long", "wrapped", "wrong", "right"]
"""What one piece of evidence shows; see `symptom`."""
_LONG_WORDS = 12
_CURES = 4
Case = Callable[[str, Evidence], str]
"""Component and evidence -> the call as a paragraph of an instruction; "" where it cannot be written as one."""


@dataclass(frozen=True, slots=True)
class Part:
    """One sentence that an instruction may hold, and the symptoms that it may cure."""

    text: str
    cures: frozenset[Symptom] = frozenset()


@dataclass(frozen=True, slots=True)
class Slot:
    """A place of the instruction that holds at most one of these parts."""

    name: str
    parts: tuple[Part, ...]


SLOTS = (
    Slot(
        "reading",
        (
            Part("Read the whole question before you answer.", frozenset({"wrong"})),
            Part("First find out what exactly is asked for.", frozenset({"wrong"})),
        ),
    ),
    Slot(
        "procedure",
        (
            Part("Work it out in small steps, then give the result.", frozenset({"wrong", "nothing"})),
            Part("Answer at once, without any explanation.", frozenset({"too long", "wrapped"})),
            Part("Check your result against the question before you give it.", frozenset({"wrong"})),
        ),
    ),
    Slot(
        "form",
        (
            Part("Write only the answer.", frozenset({"too long", "wrapped"})),
            Part("The answer is a single word or number.", frozenset({"too long", "wrapped"})),
            Part("End with a line that holds the answer alone.", frozenset({"too long", "wrapped"})),
            Part("Always give an answer, even when you are not sure.", frozenset({"nothing"})),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class GrammarProposer:
    """Composes instructions from `slots` and worked cases.

    Attributes:
        slots: The grammar; no two parts may be equal.
        case: Writes worked cases; None proposes none.
        max_characters: No case is proposed that would make an instruction longer; the scope's limit.
        name: What logs and reports call it.

    Raises:
        InputError: no part, an empty part, or the same part twice.
    """

    slots: tuple[Slot, ...] = SLOTS
    case: Case | None = field(default=None, repr=False)
    max_characters: int = 2000
    name: str = field(default="grammar (ours, offline)")

    def __post_init__(self) -> None:
        texts = [part.text.strip() for slot in self.slots for part in slot.parts]
        if not texts or "" in texts or len(set(texts)) != len(texts):
            raise InputError(
                "field slots: no part, an empty one, or one that stands twice",
                where="grammar",
                fix="give each slot parts that differ",
            )

    def propose(
        self, parent: Candidate, component: str, evidence: Sequence[Evidence], *, rng: random.Random, purpose: str
    ) -> TextDraft:
        """Change one slot of the parent's text, or add a case; the choice depends on `rng` and the evidence alone."""
        text = parent.text(component)
        own, chosen = self.split(text)
        seen = Counter(symptom(item) for item in evidence)
        texts: list[str] = []
        weights: list[int] = []
        for place, slot in enumerate(self.slots):
            for part in (*slot.parts, None):
                if part != chosen[place]:
                    texts.append(_composed(own, [*chosen[:place], part, *chosen[place + 1 :]]))
                    cured = sum(seen[name] for name in sorted(part.cures)) if part else 0
                    weights.append(1 + _CURES * cured)
        for case in self._cases(component, evidence, text):
            texts.append(f"{text}\n\n{case}".strip())
            weights.append(1 + _CURES * (seen.total() - seen["right"]))
        return TextDraft(rng.choices(texts, weights)[0])

    def split(self, text: str) -> tuple[str, list[Part | None]]:
        """The text without the grammar's sentences, and the one that each slot holds."""
        first, gap, rest = text.partition("\n\n")
        chosen: list[Part | None] = []
        for slot in self.slots:
            held = next((part for part in slot.parts if _holds(first, part)), None)
            chosen.append(held)
            if held is not None:
                first = first.replace(held.text, "")
        return re.sub(r"[ \t]{2,}", " ", first).strip() + gap + rest, chosen

    def _cases(self, component: str, evidence: Sequence[Evidence], text: str) -> list[str]:
        """The cases that may be added to a text, without repetition, in order."""
        if self.case is None:
            return []
        cases = [_paragraph(self.case(component, item)) for item in evidence if symptom(item) == "right"]
        paragraphs = text.split("\n\n")
        room = self.max_characters - len(text) - 2
        return [case for case in dict.fromkeys(cases) if case and case not in paragraphs and len(case) <= room]


def _paragraph(text: str) -> str:
    """A case without empty lines and spaces at line ends: only so can it be found again in an instruction."""
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def _composed(own: str, chosen: Sequence[Part | None]) -> str:
    """The sentences stand at the end of the first paragraph: what follows it are cases, which they must not touch."""
    first, gap, rest = own.partition("\n\n")
    return " ".join([first, *(part.text for part in chosen if part is not None)]).strip() + gap + rest


def symptom(item: Evidence) -> Symptom:
    """What went wrong in one run, told from score, output and feedback alone.

    nothing: no output. wrapped: the feedback quotes something that stands inside a longer output (the right
    answer with words around it). too long: more than 12 words. wrong: anything else below a full score.
    """
    if item.score >= 1.0:
        return "right"
    output = item.output.strip()
    if not output:
        return "nothing"
    quoted = re.findall(r"'([^']+)'|\"([^\"]+)\"", item.feedback)
    if any(text and text != output and text in output for pair in quoted for text in pair):
        return "wrapped"
    return "too long" if len(output.split()) > _LONG_WORDS else "wrong"


def _holds(text: str, part: Part) -> bool:
    return part.text in text
