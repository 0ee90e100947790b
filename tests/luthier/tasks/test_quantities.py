from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from luthier.tasks import open_task
from luthier.tasks.quantities import changes_number, quantity
from luthier.tasks.scoring import number


@pytest.mark.parametrize(
    "text",
    [
        "18",
        "18 dollars",
        "18 dollars.",
        "18cm",
        "18 m",
        "18 km/h",
        "18 miles per hour",
        "18 apples left",
        "$18",
        "$18$",
        r"\$18",
        r"$\$18$",
        r"\(18\)",
        r"18\%",
        r"18\text{ dollars}",
        r"18\,\text{cm}",
        "**18**",
        "18.00",
    ],
)
def test_units_and_plain_nouns_leave_a_number_as_it_is(text: str) -> None:
    assert quantity(text) == 18


@pytest.mark.parametrize(
    "text",
    [
        "18 thousand",
        "18 dozen",
        "18 less",
        "18 Million dollars",
        "18 hundred",
        "18k",
        "18 k",
        "18 B",
        "18 x",
        "18th",
        "18 and a half",
        "18 more apples",
        "18 minus two",
        "18 point five",
        "18 squared",
        r"18\text{ thousand}",
        r"18\,\text{dozen}",
        "18 thousand-fold",
        "18 or 19",
        "18 тысяч",
        "18万",
        "18 times 2",
        "18 is what I get in the end",
        "$18$20",
        "-18",
    ],
)
def test_what_changes_a_number_makes_it_another_one(text: str) -> None:
    assert quantity(text) != 18


def test_thousands_are_read_in_every_dress() -> None:
    for text in ("1,234", "1{,}234", r"1\,234", r"1,\!234", "$1,234", r"\$1{,}234"):
        assert quantity(text) == 1234, text
    assert quantity("1,23") is None


def test_the_words_are_judged_one_by_one() -> None:
    assert not changes_number("US dollars")
    assert changes_number("dollars less")
    assert changes_number(" HUNDRED ")


def test_no_published_answer_is_refused_for_its_unit(shared_data: Path) -> None:
    """Each GSM8K answer with each noun that stands behind a number in the questions themselves."""
    file = shared_data / "gsm8k" / "part_a.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    nouns = {noun for row in rows for noun in re.findall(r"\d (\w{4,}s)\b", row["question"])}
    refused = {noun for noun in nouns if quantity(f"18 {noun}") != 18}
    assert len(nouns) > 200
    assert refused <= {"times", "less", "dozens", "tenths", "thirds", "halves"}, refused


def test_every_form_of_a_real_answer_scores_alike(shared_data: Path) -> None:
    task = open_task("gsm8k", str(shared_data / "gsm8k" / "part_a.jsonl"))
    right = (
        "{}",
        "{} dollars",
        "#### {} dollars",
        r"\boxed{{\${}}}",
        r"\boxed{{{} \text{{ apples}}}}",
        "The answer is ${}$. Bye.",
    )
    wrong = ("{} thousand", "#### {} dozen", r"\boxed{{{} \text{{ less}}}}", "The answer is {} hundred.", "1{}")
    for question in task.questions("test", 188, 7):
        grouped = f"{number(question.reference):,}".replace(",", "{,}")
        for form in right:
            for value in (question.reference, grouped):
                assert task.score(question, form.format(value)).value == 1.0, form.format(value)
        for form in wrong:
            assert task.score(question, form.format(question.reference)).value == 0.0, form.format(question.reference)
