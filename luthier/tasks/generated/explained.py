"""Classification with explanation: support tickets into four queues by a rule that no question states (ours).

The queues carry names without meaning, so a model that is only asked guesses; the rule stands in the training
references. It composes two observations::

    queue = the queue of what the customer complains about     delivery amber, billing birch, defect coral, account dune
            and its neighbour's where money is asked back       amber <-> birch, coral <-> dune

and tickets hide them: another trouble is denied ("the invoice is not wrong") or belongs to somebody else, a wish is
negated ("I do not want my money back"). Families go from one clue to all of them, so that a weak target has a slope
to climb. The answer is the queue; an explanation may stand beside it, is not scored, and is spoken of in the feedback.

Chance (computed, tested): queues are balanced to one question in each family, so chance and majority are 25 %. What
rules that see one thing only reach: the trouble named first, all of `plain`, half of `denied`, `others` and `refund`,
a third of `full`; the complaint without the wish, all of `plain`, `denied` and `others`, half of `refund` and `full`.

A complaint about an item (its sentence) belongs to one split only, by its content hash.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from luthier.errors import InputError
from luthier.question import SPLITS, Question, Split
from luthier.task import Score
from luthier.tasks.answers import readable
from luthier.tasks.generated.tickets import NOUNS, TOPICS, Ticket, draw_ticket, topics_in
from luthier.tasks.question_draft import worded
from luthier.tasks.scoring import final_answer, plain
from luthier.tasks.splits import content_split

QUEUES = ("amber", "birch", "coral", "dune")
"""In the order of `luthier.tasks.generated.tickets.TOPICS`."""
KINDS: Mapping[str, str] = {
    "plain": "one_clue",
    "denied": "two_clues",
    "others": "two_clues",
    "refund": "two_clues",
    "full": "three_clues",
}
"""Family -> how many things a reader must tell apart, in the fixed order of the round robin."""
_WORDINGS = (
    "Which queue takes this ticket: amber, birch, coral or dune? Explain why.\nTicket: {ticket}",
    "Sort the ticket into a queue (amber, birch, coral, dune) and give a reason.\nTicket: {ticket}",
)
_TRIES = 5_000
_FIELD = re.compile(r"^\W*(queue|label|answer|explanation|reason)\W*[:=]\s*(.*)$", re.IGNORECASE)
_EXPLAINS = ("explanation", "reason")


@dataclass(frozen=True, slots=True)
class Reading:
    """An answer taken apart; `queue` is plain text and need not be a queue's name."""

    queue: str
    explanation: str


class Explained:
    """The task.

    `metadata["_facts"]` holds what a careful reader notices, for the feedback; no optimizer, generator or harness
    may read it.

    Args:
        families: Names of `KINDS` to keep (default: all); the order of the table holds whatever the order given.

    Raises:
        InputError: a family is unknown.
    """

    name = "explained"

    def __init__(self, families: Sequence[str] = ()) -> None:
        unknown = sorted(set(families) - set(KINDS))
        if unknown:
            raise InputError(
                f"field families: {unknown[0]!r} is unknown", where=self.name, fix=f"use some of {', '.join(KINDS)}"
            )
        self.families = tuple(name for name in KINDS if not families or name in families)

    def questions(self, split: Split, count: int, seed: int) -> list[Question]:
        """`count` distinct questions, round robin over families and queues; see `luthier.task.Task`.

        Raises:
            InputError: the split is unknown, the count negative, or a family has no more new tickets.
        """
        if split not in SPLITS:
            problem = f"field split: {split!r} is unknown"
            raise InputError(problem, where=self.name, fix=f"use one of {', '.join(SPLITS)}")
        if count < 0:
            raise InputError(f"field count: {count} is negative", where=self.name, fix="ask for 0 or more questions")
        seen: set[str] = set()
        draws = {family: Random(f"{self.name}:{split}:{family}:{seed}") for family in self.families}
        orders = {family: draws[family].sample(QUEUES, len(QUEUES)) for family in self.families}
        questions = []
        for position in range(count):
            turn, place = divmod(position, len(self.families))
            family = self.families[place]
            ticket = _next(draws[family], family, split, orders[family][turn % len(QUEUES)], seen)
            seen.add(ticket.text)
            questions.append(self._question(family, ticket, split, seed))
        return questions

    def score(self, question: Question, answer: str) -> Score:
        """1 when the queue is right, whatever the explanation; the feedback says what a careful reader notices."""
        reading = read_answer(readable(answer))
        facts: Mapping[str, Any] = question.metadata.get("_facts", {})
        remarks = [_remark(facts, reading.explanation)] if facts else []
        if reading.queue == plain(question.reference) and reading.queue:
            return Score(1.0, " ".join(["Correct.", *remarks]))
        if not reading.queue:
            wrong = f"No queue was given; expected {question.reference!r}."
        else:
            wrong = f"Expected {question.reference!r}, but the answer was {reading.queue[:80]!r}."
            if reading.queue not in QUEUES:
                wrong += " Answer with the name of one queue, alone or on a line `Queue:`."
        return Score(0.0, " ".join([wrong, *([_notice(facts)] if facts else []), *remarks]))

    def _question(self, family: str, ticket: Ticket, split: Split, seed: int) -> Question:
        return Question.make(
            task=self.name,
            family=family,
            text=worded(seed, ticket.text, _WORDINGS, ticket=ticket.text),
            reference=queue_of(ticket.topic, ticket.refund),
            split=split,
            metadata={
                "kind": KINDS[family],
                "_facts": {
                    "topic": ticket.topic,
                    "refund": ticket.refund,
                    "beside": ticket.beside,
                    "denied": ticket.denied,
                },
            },
        )


