"""The families of the mixed suite: from a seed to one question with an exact reference.

Eight come from reasoning-gym (`gym_families`); the composites (`programs`) and `weekday` are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random
from typing import Literal

from luthier.tasks.generated import gym_families
from luthier.tasks.generated.programs import program
from luthier.tasks.question_draft import Draft, worded

FamilyKind = Literal["one_step", "two_step", "three_step", "no_tool", "unshown"]


@dataclass(frozen=True, slots=True)
class Family:
    """One family.

    Attributes:
        kind: How many tools a solver needs, or that no tool helps, or that no teacher shows it.
        draft: Seed -> question, or None for a seed that gives none. Equal seeds give equal drafts.
        labels: The possible answers of a closed family, which the suite balances; () for an open one.
    """

    kind: FamilyKind
    draft: Callable[[int], Draft | None]
    labels: tuple[str, ...] = ()


_FIRST_DAY, _DAYS = date(2000, 1, 1), 18_262


def _weekday(seed: int) -> Draft | None:
    day = _FIRST_DAY + timedelta(days=Random(f"weekday:{seed}").randrange(_DAYS))
    wordings = ("What day of the week is {day}?", "On which day of the week does {day} fall?")
    # Not strftime: its day names follow the locale of the machine.
    names = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    return Draft(day.isoformat(), worded(seed, day.isoformat(), wordings, day=day.isoformat()), names[day.weekday()])


FAMILIES: Mapping[str, Family] = {
    "chain_sum": Family("one_step", gym_families.chain_sum),
    "letter_counting": Family("one_step", gym_families.letter_counting),
    "spell_backward": Family("one_step", gym_families.spell_backward),
    "word_sorting": Family("one_step", gym_families.word_sorting),
    "gcd": Family("one_step", gym_families.divisors("gcd", "Greatest Common Divisor")),
    "lcm": Family("one_step", gym_families.divisors("lcm", "Least Common Multiple")),
    "sort_last": Family(
        "two_step",
        program(
            ("sort", "last"),
            "Which of these words comes last in alphabetical order? Words: {words}",
            "Which word is alphabetically last? Words: {words}",
        ),
    ),
    "sort_first": Family(
        "two_step",
        program(
            ("sort", "first"),
            "Which of these words comes first in alphabetical order? Words: {words}",
            "Which word is alphabetically first? Words: {words}",
        ),
    ),
    "last_reversed": Family(
        "two_step",
        program(
            ("last", "reverse"),
            "Take the last word of the list and spell it backward. List: {words}",
            "Spell the last word of this list backward: {words}",
        ),
    ),
    "gcd_squared": Family(
        "two_step",
        program(
            ("gcd", "square"),
            "What is the square of the greatest common divisor of {a} and {b}?",
            "Find the greatest common divisor of {a} and {b}, then square it.",
        ),
    ),
    "sort_first_reversed": Family(
        "three_step",
        program(
            ("sort", "first", "reverse"),
            "Spell backward the word that comes first in alphabetical order. Words: {words}",
            "Which word is alphabetically first? Spell it backward. Words: {words}",
        ),
    ),
    "sort_last_length": Family(
        "three_step",
        program(
            ("sort", "last", "length"),
            "How many letters are in the word that comes last in alphabetical order? Words: {words}",
            "Count the letters of the alphabetically last word. Words: {words}",
        ),
    ),
    "sort_last_reversed": Family(
        "three_step",
        program(
            ("sort", "last", "reverse"),
            "Spell backward the word that comes last in alphabetical order. Words: {words}",
            "Which word is alphabetically last? Spell it backward. Words: {words}",
        ),
    ),
    "sort_first_length": Family(
        "three_step",
        program(
            ("sort", "first", "length"),
            "How many letters are in the word that comes first in alphabetical order? Words: {words}",
            "Count the letters of the alphabetically first word. Words: {words}",
        ),
    ),
    "ransom_note": Family("no_tool", gym_families.ransom_note, ("True", "False")),
    "syllogism": Family("no_tool", gym_families.syllogism, ("Yes", "No")),
    "weekday": Family("unshown", _weekday),
}
"""Every family, in the fixed order of the round robin."""

HELD_OUT: Mapping[str, Family] = {
    "first_reversed": Family(
        "two_step",
        program(
            ("first", "reverse"),
            "Take the first word of the list and spell it backward. List: {words}",
            "Spell the first word of this list backward: {words}",
        ),
    ),
    "last_length": Family(
        "two_step",
        program(
            ("last", "length"),
            "How many letters are in the last word of the list? List: {words}",
            "Count the letters of the last word of this list: {words}",
        ),
    ),
    "lcm_squared": Family(
        "two_step",
        program(
            ("lcm", "square"),
            "What is the square of the least common multiple of {a} and {b}?",
            "Find the least common multiple of {a} and {b}, then square it.",
        ),
    ),
}
"""Families that stand in no split: nobody trains, searches or chooses on them. They join parts of the others anew."""
