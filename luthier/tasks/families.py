"""The families of the mixed suite: from a seed to one question with an exact reference.

Eight families come from reasoning-gym with its answers and our shorter wordings; the composites and
`weekday` are ours. A family returns None for a seed whose question would reward a wrong program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from itertools import combinations
from random import Random
from typing import Any, Literal

from luthier.tasks.syllogisms import follows
from luthier.tasks.words import WORDS

Kind = Literal["one_step", "two_step", "three_step", "no_tool", "unshown"]


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


@dataclass(frozen=True, slots=True)
class Family:
    """One family.

    Attributes:
        kind: How many tools a solver needs, or that no tool helps, or that no teacher shows it.
        draft: Seed -> question, or None for a seed that gives none. Equal seeds give equal drafts.
        labels: The possible answers of a closed family, which the suite balances; () for an open one.
    """

    kind: Kind
    draft: Callable[[int], Draft | None]
    labels: tuple[str, ...] = ()


# ---- from reasoning-gym -------------------------------------------------------------------------


class _OrderedLetters(tuple[str, ...]):
    """Letters in order with set difference.

    reasoning-gym's ransom_note draws from a set, whose order changes with PYTHONHASHSEED.
    """

    __slots__ = ()

    def __sub__(self, removed: set[str]) -> _OrderedLetters:
        return _OrderedLetters(letter for letter in self if letter not in removed)


@cache
def _gym(name: str) -> Any:
    """The reasoning-gym data set of a family; question `i` depends on `i` alone (its seed is 0)."""
    import reasoning_gym

    dataset = reasoning_gym.create_dataset(name, seed=0, size=1, **_GYM_SETTINGS[name])
    if name == "ransom_note":
        dataset.letters = _OrderedLetters("abcdefghijklmnopqrstuvwxyz")
    return dataset


_GYM_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "chain_sum": {"min_terms": 2, "max_terms": 3, "min_digits": 1, "max_digits": 2},
    "letter_counting": {"min_words": 3, "max_words": 6},
    "spell_backward": {"min_word_len": 3, "max_word_len": 6},
    "word_sorting": {"min_words": 3, "max_words": 4},
    "gcd": {},
    "lcm": {},
    "ransom_note": {},
    "syllogism": {},
}


def _wording(seed: int, subject: str, wordings: tuple[str, ...], **values: str) -> str:
    return Random(f"wording:{seed}:{subject}").choice(wordings).format(**values)


def _chain_sum(seed: int) -> Draft | None:
    entry = _gym("chain_sum")[seed]
    expression = entry["metadata"]["expression"]
    wordings = (
        "State the final answer to the following arithmetic problem: {e} =",
        "What is {e}?",
        "Calculate {e}.",
    )
    return Draft(expression, _wording(seed, expression, wordings, e=expression), entry["answer"])


def _letter_counting(seed: int) -> Draft | None:
    entry = _gym("letter_counting")[seed]
    letter, span = entry["metadata"]["target_letter"], " ".join(entry["metadata"]["span"]).lower()
    if not letter.isalpha():
        return None
    wordings = (
        'How many times does the letter "{letter}" appear in the text: "{span}"?',
        'Count the letter "{letter}" in the text: "{span}".',
    )
    subject = f"{letter} {span}"
    return Draft(subject, _wording(seed, subject, wordings, letter=letter, span=span), entry["answer"])


def _spell_backward(seed: int) -> Draft | None:
    entry = _gym("spell_backward")[seed]
    word = entry["metadata"]["word"].lower()
    if word == word[::-1] or not word.isalpha():
        return None
    wordings = ("Spell this word backward (example: sun -> nus): {word}", "Spell the word backward: {word}")
    return Draft(word, _wording(seed, word, wordings, word=word), word[::-1])


def _word_sorting(seed: int) -> Draft | None:
    metadata = _gym("word_sorting")[seed]["metadata"]
    words = [word.lower() for word in metadata["original_words"]]
    # Lower case (the order of "B" and "a" is a convention), ascending, distinct, not yet sorted: copying is wrong.
    if metadata["direction"] != "ascending" or not all(word.isalpha() for word in words):
        return None
    if len(set(words)) < len(words) or words == sorted(words):
        return None
    wordings = ("Sort these words in ascending order: {words}", "Put these words in alphabetical order: {words}")
    subject = ", ".join(words)
    return Draft(subject, _wording(seed, subject, wordings, words=subject), ", ".join(sorted(words)))


def _divisors(name: str, long_name: str) -> Callable[[int], Draft | None]:
    wordings = (
        f"Find the {long_name} ({name.upper()}) of these numbers: {{a}}, {{b}}",
        f"What is the {long_name.lower()} of {{a}} and {{b}}?",
    )

    def draft(seed: int) -> Draft | None:
        entry = _gym(name)[seed]
        a, b = entry["metadata"]["numbers"]
        if a == b:
            return None
        subject = f"{min(a, b)} {max(a, b)}"
        return Draft(subject, _wording(seed, subject, wordings, a=str(a), b=str(b)), entry["answer"])

    return draft


def _ransom_note(seed: int) -> Draft | None:
    entry = _gym("ransom_note")[seed]
    note, magazine = entry["metadata"]["ransom_note"], entry["metadata"]["magazine"]
    wordings = (
        "Can this ransom note be built from the letters of the magazine, each used once? (Answer True or False)\n"
        "Ransom note: {note}\nMagazine: {magazine}",
        "Ransom note: {note}\nMagazine: {magazine}\n"
        "Do the magazine's letters, each used at most once, suffice for the note? (Answer True or False)",
    )
    subject = f"{note} {magazine}"
    return Draft(subject, _wording(seed, subject, wordings, note=note, magazine=magazine), entry["answer"])


def _syllogism(seed: int) -> Draft | None:
    entry = _gym("syllogism")[seed]
    one, two, conclusion = (entry["metadata"][key] for key in ("premise1", "premise2", "conclusion"))
    if follows((one, two), conclusion) is not (entry["answer"] == "Yes"):
        return None
    wordings = (
        "Consider these statements: {one}. {two}.\nDoes it logically follow that: {conclusion}? (Answer Yes or No)",
        "{one}. {two}.\nDoes it follow that: {conclusion}? (Answer Yes or No)",
    )
    subject = f"{one}. {two}. {conclusion}"
    return Draft(subject, _wording(seed, subject, wordings, one=one, two=two, conclusion=conclusion), entry["answer"])


# ---- ours: programs of two and three steps ------------------------------------------------------

_STEPS: Mapping[str, Callable[[Any], Any]] = {
    "sort": sorted,
    "first": lambda value: value[0],
    "last": lambda value: value[-1],
    "reverse": lambda value: value[::-1],
    "length": len,
    "gcd": lambda value: math.gcd(*value),
    "square": lambda value: value**2,
}
_TWIN = {"first": "last", "last": "first"}


def run_program(steps: tuple[str, ...], value: Any) -> Any:
    """Apply named steps in order; None when a step cannot use what it gets."""
    for step in steps:
        try:
            value = _STEPS[step](value)
        except TypeError:
            return None
    return value


def wrong_programs(steps: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Programs that must not reach the answer: each proper subsequence, and the wrong end of the list.

    The wrong end is only asked of programs that end in a length, where it could agree by chance.
    """
    shorter = [subset for size in range(len(steps)) for subset in combinations(steps, size)]
    if steps[-1] == "length":
        shorter.append(tuple(_TWIN.get(step, step) for step in steps))
    return shorter


