"""What a teacher tries: variations dealt out over the questions, and a second round for the promising ones."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from luthier.executors.execute import InvalidHarness
from luthier.harness import Harness
from luthier.harnesses.graph.harness import GraphHarness
from luthier.question import Question
from luthier.teaching.rows import TeacherCandidate


def vary(
    questions: Sequence[Question], variations: Sequence[GraphHarness], per_question: int, seed: int
) -> list[tuple[Question, GraphHarness]]:
    """Which variations are tried on which question: dealt out within each family, like cards (ours).

    A family's questions share shuffled decks of all variations, a new deck when one is used up. So no variation
    comes a second time in a family before every other came once, and none twice to a question.

    Args:
        questions: Of any families.
        variations: The deck.
        per_question: Variations of each question.
        seed: Of the shuffling.

    Returns:
        Question and variation, in the order of the questions.
    """
    size = min(per_question, len(variations))
    decks: dict[str, Iterator[int]] = {}
    pairs: list[tuple[Question, GraphHarness]] = []
    for question in questions:
        deck = decks.setdefault(question.family, _cards(len(variations), f"{seed}:{question.family}"))
        chosen: set[int] = set()
        left: list[int] = []
        while len(chosen) < size:
            card = next(deck)
            if card in chosen:
                left.append(card)
            else:
                chosen.add(card)
        decks[question.family] = chain(left, deck)
        pairs.extend((question, variations[index]) for index in sorted(chosen))
    return pairs


def _cards(count: int, label: str) -> Iterator[int]:
    """Shuffled decks of `count` cards, one after the other, without end."""
    draw = random.Random(label)
    while True:
        yield from draw.sample(range(count), count)


def confirm(candidates: Iterable[TeacherCandidate], keep: int) -> list[tuple[Question, Harness, str]]:
    """What to try next: each family's most promising systems on those of its questions that they did not meet.

    A draw meets a family's right system on some of its questions only, and on the others something that is
    right by luck. So the `keep` systems that were right most often are tried on all questions of the family (ours).

    Returns:
        Question, harness and source of each further try, in a fixed order.
    """
    questions: dict[str, dict[str, Question]] = defaultdict(dict)
    met: dict[tuple[str, str], list[TeacherCandidate]] = defaultdict(list)
    for candidate in candidates:
        questions[candidate.question.family][candidate.question.id] = candidate.question
        met[candidate.question.family, candidate.harness.digest].append(candidate)
    tries: list[tuple[Question, Harness, str]] = []
    for family in sorted(questions):
        promising = [group for (where, _), group in met.items() if where == family and _right(group)]
        promising.sort(key=lambda group: (-_right(group), -_right(group) / len(group), group[0].harness.digest))
        for group in promising[:keep]:
            harness = group[0].harness
            assert not isinstance(harness, InvalidHarness), "an invalid harness cannot be right"
            seen = {candidate.question.id for candidate in group}
            left = [question for key, question in questions[family].items() if key not in seen]
            tries += [(question, harness, group[0].source) for question in left]
    return tries


def _right(group: Sequence[TeacherCandidate]) -> int:
    return sum(candidate.execution.score == 1.0 for candidate in group)
