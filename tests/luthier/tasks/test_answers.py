from __future__ import annotations

import pytest

from luthier.tasks.answers import LONGEST_ANSWER, readable, readings


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("18", "18"),
        ("\ufeff18", "18"),
        ("<think>perhaps 17</think>18", "18"),
        ("<think>a</think>b<think>c</think>\n18", "\n18"),
        ("the opening tag stood in the prompt</think> 18", " 18"),
        ("<thinking>perhaps 17</thinking>18", "18"),
        (" <think>18, but it never ends", ""),
        ("x" * (LONGEST_ANSWER + 1), ""),
        ("<think>" + "x" * 10 * LONGEST_ANSWER + "</think>18", "18"),
    ],
)
def test_thoughts_and_what_is_too_long_are_left_out(answer: str, text: str) -> None:
    assert readable(answer) == text


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("18", ("18",)),
        (" \ufeff\n", ()),
        ("It is so.\nThe answer is 18.", ("It is so.\nThe answer is 18.", "18.")),
        (
            "The answer is 18. I hope it is correct.",
            ("The answer is 18. I hope it is correct.", "18. I hope it is correct.", "18"),
        ),
        ("Answer: St. Louis. Sure!", ("Answer: St. Louis. Sure!", "St. Louis. Sure!", "St", "St. Louis")),
        ("answer is 3, no: the answer is 4", ("answer is 3, no: the answer is 4", "4")),
        ("18\n\nQuestion: and then?\nThe answer is 20", ("18",)),
        ("18\nProblem 2: and then?\n20", ("18",)),
        ("Question: how many?\n18", ("Question: how many?\n18",)),
        ("18<|im_end|>\n<|im_start|>user", ("18",)),
        (r"so \boxed{\text{B}}. The answer is C", (r"so \boxed{\text{B}}. The answer is C", "B")),
    ],
)
def test_readings_begin_with_the_whole_text(answer: str, found: tuple[str, ...]) -> None:
    assert readings(answer) == found


def test_a_box_keeps_its_latex_for_mathematics_alone() -> None:
    assert readings(r"\boxed{\frac{1}{2}\text{ cm}}", math=True)[-1] == r"\frac{1}{2}\text{ cm}"


def test_hashes_mark_an_answer_where_the_benchmark_says_so() -> None:
    assert readings("so\n#### 17\n#### 18\nBye", hashes=True)[1:] == ("18",)
    assert readings("so\n#### 18") == ("so\n#### 18",)