def _program(steps: tuple[str, ...], *wordings: str) -> Callable[[int], Draft | None]:
    def draft(seed: int) -> Draft | None:
        rng = Random(f"{' > '.join(steps)}:{seed}")
        if steps[0] == "gcd":
            divisor = rng.randint(2, 12)
            value: list[Any] = [divisor * factor for factor in rng.sample(range(1, 13), 2)]
            subject = " ".join(str(number) for number in sorted(value))
        else:
            value = rng.sample(WORDS, rng.randint(3, 4))
            subject = ", ".join(value)
        answer = run_program(steps, value)
        if any(run_program(wrong, value) == answer for wrong in wrong_programs(steps)):
            return None
        shown = {"a": str(value[0]), "b": str(value[1]), "words": ", ".join(str(item) for item in value)}
        return Draft(subject, _wording(seed, subject, wordings, **shown), str(answer))

    return draft


_FIRST_DAY, _DAYS = date(2000, 1, 1), 18_262


def _weekday(seed: int) -> Draft | None:
    day = _FIRST_DAY + timedelta(days=Random(f"weekday:{seed}").randrange(_DAYS))
    wordings = ("What day of the week is {day}?", "On which day of the week does {day} fall?")
    # Not strftime: its day names follow the locale of the machine.
    names = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    return Draft(day.isoformat(), _wording(seed, day.isoformat(), wordings, day=day.isoformat()), names[day.weekday()])


