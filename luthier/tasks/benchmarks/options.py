"""Multiple choice: options in an order of our own, and answers by letter or by text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from random import Random
from string import ascii_uppercase

from luthier.tasks.scoring import plain

_LETTERS = r"\(?[a-j]\)?"
_SPEAKS_OF_OTHERS = re.compile(
    r"\b(?:all|both|any|none|neither|either|each|some|most|two)(?: of)?(?: the)? (?:above|below|preceding|following)\b"
    r"|\b(?:the|of) (?:above|below)\b"
    r"|\b(?:all|both|any|none|neither|either|each|two|only one) (?:of )?(?:the |these |those )?(?:other )?"
    r"(?:mentioned|listed|given|options?|choices?|answers?|alternatives?|statements?|them|these|those)\b"
    r"|\bof (?:these|those|the (?:other )?(?:options|choices|answers|mentioned))\b"
    r"|\b(?:options?|choices?|answers?) \(?[a-j]\b(?! \w{2})"
    rf"|\b(?:both|either|neither|only|not) {_LETTERS},? (?:and|or|nor|&) {_LETTERS}(?!\w)"
    rf"|^{_LETTERS}(?:, ?{_LETTERS})*,? ?(?:and|or|nor|&) ?{_LETTERS}(?: only| both)?\.?$",
    re.IGNORECASE | re.ASCII,
)
_NAMES_LETTERS = re.compile(r"\b[A-J]\)?,? (?:and|or|nor|&) \(?[A-J]\b|\b(?i:both|either|neither|only|not) \(?[B-H]\b")
_LEAD_IN = re.compile(
    r"^(?:the\s+)?(?:correct\s+|final\s+)?(?:answer|option|choice)\s*(?:is\s*:?|[:=])\s*", re.IGNORECASE | re.ASCII
)
_LETTERED = re.compile(r"(?:option|choice)?\s*\(?([A-Z])\)?\s*[.):]?", re.IGNORECASE | re.ASCII)
_LETTER_AND_TEXT = re.compile(r"(?:\(([A-Z])\)\s*[.:]?|([A-Z])[.):])\s+(.+)", re.IGNORECASE | re.ASCII | re.DOTALL)


def permute(options: Sequence[str], key: str) -> tuple[int, ...]:
    """The order in which to show the options: place i shows the published option `permutation[i]`.

    Seeded by `key` alone, so that a question looks the same in every run. Options that speak of each
    other ("none of the above", "all of the mentioned", "Both a and b") keep their published order: moving
    them would change them.
    """
    order = list(range(len(options)))
    if not any(_speaks_of_others(option) for option in options):
        Random(f"options:{key}").shuffle(order)
    return tuple(order)


def _speaks_of_others(option: str) -> bool:
    return bool(_SPEAKS_OF_OTHERS.search(option) or _NAMES_LETTERS.search(option))


def render(options: Sequence[str]) -> str:
    """One lettered option a line: "(A) ..."."""
    return "\n".join(f"({ascii_uppercase[place]}) {option}" for place, option in enumerate(options))


def same_choice(answer: str, letter: str, options: Sequence[str]) -> bool:
    """Whether an answer chooses the option of a letter.

    "B", "(b)", "B)", "B.", "(B) its text" and its text alone all choose B. A letter before the text of
    another option chooses nothing, nor does a text that only contains the option's.
    """
    wanted = letter.strip("() ").upper()
    place = ascii_uppercase.index(wanted)
    bare = _bare(answer)
    only = _LETTERED.fullmatch(bare)
    if only and ascii_uppercase.index(only[1].upper()) < len(options):
        return only[1].upper() == wanted
    if both := _LETTER_AND_TEXT.fullmatch(bare):
        if (both[1] or both[2]).upper() != wanted:
            return False
        bare = both[3]
    return bool(plain(bare)) and place < len(options) and plain(bare) == plain(options[place])


def chosen(readings: Iterable[str], letter: str, options: Sequence[str]) -> bool:
    """Whether one of the readings of an answer chooses the option of a letter.

    A letter before the text of another option ends the search: "The answer is B. Paris" does not choose B where
    Paris is C, but "The answer is B. I hope it is correct." does.
    """
    for reading in readings:
        if same_choice(reading, letter, options):
            return True
        both = _LETTER_AND_TEXT.fullmatch(_bare(reading))
        if both and plain(both[3]) in map(plain, options):
            return False
    return False


def split_options(text: str) -> tuple[str, tuple[str, ...]]:
    """Part a published text into what stands before its lettered options, and these options.

    Returns:
        (text, ()) when the text does not end in the lines "(A) ...", "(B) ...", and so on from A.
    """
    lines = text.rstrip().split("\n")
    options: list[tuple[str, str]] = []
    while lines and (match := re.fullmatch(r"\(([A-Z])\)\s*(.*\S)\s*", lines[-1])):
        options.insert(0, (match[1], match[2]))
        lines.pop()
    letters = "".join(letter for letter, _ in options)
    if len(options) < 2 or letters != ascii_uppercase[: len(options)]:
        return text, ()
    return "\n".join(lines), tuple(option for _, option in options)


def _bare(answer: str) -> str:
    """The answer without lead-in and quotes; brackets and the closing mark of a letter are kept."""
    return _LEAD_IN.sub("", answer.strip(), count=1).strip(" \t\r\n\"'`*")