def queue_of(topic: str, refund: bool) -> str:
    """The rule."""
    return QUEUES[TOPICS.index(topic) ^ int(refund)]


def split_of(complaint: str) -> Split:
    """The split that a complaint belongs to, by its content alone."""
    return content_split(f"explained\n{complaint}")


def read_answer(text: str) -> Reading:
    """Take queue and explanation apart.

    Lines `Queue:` (or Label, Answer) and `Explanation:` (or Reason) say which is which, the last of each counts.
    Without a queue line, a first line that is one queue is it and the rest explains; else the whole text is the queue.
    """
    fields: dict[str, str] = {}
    for line in text.strip().splitlines():
        if found := _FIELD.match(line):
            fields["explanation" if found[1].lower() in _EXPLAINS else "queue"] = found[2].strip()
    if "queue" in fields:
        return Reading(plain(fields["queue"]), fields.get("explanation", ""))
    first, _, rest = text.strip().partition("\n")
    if plain(first) in QUEUES:
        return Reading(plain(first), fields.get("explanation", rest.strip()))
    return Reading("" if fields else plain(final_answer(text)), fields.get("explanation", ""))


def _next(rng: Random, family: str, split: Split, queue: str, seen: set[str]) -> Ticket:
    for _ in range(_TRIES):
        ticket = draw_ticket(rng, family)
        right = queue_of(ticket.topic, ticket.refund) == queue and split_of(ticket.complaint) == split
        if right and ticket.text not in seen:
            return ticket
    raise InputError(
        f"family {family!r} gives no new ticket of split {split!r} within {_TRIES} draws",
        where="explained",
        fix="ask for fewer questions or for more families",
    )


def _notice(facts: Mapping[str, Any]) -> str:
    """What decides, without the rule itself."""
    parts = [f"the customer complains about {NOUNS[facts['topic']]}"]
    if facts["beside"]:
        status = "is denied" if facts["denied"] else "is somebody else's"
        parts.append(f"the trouble with {NOUNS[facts['beside']]} {status}")
    parts.append("money is asked back" if facts["refund"] else "no money is asked back")
    return f"In this ticket {', '.join(parts[:-1])}, and {parts[-1]}."


def _remark(facts: Mapping[str, Any], explanation: str) -> str:
    """What to say of the explanation."""
    if not explanation:
        return "No explanation was given."
    spoken, topic = topics_in(explanation), facts["topic"]
    if topic in spoken:
        return f"The explanation rightly speaks of {NOUNS[topic]}."
    if spoken:
        named = " and ".join(NOUNS[other] for other in spoken)
        return f"The explanation speaks of {named}, the complaint is about {NOUNS[topic]}."
    return "The explanation does not say what the complaint is about."
