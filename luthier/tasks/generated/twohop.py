"""Two-hop question answering with retrieval over a generated corpus (ours; the shape is HotpotQA's bridge questions).

"In which region was Celedin Barovik born?" needs the document of the person and then that of the town. A harness
sees the question's text and finds documents with the tool `retrieve`; the corpus is not in the text.

What holds for every question, found by exhaustive search over the facts and documents and tested:

* Exactly one chain of two facts leads from the entity to any answer, so the answer is unique.
* The two facts stand in two documents, and no document holds both the entity's name and the answer.
* The answer is not in the question's text.
* An entity is asked about in one split only (three fifths train, one fifth validation, one fifth test by the hash of
  its name). The world is one for all splits, so that another split's documents can be found, as on the web.

Chance (computed over all 1,022 questions, tested): one constant answer is right for at most 5 % of a split (the most
frequent region), and for at most a quarter of the questions of any family with twenty or more in that split.
Searching once with the question's own words (three passages) finds both documents for no question at all, and the
first one for more than nine in ten; a second search with the name that connects them finds the other document for
97 % or more. So the second query decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from luthier.errors import InputError
from luthier.question import SPLITS, Question, Split
from luthier.task import Score
from luthier.tasks.answers import readable
from luthier.tasks.benchmarks.hotpotqa import normal_words, word_f1
from luthier.tasks.generated.twohop_world import Fact, World, end_of, world
from luthier.tasks.question_draft import worded
from luthier.tasks.scoring import final_answer
from luthier.tasks.splits import content_split
from luthier.tools.retrieval import words


@dataclass(frozen=True, slots=True)
class Path:
    """A family of questions.

    Attributes:
        start: Kind of the entity that is asked about.
        hops: Two relations of `luthier.tasks.generated.twohop_world.Fact`; "~" reverses one.
        wordings: Templates over {x}, the entity.
    """

    start: str
    hops: tuple[str, str]
    wordings: tuple[str, ...]


PATHS: Mapping[str, Path] = {
    "author_birthplace": Path(
        "work",
        ("author", "born_in"),
        ("In which town was the author of {x} born?", "Which town is the birthplace of the writer of {x}?"),
    ),
    "author_teacher": Path(
        "work",
        ("author", "studied_under"),
        ("Who taught the author of {x}?", "Under whom did the writer of {x} study?"),
    ),
    "author_pupil": Path(
        "work",
        ("author", "~studied_under"),
        ("Who studied under the author of {x}?", "Who was a pupil of the writer of {x}?"),
    ),
    "setting_region": Path(
        "work",
        ("set_in", "lies_in"),
        ("In which region does the story of {x} take place?", "Which region is {x} set in?"),
    ),
    "setting_river": Path(
        "work",
        ("set_in", "stands_on"),
        ("On which river is the town where {x} is set?", "Which river runs past the town that {x} is set in?"),
    ),
    "birth_region": Path(
        "person",
        ("born_in", "lies_in"),
        ("In which region was {x} born?", "Which region does {x} come from?"),
    ),
    "birth_river": Path(
        "person",
        ("born_in", "stands_on"),
        ("On which river is the birthplace of {x}?", "Which river runs past the town where {x} was born?"),
    ),
    "teacher_birthplace": Path(
        "person",
        ("studied_under", "born_in"),
        ("In which town was the teacher of {x} born?", "Which town is the birthplace of the person who taught {x}?"),
    ),
    "pupil_work": Path(
        "person",
        ("~studied_under", "~author"),
        ("Which work was written by a pupil of {x}?", "What did a pupil of {x} write?"),
    ),
    "town_craft": Path(
        "town",
        ("lies_in", "known_for"),
        ("What is the region of {x} known for?", "For what do travellers know the region around {x}?"),
    ),
}
"""Every family, in the fixed order of the round robin."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question before its wording.

    Attributes:
        family: Key of `PATHS`. entity: What is asked about. answer: The only one.
        bridge: The entity between the two facts. documents: Ids of the two documents, in the order of the hops.
    """

    family: str
    entity: str
    answer: str
    bridge: str
    documents: tuple[str, str]


class TwoHop:
    """The task.

    `metadata["corpus"]` names the documents. `metadata["_gold"]` holds the two documents and the connecting name for
    tests and for `benchmarks/difficulty.py`; no optimizer, generator or harness may read it.

    Args:
        families: Names of `PATHS` to keep (default: all); the order of the table holds whatever the order given.

    Raises:
        InputError: a family is unknown.
    """

    name = "twohop"

    def __init__(self, families: Sequence[str] = ()) -> None:
        unknown = sorted(set(families) - set(PATHS))
        if unknown:
            raise InputError(
                f"field families: {unknown[0]!r} is unknown", where=self.name, fix=f"use some of {', '.join(PATHS)}"
            )
        self.families = tuple(name for name in PATHS if not families or name in families)

    def questions(self, split: Split, count: int, seed: int) -> list[Question]:
        """`count` distinct questions; the families take turns while they last. See `luthier.task.Task`.

        Raises:
            InputError: the split is unknown, or has fewer questions than asked for.
        """
        if split not in SPLITS:
            problem = f"field split: {split!r} is unknown"
            raise InputError(problem, where=self.name, fix=f"use one of {', '.join(SPLITS)}")
        cases = self._in_turn(split, seed)
        if not 0 <= count <= len(cases):
            raise InputError(
                f"field count: {count} questions of split {split!r} asked for, there are {len(cases)}",
                where=self.name,
                fix=f"ask for 0 to {len(cases)}"
                + (", or keep more families" if len(self.families) < len(PATHS) else ""),
            )
        return [self._question(case, split, seed) for case in cases[:count]]

    def score(self, question: Question, answer: str) -> Score:
        """Exact match after HotpotQA's normalisation; the feedback speaks of the answer alone, not of its documents."""
        stated, wanted = normal_words(final_answer(readable(answer))), normal_words(question.reference)
        if stated == wanted and stated:
            return Score(1.0, "Correct.")
        return Score(0.0, _complaint(question, stated, wanted))

    def _in_turn(self, split: Split, seed: int) -> list[Case]:
        queues: dict[str, list[Case]] = {name: [] for name in self.families}
        for case in all_cases():
            if case.family in queues and split_of(case.entity) == split:
                queues[case.family].append(case)
        for family, queue in queues.items():
            Random(f"{self.name}:{split}:{family}:{seed}").shuffle(queue)
        longest = max(map(len, queues.values()))
        return [queue[turn] for turn in range(longest) for queue in queues.values() if turn < len(queue)]

    def _question(self, case: Case, split: Split, seed: int) -> Question:
        return Question.make(
            task=self.name,
            family=case.family,
            text=worded(seed, f"{case.family}:{case.entity}", PATHS[case.family].wordings, x=case.entity),
            reference=case.answer,
            split=split,
            metadata={
                "kind": "two_hop",
                "corpus": world().corpus.reference,
                "_gold": {"documents": list(case.documents), "bridge": case.bridge},
            },
        )


