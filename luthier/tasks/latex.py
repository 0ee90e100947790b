"""Comparing mathematical answers written in LaTeX, after the normalisation of the MATH benchmark.

Hendrycks et al. 2021 (arXiv 2103.03874) compare strings after removing what does not change the value
(spacing commands, units, percent and dollar signs, "dfrac"). We do so too, and also (ours) accept an
equal rational number written otherwise (0.5 for a half) and compare tuples and intervals part by part.
Words after a number that make it another one ("18 thousand") stay. All of it takes linear time.
"""

from __future__ import annotations

import re
from fractions import Fraction

from luthier.tasks.quantities import changes_number

_DROPPED = re.compile(
    r"\\left(?![a-z])|\\right(?![a-z])|\\[!,;: ]|\\q?quad(?![a-z])|\\(?:displaystyle|mathrm)(?![a-z])|\^\{?\\circ\}?"
    r"|\\circ|\\?%|~"
)
_DELIMITER = re.compile(r"\\?\$|\\[()\[\]]")
_ROW_END = re.compile(r"\\\\(?:\[[^\[\]]{0,20}\])?|\\cr(?![a-z])")
_UNIT = re.compile(
    r"(?<=[\w})])(?:\s|~|\\[,;:! ]|\\q?quad(?![a-z]))*\\(?:text|mbox|textrm|mathrm)\{([^{}()]*)\}(?:\^\{?\d\}?)?$"
)
_PLAIN_UNIT = re.compile(
    r"(?<=\d)\s++(?:square\s|cubic\s|sq\.?\s)?(?:mm|cm|km|inch|inches|ft|foot|feet|yards?|miles?|met(?:er|re)s?"
    r"|centimet(?:er|re)s?|kilomet(?:er|re)s?|units?|degrees?|dollars?|cents?|percent|grams?|kg|pounds?|ounces?|lit(?:er|re)s?"
    r"|seconds?|minutes?|hours?|days?|weeks?|months?|years?|mph|points?|ways?)(?:\^\{?\d\}?)?$"
)
_WORDS = re.compile(r"\\(?:text|mbox|textrm|textbf|mathbf|mathrm)\{([^{}]*)\}")
_NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?")
_LONGEST_NUMBER = 100
_FRACTION = re.compile(r"(-?)\\frac\{([^{}]+)\}\{([^{}]+)\}")
_BRACE = re.compile(r"\\(?:boxed|fbox)\s*\{|\\[{}]|[{}]")
_ASSIGNMENT = re.compile(r"([a-zA-Z]\w?)=(?=.)")
_ROW, _JOIN = "\ue000", "\ue001"
"""Marks of our own in a normal form: the end of a matrix's row, and the space inside a mixed number. Private use."""
_MIXED = re.compile(rf"(-?)(\d{{1,100}}){_JOIN}(.+)")
_LONGEST_ANSWER = 2_000
"""Characters that an answer may have beyond ten times its reference."""


def boxed(text: str) -> str | None:
    r"""The content of the last \boxed{...} or \fbox{...}, braces nested to any depth; None without one.

    A box whose closing brace is missing is no box.
    """
    if "box" not in text:
        return None
    found, found_at = None, -1
    open_braces: list[int] = []  # where the content begins for a box, -1 for any other brace
    for match in _BRACE.finditer(text):
        if match[0] == "}":
            start = open_braces.pop() if open_braces else -1
            if start > found_at:
                found, found_at = text[start : match.start()], start
        elif "box" in match[0] or match[0] == "{":
            open_braces.append(match.end() if "box" in match[0] else -1)
    if found is None and (bare := re.findall(r"\\boxed\s+([^\s${]+)", text)):
        found = bare[-1].rstrip(".,")
    return found


