"""A program of six modules of which only two are at fault, and the remark speaks of the last one alone.

`gather` notes nothing at all until NOTE is in its instruction, so `tally` has nothing to count from and `phrase`
nothing to say. `phrase` says too much until ONLY is in its instruction. Whoever writes anything else into a module
that does its work well, spoils it. At the start every answer is wrong: half of the questions ("count") fail by
both faults, the others ("name") by `phrase` alone. With both words in their places every answer is right.
"""

from __future__ import annotations

import re
from pathlib import Path

from luthier.harnesses.program.harness import ProgramHarness
from luthier.question import Question
from luthier.search.proposers.grammar import Part, Slot
from luthier.target import Request
from luthier.task import Score
from tests.luthier.methods.two_modules import World

NOTE, ONLY = "Always note something.", "Write only the answer."
GRAMMAR = (
    Slot(
        "manner",
        (
            Part(NOTE, frozenset({"nothing"})),
            Part(ONLY, frozenset({"wrapped"})),
            Part("Stay calm."),
            Part("Use plain words."),
        ),
    ),
)
PROGRAM = ProgramHarness.parse(
    """
wiring: |
  mood = comment(question)
  kind = route(question)
    if kind == "count" -> counting else naming
  counting: note = gather(question)
  draft = tally(note)
    -> write
  naming: draft = name(question)
  write: answer = phrase(question, draft)
modules:
  comment: {inputs: [question], outputs: [mood], instruction: Comment.}
  route: {inputs: [question], outputs: [kind], instruction: Route.}
  gather: {inputs: [question], outputs: [note], instruction: Gather.}
  tally: {inputs: [note], outputs: [total], instruction: Tally.}
  name: {inputs: [question], outputs: [word], instruction: Name.}
  phrase: {inputs: [question, draft], outputs: [answer], instruction: Phrase.}
"""
)


def reply(request: Request) -> str:
    """What the target says; see the module."""
    system, turn = (message.content for message in request.prompt)
    wanted = turn.rsplit("\n", 1)[-1].rstrip(":")
    edited = system.count(".") > 1
    numbers = re.findall(r"\d+", turn)
    number = numbers[-1] if numbers else ""
    if wanted == "Note":
        return f"seen {number}" if NOTE in system else ""
    if wanted == "Answer":
        found = re.search(r"right \d+", turn)
        text = found.group() if found else "none"
        return text if ONLY in system else f"I think that it is {text}, more or less"
    if edited:
        return "spoilt"
    return {
        "Mood": "fine",
        "Kind": "count" if "count" in turn else "name",
        "Total": f"right {number}" if "seen" in turn else "no idea",
        "Word": f"right {number}" if "name" in turn else "no name",
    }[wanted]


def score(question: Question, answer: str) -> Score:
    """Exact match; the remark knows nothing of modules."""
    value = float(answer == question.reference)
    return Score(value, "" if value else f"Expected '{question.reference}', but the answer was '{answer}'.")


def questions(split: str, count: int, first: int) -> list[Question]:
    """Alternately to count and to name."""
    return [
        Question.make(task="toy", text=f"{('count', 'name')[n % 2]} {n}", reference=f"right {n}", split=split)
        for n in range(first, first + count)
    ]


class Line(World):
    """One folder: store, logs and target of a search over the line."""

    def __init__(self, folder: Path, *, answer=reply) -> None:
        super().__init__(folder, program=PROGRAM, answer=answer, metric=score)
        self.train, self.validation = questions("train", 12, 0), questions("validation", 6, 100)
