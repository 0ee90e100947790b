"""Numbers with their units: which words after a number leave it as it is, and which make it another one."""

from __future__ import annotations

import re
from decimal import Decimal

from luthier.tasks.scoring import EDGES, number, undressed

_MOST_WORDS = 3
_WORD = r"[A-Za-z](?:[A-Za-z]|[./'’-](?=[A-Za-z]))*"
_WITH_WORDS = re.compile(rf"(.*\d)(\s*)({_WORD}(?:\s+{_WORD}){{0,{_MOST_WORDS - 1}}})\.?")
_LONGEST = 200

_ONE_LETTER_UNITS = frozenset("mglLhsCF")
_MULTIPLIERS = """
    hundred hundreds thousand thousands million millions billion billions trillion trillions quadrillion lakh lakhs
    crore crores dozen dozens score gross k mil mill mio mln mn bn tn grand double doubled twice triple tripled thrice
    """
_FRACTIONS = """
    half halves halved third thirds fourth fourths fifth fifths sixth sixths seventh sevenths eighth eighths ninth
    ninths tenth tenths hundredth hundredths thousandth thousandths millionth millionths st nd rd th
    """
_COUNTS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
    """
_RELATIONS = """
    less lesser more fewer greater larger smaller bigger higher lower short shy over under above below off away past
    plus minus multiplied divided by added subtracted and or to through until than without except not no never squared
    cubed factorial power root negative point mod modulo base binary octal hex hexadecimal
    """
_CHANGES = frozenset(" ".join((_MULTIPLIERS, _FRACTIONS, _COUNTS, _RELATIONS)).split())


def changes_number(words: str) -> bool:
    """Whether words after a number make it another number: "18 thousand", "18 dozen", "18 less", "18 and a half".

    Units and plain nouns do not ("18 dollars", "18 miles per hour", "18 m"). The list of words is ours; a single
    letter is taken for a unit only where it commonly is one, because "18 k" and "18 x" are not 18.
    """
    for place, word in enumerate(re.split(r"[\s/'’.-]+", words.strip(" ."))):
        if len(word) == 1 and word not in _ONE_LETTER_UNITS and not (place and word in ("a", "s")):
            return True
        if word.lower() in _CHANGES:
            return True
    return False


def quantity(text: str) -> Decimal | None:
    r"""The number that a text states, alone or with at most three words of unit; None for anything else.

    All dress is taken off first: "18 dollars", "$18$", r"\$18", r"1{,}234" and r"10\,\text{cm}" are numbers.
    """
    if len(text) > _LONGEST:
        return None
    bare = re.sub(r"^([+-])\s+", r"\1", undressed(text))
    if (alone := number(bare)) is not None:
        return alone
    found = _WITH_WORDS.fullmatch(bare.strip(EDGES))
    if found is None or changes_number(found[3]) or (not found[2] and len(found[3]) == 1):
        return None
    return number(found[1])