def split_of(entity: str) -> Split:
    """The split in which an entity is asked about."""
    return content_split(f"twohop\n{entity}")


@cache
def all_cases() -> tuple[Case, ...]:
    """Every question of the world, families and entities in order."""
    found = []
    for family, path in PATHS.items():
        for entity in world().entities[path.start]:
            case = make_case(world(), family, entity)
            if case is not None:
                found.append(case)
    return tuple(found)


def make_case(source: World, family: str, entity: str) -> Case | None:
    """The question of a family about an entity; None when its answer is not unique or one document is enough."""
    path = PATHS[family]
    chains = source.follow(entity, path.hops)
    if len(chains) != 1:
        return None
    (chain,) = chains
    answer, bridge = end_of(chain, path.hops), end_of(chain[:1], path.hops[:1])
    case = Case(family, entity, answer, bridge, _documents(chain))
    return None if has_shortcut(source, case) else case


def has_shortcut(source: World, case: Case) -> bool:
    """Whether one document is enough, or the question's own text holds the answer."""
    if source.documents_naming(case.entity) & source.documents_naming(case.answer):
        return True
    asked = [f" {' '.join(words(wording.format(x=case.entity)))} " for wording in PATHS[case.family].wordings]
    return any(f" {' '.join(words(case.answer))} " in text for text in asked)


def _documents(chain: Sequence[Fact]) -> tuple[str, str]:
    first, second = chain
    return first.document, second.document


def _complaint(question: Question, stated: Sequence[str], wanted: Sequence[str]) -> str:
    """One sentence on what is wrong with the answer's form and content, from texts that a harness could see."""
    if not stated:
        return f"No answer was given; expected {question.reference!r}."
    f1 = word_f1(list(stated), list(wanted))
    said = f"Expected {question.reference!r}, but the answer was {' '.join(stated)[:120]!r} (word F1 {f1:.2f})"
    if f" {' '.join(wanted)} " in f" {' '.join(stated)} ":
        return f"{said}: it holds the right name, but must be that name alone."
    if set(stated) <= set(normal_words(question.text)):
        return f"{said}: it only repeats words of the question instead of a name from the passages."
    return f"{said}: another name was taken; what the question asks for stands in a second passage."
