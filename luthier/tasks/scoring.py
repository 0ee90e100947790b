"""Normalisers shared by the tasks: what counts as the same answer.

An answer is compared as a whole: text that merely contains the reference somewhere is wrong. Only a
lead-in ("The answer is ...", "Answer: ..."), surrounding punctuation, case and spacing are forgiven.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from luthier.task import Score

_LEAD_IN = re.compile(
    r"^(?:so\s+|thus\s+|therefore,?\s+)?(?:the\s+)?(?:final\s+)?answer(?:\s+is\s*:?|\s*[:=])\s*",
    re.IGNORECASE | re.ASCII,
)
EDGES = " \t\r\n.,;:!?\"'`*"
"""What may stand around an answer without being part of it."""
ANSWER_MARK = re.compile(r"\banswer(?:\s+is\s*:?|\s*:)\s*(?=\S)", re.IGNORECASE | re.ASCII)
"""What models write before their answer, wherever it stands."""
_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?")
TOLERANCE = Decimal("1e-6")
"""Absolute, between numbers that count as equal."""
_LONGEST_NUMBER = 100
"""Characters; longer digit strings are no answer to anything and would only cost time."""
_UNITS = re.compile(r"^([+-]?)\s*[$€£]\s*|\s*(?:\\?%)$")
_SPACING = re.compile(r"\\[,;: ]|\\q?quad(?![a-zA-Z])|~")
_NOTHING = re.compile(r"\\!|\\displaystyle(?![a-zA-Z])|\\[()\[\]]|\\left(?![a-zA-Z])|\\right(?![a-zA-Z])")
_TEXTS = re.compile(r"\\(?:text|textbf|textrm|mbox|mathrm|mathbf)\{([^{}]*)\}")


def plain(text: str) -> str:
    """An answer without lead-in, outer punctuation, case and repeated spaces."""
    return re.sub(r"\s+", " ", _LEAD_IN.sub("", text.strip()).strip(EDGES)).casefold()


def undressed(text: str) -> str:
    r"""A plain answer without the LaTeX around it: "$18$", r"\$18", r"1{,}234", r"\text{Yes}", r"10\,\text{cm}".

    For the answers of texts and numbers; mathematics has `luthier.tasks.latex.normal_form`.
    """
    bare = re.sub(r"(?<=\d)\\,(?=\d{3}(?!\d))", "", text.replace("{,}", ","))
    bare = _TEXTS.sub(r" \1", _NOTHING.sub("", _SPACING.sub(" ", bare)))
    return bare.replace("\\$", " ").replace("$", " ").replace("\\%", "%").strip()


def number(text: str) -> Decimal | None:
    """The number that a text is, or None when it is anything else.

    Thousands separators, one currency sign before and one percent sign after are dropped, as the
    GSM8K and MATH normalisers do: "60%" is 60 and not 0.6.
    """
    bare = plain(_keep_point(text))
    if len(bare) > 2 * _LONGEST_NUMBER:
        return None
    bare = _UNITS.sub(r"\1", _UNITS.sub(r"\1", bare))
    bare = bare.replace("−", "-")
    if not bare or len(bare) > _LONGEST_NUMBER or not _NUMBER.fullmatch(bare) or not any(c.isdigit() for c in bare):
        return None
    try:
        return Decimal(bare.replace(",", ""))
    except InvalidOperation:
        return None


def same_number(answer: str, reference: str) -> bool:
    """Whether both are numbers and differ by at most `TOLERANCE`; two integers must be equal."""
    left, right = number(answer), number(reference)
    if left is None or right is None:
        return False
    return abs(left - right) <= TOLERANCE


def items(text: str) -> tuple[str, ...]:
    """The plain items of a comma-separated list, spaces around commas and outer brackets ignored."""
    inner = plain(text).strip("[](){} ")
    return tuple(item.strip(EDGES) for item in inner.split(","))


def same_text(answer: str, reference: str) -> bool:
    """Whether two answers are equal as plain text, as numbers or as lists; an empty answer never is."""
    if answer.strip() and answer.strip() == reference.strip():  # also where the text is punctuation alone
        return True
    if not plain(answer):
        return False
    if number(reference) is not None:
        return same_number(answer, reference)
    if "," in reference:
        return items(answer) == items(reference)
    return plain(answer) == plain(reference)


def judge(correct: bool, answer: str, reference: str) -> Score:
    """A 0/1 score with the sentence that text-reading searches learn from."""
    if correct:
        return Score(1.0, "Correct.")
    shown = re.sub(r"\s+", " ", answer[:2000]).strip()[:120]
    return Score(0.0, f"Expected {reference!r}, but the answer was {shown!r}." if shown else "No answer was given.")


def _keep_point(text: str) -> str:
    """Give ".5" its leading zero, so that stripping punctuation does not turn it into 5."""
    return re.sub(r"(?<![\d.])\.(?=\d)", "0.", text)


def final_answer(text: str) -> str:
    """What a worked solution ends in: after the last "answer is" on its last line, else the whole text."""
    last_line = text.strip().rsplit("\n", 1)[-1]
    found = list(ANSWER_MARK.finditer(last_line))
    return last_line[found[-1].end() :] if found else text