FAMILIES: Mapping[str, Family] = {
    "chain_sum": Family("one_step", _chain_sum),
    "letter_counting": Family("one_step", _letter_counting),
    "spell_backward": Family("one_step", _spell_backward),
    "word_sorting": Family("one_step", _word_sorting),
    "gcd": Family("one_step", _divisors("gcd", "Greatest Common Divisor")),
    "lcm": Family("one_step", _divisors("lcm", "Least Common Multiple")),
    "sort_last": Family(
        "two_step",
        _program(
            ("sort", "last"),
            "Which of these words comes last in alphabetical order? Words: {words}",
            "Which word is alphabetically last? Words: {words}",
        ),
    ),
    "sort_first": Family(
        "two_step",
        _program(
            ("sort", "first"),
            "Which of these words comes first in alphabetical order? Words: {words}",
            "Which word is alphabetically first? Words: {words}",
        ),
    ),
    "last_reversed": Family(
        "two_step",
        _program(
            ("last", "reverse"),
            "Take the last word of the list and spell it backward. List: {words}",
            "Spell the last word of this list backward: {words}",
        ),
    ),
    "gcd_squared": Family(
        "two_step",
        _program(
            ("gcd", "square"),
            "What is the square of the greatest common divisor of {a} and {b}?",
            "Find the greatest common divisor of {a} and {b}, then square it.",
        ),
    ),
    "sort_first_reversed": Family(
        "three_step",
        _program(
            ("sort", "first", "reverse"),
            "Spell backward the word that comes first in alphabetical order. Words: {words}",
            "Which word is alphabetically first? Spell it backward. Words: {words}",
        ),
    ),
    "sort_last_length": Family(
        "three_step",
        _program(
            ("sort", "last", "length"),
            "How many letters are in the word that comes last in alphabetical order? Words: {words}",
            "Count the letters of the alphabetically last word. Words: {words}",
        ),
    ),
    "sort_last_reversed": Family(
        "three_step",
        _program(
            ("sort", "last", "reverse"),
            "Spell backward the word that comes last in alphabetical order. Words: {words}",
            "Which word is alphabetically last? Spell it backward. Words: {words}",
        ),
    ),
    "sort_first_length": Family(
        "three_step",
        _program(
            ("sort", "first", "length"),
            "How many letters are in the word that comes first in alphabetical order? Words: {words}",
            "Count the letters of the alphabetically first word. Words: {words}",
        ),
    ),
    "ransom_note": Family("no_tool", _ransom_note, ("True", "False")),
    "syllogism": Family("no_tool", _syllogism, ("Yes", "No")),
    "weekday": Family("unshown", _weekday),
}
"""Every family, in the fixed order of the round robin."""
