from __future__ import annotations

import time

import pytest

from luthier.tasks.benchmarks.options import permute, render, same_choice, split_options
from luthier.tasks.latex import boxed, same_math
from luthier.tasks.scoring import final_answer, judge, same_number, same_text


@pytest.mark.parametrize(
    ("answer", "reference", "equal"),
    [
        ("7", "7", True),
        ("7.0", "7", True),
        ("7.", "7", True),
        ("$1,234", "1234", True),
        ("1,234", "1234.0", True),
        ("1,23", "123", False),
        ("60%", "60", True),
        ("60%", "0.6", False),
        (".5", "0.5", True),
        (".5", "5", False),
        ("-3", "3", False),
        ("−3", "-3", True),
        ("0.3333333", "0.33333333", True),
        ("0.333", "0.3333", False),
        ("1000001", "1000000", False),
        ("**42**", "42", True),
        ("42 and more", "42", False),
        ("", "0", False),
        ("nan", "0", False),
        ("9" * 5000, "9", False),
    ],
)
def test_numbers(answer: str, reference: str, equal: bool) -> None:
    assert same_number(answer, reference) is equal


@pytest.mark.parametrize(
    ("answer", "reference", "equal"),
    [
        ("Yes.", "yes", True),
        ("The answer is: Yes", "Yes", True),
        ("Yes and no", "yes", False),
        ("a,b, c", "a, b, c", True),
        ("b, a, c", "a, b, c", False),
        ("new   york", "New York", True),
        ("not friday", "Friday", False),
        ("...", "Friday", False),
        ("7", "7 apples", False),
    ],
)
def test_texts(answer: str, reference: str, equal: bool) -> None:
    assert same_text(answer, reference) is equal


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"so \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{1}, no, \boxed{2}", "2"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{1} and \boxed{2", "1"),
        (r"\fbox{3}", "3"),
        (r"\boxed 5.", "5"),
        ("} {1} 2", None),
    ],
)
def test_boxes(text: str, content: str | None) -> None:
    assert boxed(text) == content


@pytest.mark.parametrize(
    ("answer", "reference", "equal"),
    [
        (r"\frac12", "0.5", True),
        (r"\dfrac{3}{4}", r"\tfrac34", True),
        ("-1/2", r"-\frac{1}{2}", True),
        (r"2\frac12", "2.5", True),
        ("2 1/2", "21/2", False),
        ("10{,}000", "10000", True),
        (r"10,\!000", "10000", True),
        ("1,234", "1234", True),
        ("(0, 1]", "(0,1]", True),
        ("(0,1)", "(0,1]", False),
        (r"(\frac12, 3)", "(0.5,3)", True),
        ("3, 1", "1, 3", False),
        (r"5\text{ cm}", "5", True),
        (r"\text{(B)}", "B", True),
        ("x = 5", "5", True),
        ("60%", "0.6", False),
        (r"60\%", "60", True),
        (r"90^\circ", "90", True),
        (r"$\sqrt2$", r"\sqrt{2}", True),
        (r"\left(3, \frac{\pi}{2}\right)", r"(3,\frac{\pi}{2})", True),
        ("x+1", "1+x", False),
        ("0.33", r"\frac13", False),
        ("1/0", "1", False),
        ("1 " * 20_000, "1", False),
        (r"\boxed{" * 20_000, "1", False),
        ("(" * 20_000 + "1,", "(1,2)", False),
        ("9" * 5000, "9", False),
        ("monday", r"\text{Monday}", True),
        ("", "1", False),
        (r"10\,\text{cm}", "10", True),
        (r"$10\text{ cm}$", "10", True),
        ("10 cm", "10", True),
        (r"10\text{ thousand}", "10", False),
        (r"10\,\text{dozen}", "10", False),
        ("y=5", "x=5", False),
        ("x = 5", "x=5", True),
        ("5", "x=5", True),
        ("x = 1, y = 2", "x=1,y=2", True),
        ("x = 1, z = 2", "x=1,y=2", False),
        (r"0.5, 3", r"\frac12, 3", True),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \\ \end{pmatrix}", True),
        (r"\begin{pmatrix}1\\[2pt] 2\end{pmatrix}", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", True),
        (r"\begin{pmatrix}1&2&3\\4\end{pmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", False),
    ],
)
def test_mathematics(answer: str, reference: str, equal: bool) -> None:
    assert same_math(answer, reference) is equal


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("(" * 400_000 + "1,", "(1,2)"),
        ("1," * 200_000, "(1,2)"),
        (r"\text{" + " " * 20_000, "1"),
        (r"5\text{" + " " * 20_000, "(" + "1,2" * 2_000 + ")"),
        ("1," * 20_000, "(" + "1,2" * 4_000 + ")"),
        ("5" + r"\," * 20_000 + "x", "1" * 5_000),
    ],
)
def test_mathematics_takes_no_longer_than_its_length(answer: str, reference: str) -> None:
    started = time.process_time()
    assert not same_math(answer, reference)
    assert time.process_time() - started < 0.5  # a twentieth of that where nothing else runs; quadratic took 2.8 s


