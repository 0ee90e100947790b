"""The families from reasoning-gym: its generators and answers, our shorter wordings.

Question `i` depends on `i` alone. A family returns None for a seed that would reward a wrong program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from luthier.tasks.generated.syllogisms import follows
from luthier.tasks.question_draft import Draft, worded

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


def chain_sum(seed: int) -> Draft | None:
    """A sum of two or three numbers of one or two digits."""
    entry = _gym("chain_sum")[seed]
    expression = entry["metadata"]["expression"]
    wordings = (
        "State the final answer to the following arithmetic problem: {e} =",
        "What is {e}?",
        "Calculate {e}.",
    )
    return Draft(expression, worded(seed, expression, wordings, e=expression), entry["answer"])


def letter_counting(seed: int) -> Draft | None:
    """A letter to count in three to six lower-case words (lower case is ours: no question whether "A" is an "a")."""
    entry = _gym("letter_counting")[seed]
    letter, span = entry["metadata"]["target_letter"], " ".join(entry["metadata"]["span"]).lower()
    if not letter.isalpha():
        return None
    wordings = (
        'How many times does the letter "{letter}" appear in the text: "{span}"?',
        'Count the letter "{letter}" in the text: "{span}".',
    )
    subject = f"{letter} {span}"
    return Draft(subject, worded(seed, subject, wordings, letter=letter, span=span), entry["answer"])


def spell_backward(seed: int) -> Draft | None:
    """A word of three to six letters to reverse; palindromes and the wording's own example are left out."""
    entry = _gym("spell_backward")[seed]
    word = entry["metadata"]["word"].lower()
    if word in ("sun", word[::-1]) or not word.isalpha():
        return None
    wordings = ("Spell this word backward (example: sun -> nus): {word}", "Spell the word backward: {word}")
    return Draft(word, worded(seed, word, wordings, word=word), word[::-1])


def word_sorting(seed: int) -> Draft | None:
    """Three or four words to sort."""
    metadata = _gym("word_sorting")[seed]["metadata"]
    words = [word.lower() for word in metadata["original_words"]]
    # Lower case (the order of "B" and "a" is a convention), ascending, distinct, not yet sorted: copying is wrong.
    if metadata["direction"] != "ascending" or not all(word.isalpha() for word in words):
        return None
    if len(set(words)) < len(words) or words == sorted(words):
        return None
    wordings = ("Sort these words in ascending order: {words}", "Put these words in alphabetical order: {words}")
    subject = ", ".join(words)
    return Draft(subject, worded(seed, subject, wordings, words=subject), ", ".join(sorted(words)))


def divisors(name: str, long_name: str) -> Callable[[int], Draft | None]:
    """Two different numbers whose greatest common divisor or least common multiple is asked ("gcd", "lcm")."""
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
        return Draft(subject, worded(seed, subject, wordings, a=str(a), b=str(b)), entry["answer"])

    return draft


def ransom_note(seed: int) -> Draft | None:
    """Whether the letters of one text suffice for another."""
    entry = _gym("ransom_note")[seed]
    note, magazine = entry["metadata"]["ransom_note"], entry["metadata"]["magazine"]
    wordings = (
        "Can this ransom note be built from the letters of the magazine, each used once? (Answer True or False)\n"
        "Ransom note: {note}\nMagazine: {magazine}",
        "Ransom note: {note}\nMagazine: {magazine}\n"
        "Do the magazine's letters, each used at most once, suffice for the note? (Answer True or False)",
    )
    subject = f"{note} {magazine}"
    return Draft(subject, worded(seed, subject, wordings, note=note, magazine=magazine), entry["answer"])


def syllogism(seed: int) -> Draft | None:
    """Whether a conclusion follows; only questions whose answer `luthier.tasks.generated.syllogisms` confirms."""
    entry = _gym("syllogism")[seed]
    one, two, conclusion = (entry["metadata"][key] for key in ("premise1", "premise2", "conclusion"))
    if follows((one, two), conclusion) is not (entry["answer"] == "Yes"):
        return None
    wordings = (
        "Consider these statements: {one}. {two}.\nDoes it logically follow that: {conclusion}? (Answer Yes or No)",
        "{one}. {two}.\nDoes it follow that: {conclusion}? (Answer Yes or No)",
    )
    subject = f"{one}. {two}. {conclusion}"
    return Draft(subject, worded(seed, subject, wordings, one=one, two=two, conclusion=conclusion), entry["answer"])
