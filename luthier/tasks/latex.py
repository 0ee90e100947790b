"""Comparing mathematical answers written in LaTeX, after the normalisation of the MATH benchmark.

Hendrycks et al. 2021 (arXiv 2103.03874) compare strings after removing what does not change the value
(spacing commands, units, percent and dollar signs, "dfrac"). We do so too, and also (ours) accept an
equal rational number written otherwise (0.5 for a half) and compare tuples and intervals part by part.
"""

from __future__ import annotations

import re
from fractions import Fraction

_DROPPED = re.compile(
    r"\\left(?![a-z])|\\right(?![a-z])|\\[!,;: ]|\\quad|\\(?:displaystyle|mathrm)(?![a-z])|\^\{?\\circ\}?|\\circ"
    r"|\\?%|\\?\$|\\[()\[\]]|~"
)
_UNIT = re.compile(r"(?<=[\w})])\s*\\(?:text|mbox|textrm|mathrm)\{\s*[^{}()]*\}(?:\^\{?\d\}?)?$")
_WORDS = re.compile(r"\\(?:text|mbox|textrm|textbf|mathbf|mathrm)\{([^{}]*)\}")
_NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?")
_LONGEST_NUMBER = 100
_MIXED = re.compile(r"(-?)(\d{1,100})&(.+)")
_FRACTION = re.compile(r"(-?)\\frac\{([^{}]+)\}\{([^{}]+)\}")
_BRACE = re.compile(r"\\(?:boxed|fbox)\s*\{|\\[{}]|[{}]")
_ASSIGNMENT = re.compile(r"^[a-zA-Z]\w?\s*=\s*(?=\S)")


def boxed(text: str) -> str | None:
    r"""The content of the last \boxed{...} or \fbox{...}, braces nested to any depth; None without one.

    A box whose closing brace is missing is no box.
    """
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
    form = _UNIT.sub("", form.replace("{,}", ","))
    form = _WORDS.sub(r"\1", _DROPPED.sub("", form))
    form = re.sub(r"\\[dt]frac", r"\\frac", form).replace("−", "-")
    form = _ASSIGNMENT.sub("", form.strip())
    # "&" joins what juxtaposition means as a mixed number: "2 1/2" must not become 21/2.
    form = re.sub(r"(?<=\d)\s+(?=\d)|(?<=\d)\s*(?=\\frac)", "&", form)
    form = re.sub(r"\s+", "", form)
    form = re.sub(r"\\frac(\d)(\d)(?!\d)", r"\\frac{\1}{\2}", form)
    form = re.sub(r"\\frac(\d)\{", r"\\frac{\1}{", form)
    form = re.sub(r"\\frac\{([^{}]*)\}(\w)", r"\\frac{\1}{\2}", form)
    form = re.sub(r"\\sqrt(\w)", r"\\sqrt{\1}", form)
    form = re.sub(r"(?<![\d.])\.(?=\d)", "0.", form)
    return re.sub(r"^\((.)\)$", r"\1", form)


def same_math(answer: str, reference: str) -> bool:
    """Whether two mathematical answers are equal; an empty answer never is."""
    left, right = normal_form(answer), normal_form(reference)
    if not left:
        return False
    if left == right:
        return True
    one, other = rational(left), rational(right)
    if one is not None or other is not None:
        return one is not None and other is not None and abs(one - other) <= Fraction(1, 10**9)
    parts, wanted = _parts(left), _parts(right)
    if len(parts) > 1 and len(parts) == len(wanted) and (left[0], left[-1]) == (right[0], right[-1]):
        return all(same_math(part, want) for part, want in zip(parts, wanted, strict=True))
    return left.casefold() == right.casefold() and left.isalpha()


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


def _parts(form: str) -> list[str]:
    """The parts of a tuple, interval, set or plain list, split at commas outside any bracket."""
    inner = form
    if len(form) > 1 and form[0] in "([" and form[-1] in ")]":
        inner = form[1:-1]
    elif form.startswith("\\{") and form.endswith("\\}"):
        inner = form[2:-2]
    parts, depth = [""], 0
    for character in inner:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