OPTIONS = ("a red cat", "a cat", "7", "A", "x")


@pytest.mark.parametrize(
    ("answer", "letter", "chosen"),
    [
        ("B", "B", True),
        ("(B)", "B", True),
        ("b)", "(B)", True),
        ("B.", "B", True),
        ("The answer is (B).", "B", True),
        ("Option B", "B", True),
        ("A cat.", "B", True),
        ("(B) a cat", "B", True),
        ("B) a red cat", "B", False),
        ("(A) a cat", "B", False),
        ("it is a cat", "B", False),
        ("B or C", "B", False),
        ("7", "C", True),
        ("A", "D", False),  # a lone letter is a letter, whatever the options say
        ("A", "A", True),
        ("", "A", False),
        ("()", "A", False),
        ("x", "E", True),  # no option has this letter, so it is a text
        ("x", "A", False),
    ],
)
def test_choices(answer: str, letter: str, chosen: bool) -> None:
    assert same_choice(answer, letter, OPTIONS) is chosen


def test_options_are_permuted_by_their_key_alone() -> None:
    assert sorted(permute(OPTIONS, "q")) == [0, 1, 2, 3, 4]
    assert permute(OPTIONS, "q") == permute(("v", "w", "x", "y", "z"), "q")
    assert len({permute(OPTIONS[:4], str(key)) for key in range(200)}) == 24


@pytest.mark.parametrize(
    "last",
    [
        *("All of the above", "None of these", "Both A and C", "B or C", "Neither (A) nor (B)"),
        *(
            "Both a and b",
            "a, b and c",
            "all of the mentioned",
            "None of the mentioned",
            "either a or b",
            "all of them",
        ),
    ],
)
def test_options_that_speak_of_each_other_keep_their_order(last: str) -> None:
    assert all(permute(("x", "y", "z", last), str(key)) == (0, 1, 2, 3) for key in range(20))


@pytest.mark.parametrize("last", ["a cat and a dog", "both a dog and a cat", "It is not a bird", "what a man answers"])
def test_options_that_only_look_like_it_are_moved(last: str) -> None:
    assert len({permute(("x", "y", "z", last), str(key)) for key in range(20)}) > 5


def test_options_part_from_a_text_and_join_again() -> None:
    text = "Which?\nOptions:\n(A) one\n(B) two (2)"
    stem, options = split_options(text)
    assert (stem, options) == ("Which?\nOptions:", ("one", "two (2)"))
    assert f"{stem}\n{render(options)}" == text


@pytest.mark.parametrize(
    "text", ["no options", "x\n(A) only one", "x\n(B) b\n(A) a", "x\n(A) a\n(C) c", "x\n- Yes\n- No"]
)
def test_other_texts_have_no_options(text: str) -> None:
    assert split_options(text) == (text, ())


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("So 3 + 4 = 7.\nThe answer is 7.", "7."),
        ("Answer: B", "B"),
        ("the answer is 3, no: the answer is 4", "4"),
        ("The answer is 7.\nOr perhaps 8.", "The answer is 7.\nOr perhaps 8."),
        ("plain", "plain"),
    ],
)
def test_final_answers(text: str, answer: str) -> None:
    assert final_answer(text) == answer


def test_feedback_names_the_reference_and_cuts_the_answer() -> None:
    assert judge(True, "x", "x").feedback == "Correct."
    assert judge(False, " ", "x").feedback == "No answer was given."
    wrong = judge(False, "y" * 1000, "x")
    assert wrong.value == 0.0
    assert "Expected 'x'" in wrong.feedback
    assert len(wrong.feedback) < 200