def normal_form(text: str) -> str:
    """A LaTeX answer without what does not change its value."""
    form = text.strip().rstrip(".").strip()
    form = re.sub(r"^\\text\{\s*\(?([A-Za-z])\)?\s*\}$", r"\1", form)
    form = _DELIMITER.sub("", _ROW_END.sub(_ROW, form.replace("{,}", ","))).strip().rstrip(".")
    form = _WORDS.sub(r"\1", _DROPPED.sub("", _without_unit(form)))
    form = re.sub(r"\\[dt]frac", r"\\frac", form).replace("−", "-").strip()
    # What juxtaposition means as a mixed number is marked: "2 1/2" must not become 21/2.
    form = re.sub(r"(?<=\d)\s+(?=\d)|(?<=\d)\s*(?=\\frac)", _JOIN, form)
    form = re.sub(r"\s+", "", form).replace(_ROW + "\\end", "\\end")  # a break after the last row is no row
    form = re.sub(r"\\frac(\d)(\d)(?!\d)", r"\\frac{\1}{\2}", form)
    form = re.sub(r"\\frac(\d)\{", r"\\frac{\1}{", form)
    form = re.sub(r"\\frac\{([^{}]*)\}(\w)", r"\\frac{\1}{\2}", form)
    form = re.sub(r"\\sqrt(\w)", r"\\sqrt{\1}", form)
    form = re.sub(r"(?<![\d.])\.(?=\d)", "0.", form)
    return re.sub(r"^\((.)\)$", r"\1", form)


def same_math(answer: str, reference: str) -> bool:
    """Whether two mathematical answers are equal; an empty answer never is.

    "x = 5" equals 5, whichever side says so, but not "y = 5".
    """
    if len(answer) > _LONGEST_ANSWER + 10 * len(reference):
        return False
    left, right = normal_form(answer), normal_form(reference)
    return bool(left) and _equal(left, right)


def _equal(left: str, right: str) -> bool:
    """Whether two normal forms are equal."""
    if left == right:
        return True
    named, wanted_name = _ASSIGNMENT.match(left), _ASSIGNMENT.match(right)
    if named and wanted_name:
        return named[1] == wanted_name[1] and _equal(left[named.end() :], right[wanted_name.end() :])
    left, right = left[named.end() :] if named else left, right[wanted_name.end() :] if wanted_name else right
    if left == right:
        return True
    one, other = rational(left), rational(right)
    if one is not None or other is not None:
        return one is not None and other is not None and abs(one - other) <= Fraction(1, 10**9)
    parts, wanted = _parts(left), _parts(right)
    if len(parts) > 1 and len(parts) == len(wanted) and _brackets(left) == _brackets(right):
        return all(_equal(part, want) for part, want in zip(parts, wanted, strict=True))
    return left.casefold() == right.casefold() and left.isalpha()


def _without_unit(form: str) -> str:
    """Without a unit at the end, unless it is a word that changes the number before it."""
    found = _UNIT.search(form)
    if found:
        return form if changes_number(found[1]) else form[: found.start()]
    return _PLAIN_UNIT.sub("", form)


def rational(form: str) -> Fraction | None:
    r"""The exact value of a number, of a/b, of \frac{a}{b} or of a mixed number; None for anything else."""
    if mixed := _MIXED.fullmatch(form):
        rest = _quotient(mixed[3])
        return None if rest is None or not 0 <= rest < 1 else (-1 if mixed[1] else 1) * (int(mixed[2]) + rest)
    return _quotient(form)


def _quotient(form: str) -> Fraction | None:
    if match := _FRACTION.fullmatch(form):
        sign, top, bottom = match.groups()
    elif form.count("/") == 1:
        sign, (top, bottom) = "", form.split("/")
    else:
        return _plain_number(form)
    numerator, denominator = _plain_number(top), _plain_number(bottom)
    if numerator is None or not denominator:
        return None
    return (-1 if sign else 1) * numerator / denominator


def _plain_number(form: str) -> Fraction | None:
    if len(form) > _LONGEST_NUMBER or not _NUMBER.fullmatch(form) or not any(character.isdigit() for character in form):
        return None
    return Fraction(form.replace(",", ""))


def _brackets(form: str) -> tuple[str, str]:
    r"""What opens and closes a tuple, interval or set (\{ \}); ("", "") for a plain list."""
    if len(form) > 1 and form[0] in "([" and form[-1] in ")]":
        return form[0], form[-1]
    if len(form) > 3 and form.startswith("\\{") and form.endswith("\\}"):
        return "\\{", "\\}"
    return "", ""


def _parts(form: str) -> list[str]:
    """The parts of a tuple, interval, set or plain list, split at commas outside any bracket."""
    opening, closing = _brackets(form)
    inner = form[len(opening) : len(form) - len(closing)]
    parts, depth, start = [], 0, 0
    for place, character in enumerate(inner):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(inner[start:place])
            start = place + 1
    return [*parts, inner[start:]]
