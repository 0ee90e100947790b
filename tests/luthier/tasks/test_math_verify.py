"""Our scorers beside math-verify, a kept library for the same question, on real rows and in many forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from luthier.tasks import open_task
from luthier.tasks.latex import same_math

math_verify = pytest.importorskip("math_verify", reason="math-verify is not installed (requirements/embedded.lock)")


def same_there(answer: str, reference: str) -> bool:
    gold = math_verify.parse(f"${reference}$", parsing_timeout=None)
    stated = math_verify.parse(answer, parsing_timeout=None)
    return bool(math_verify.verify(gold, stated, timeout_seconds=None))


FORMS = ("The answer is ${}$.", r"so \boxed{{{}}}", "#### {}", "Final answer: {}")


def test_real_answers_are_judged_alike(shared_data: Path) -> None:
    task = open_task("gsm8k", str(shared_data / "gsm8k" / "part_a.jsonl"))
    questions = task.questions("test", 40, 7)
    for number, question in enumerate(questions):
        form, other = FORMS[number % len(FORMS)], questions[number - 1].reference
        for stated in (question.reference, other):
            answer = form.format(stated)
            ours = task.score(question, answer).value == 1.0
            assert ours is same_there(answer, question.reference), (answer, question.reference)


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        (r"\frac12", "0.5"),
        (r"\dfrac{3}{4}", r"\frac{3}{4}"),
        ("-1/2", r"-\frac{1}{2}"),
        ("10{,}000", "10000"),
        (r"10\,\text{cm}", "10"),
        (r"10\text{ cm}", "10"),
        ("(1, 2)", "(1,2)"),
        ("(0,1)", "(0,1]"),
        ("(2,1)", "(1,2)"),
        ("x=5", "5"),
        ("5", "x=5"),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"),
        (r"\begin{pmatrix} 1 & 2 \\ 4 & 3 \end{pmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"),
        (r"\sqrt2", r"\sqrt{2}"),
        (r"90^\circ", "90"),
        (r"\left(3, \frac{\pi}{2}\right)", r"(3,\frac{\pi}{2})"),
        ("3", "4"),
        ("1/0", "1"),
    ],
)
def test_mathematics_is_judged_alike(answer: str, reference: str) -> None:
    assert same_math(answer, reference) is same_there(rf"\boxed{{{answer}}}", reference)


@pytest.mark.parametrize(
    ("answer", "reference", "ours"),
    [
        ("x+1", "1+x", False),  # we compare forms, it computes
        ("0.33", r"\frac13", False),  # it rounds
        (r"y=5", "x=5", False),  # it drops the name
        (r"10\text{ thousand}", "10", False),  # it drops the word
    ],
)
def test_where_we_differ_we_are_the_stricter(answer: str, reference: str, ours: bool) -> None:
    assert same_math(answer, reference) is ours
