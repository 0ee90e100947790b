from __future__ import annotations

import json
import math
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import date

import pytest

from luthier.errors import InputError
from luthier.files import digest_text
from luthier.question import SPLITS, Question
from luthier.task import validate
from luthier.tasks import open_task
from luthier.tasks.generated.families import FAMILIES
from luthier.tasks.generated.mixed import MixedSuite
from luthier.tasks.generated.words import WORDS

Words = list[str]
# For each composite: the answer, then what each of its shorter programs would say.
COMPOSITES: dict[str, tuple[Callable[[Words], object], ...]] = {
    "sort_last": (lambda w: max(w), lambda w: w[-1]),
    "sort_first": (lambda w: min(w), lambda w: w[0]),
    "last_reversed": (lambda w: w[-1][::-1], lambda w: w[-1]),
    "sort_first_reversed": (lambda w: min(w)[::-1], lambda w: min(w), lambda w: w[0][::-1], lambda w: w[0]),
    "sort_last_reversed": (lambda w: max(w)[::-1], lambda w: max(w), lambda w: w[-1][::-1], lambda w: w[-1]),
    "sort_first_length": (lambda w: len(min(w)), lambda w: len(w[0]), len, lambda w: len(max(w))),
    "sort_last_length": (lambda w: len(max(w)), lambda w: len(w[-1]), len, lambda w: len(min(w))),
}


@pytest.fixture(scope="module")
def rows() -> list[Question]:
    """Thirty questions of each family."""
    return MixedSuite().questions("train", 30 * len(FAMILIES), seed=3)


def listed_words(question: Question) -> list[str]:
    return re.split(r", ", question.text.rsplit(": ", 1)[1])


def numbers_in(text: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", text)]


def test_every_reference_scores_one_and_an_empty_answer_zero(rows: list[Question]) -> None:
    assert Counter(q.family for q in rows) == dict.fromkeys(FAMILIES, 30)
    assert validate(MixedSuite(), rows) == []


def test_the_families_have_the_kinds_that_the_comparison_needs() -> None:
    kinds = Counter(family.kind for family in FAMILIES.values())
    assert kinds == {"one_step": 6, "two_step": 4, "three_step": 4, "no_tool": 2, "unshown": 1}


def test_the_kind_stands_in_the_metadata_and_survives_json(rows: list[Question]) -> None:
    for question in rows:
        assert json.loads(json.dumps(question.to_row()))["metadata"]["kind"] == FAMILIES[question.family].kind


@pytest.mark.parametrize("family", sorted(COMPOSITES))
def test_composites_are_right_and_shorter_programs_are_wrong(rows: list[Question], family: str) -> None:
    right, *wrong = COMPOSITES[family]
    asked = [q for q in rows if q.family == family]
    assert asked
    for question in asked:
        words = listed_words(question)
        assert 3 <= len(words) <= 4
        assert set(words) <= set(WORDS)
        assert str(right(words)) == question.reference
        assert question.reference not in {str(shorter(words)) for shorter in wrong}


def test_words_are_common_distinct_and_short() -> None:
    assert len(WORDS) == len(set(WORDS)) >= 300
    assert all(re.fullmatch("[a-z]{3,7}", word) for word in WORDS)


def test_numbers_and_dates_are_right(rows: list[Question]) -> None:
    names = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    assert {"gcd", "lcm", "gcd_squared", "weekday", "chain_sum"} <= {q.family for q in rows}
    for q in rows:
        if q.family == "gcd":
            assert int(q.reference) == math.gcd(*numbers_in(q.text))
        elif q.family == "lcm":
            assert int(q.reference) == math.lcm(*numbers_in(q.text))
        elif q.family == "gcd_squared":
            assert int(q.reference) == math.gcd(*numbers_in(q.text)) ** 2 > 1
        elif q.family == "weekday":
            day = re.search(r"\d{4}-\d\d-\d\d", q.text)
            assert day is not None
            assert q.reference == names[date.fromisoformat(day[0]).weekday()]
        elif q.family == "chain_sum":
            terms = re.search(r"\d+(?: [+-] \d+)+", q.text)
            assert terms is not None
            signed = re.sub(r"([+-]) ", r"\1", terms[0]).split()
            assert int(q.reference) == sum(int(term) for term in signed)


def test_words_and_letters_are_right(rows: list[Question]) -> None:
    assert {"spell_backward", "word_sorting", "letter_counting"} <= {q.family for q in rows}
    for q in rows:
        if q.family == "spell_backward":
            word = q.text.rsplit(": ", 1)[1]
            assert q.reference == word[::-1] != word
        elif q.family == "word_sorting":
            assert q.reference.split(", ") == sorted(listed_words(q)) != listed_words(q)
        elif q.family == "letter_counting":
            found = re.search(r'letter "(.)".*: "(.*)"', q.text)
            assert found is not None
            assert int(q.reference) == found[2].count(found[1]) > 0
        elif q.family == "ransom_note":
            note, magazine = re.findall(r"(?:note|Magazine): ([a-z]+)", q.text)
            assert q.reference == str(not Counter(note) - Counter(magazine))


def test_closed_families_are_balanced(rows: list[Question]) -> None:
    assert Counter(q.reference for q in rows if q.family == "ransom_note") == {"True": 15, "False": 15}
    assert Counter(q.reference for q in rows if q.family == "syllogism") == {"Yes": 15, "No": 15}


def test_families_take_turns_in_their_fixed_order() -> None:
    rows = MixedSuite(["weekday", "gcd", "sort_last"]).questions("test", 7, seed=0)
    assert [q.family for q in rows] == ["gcd", "sort_last", "weekday"] * 2 + ["gcd"]


def test_splits_and_rows_are_disjoint_for_any_seed() -> None:
    seen: dict[str, str] = {}
    for split in SPLITS:
        for seed in range(3):
            rows = MixedSuite().questions(split, 340, seed)
            assert len({q.text for q in rows}) == len({q.id for q in rows}) == 340
            for question in rows:
                assert seen.setdefault(question.text, split) == split


def test_the_same_numbers_in_another_order_or_wording_stay_in_one_split() -> None:
    sides: dict[tuple[int, ...], set[str]] = {}
    for split in SPLITS:
        for question in MixedSuite(["lcm"]).questions(split, 300, seed=1):
            sides.setdefault(tuple(sorted(numbers_in(question.text))), set()).add(split)
    assert all(len(side) == 1 for side in sides.values())


def test_a_prefix_of_the_rows_does_not_depend_on_the_count() -> None:
    assert MixedSuite().questions("train", 40, 5) == MixedSuite().questions("train", 90, 5)[:40]


def test_another_seed_gives_other_rows() -> None:
    one, other = (MixedSuite().questions("train", 170, seed) for seed in (0, 1))
    assert len({q.id for q in one} & {q.id for q in other}) < 10


def test_rows_depend_on_neither_the_hash_seed_nor_global_random_state() -> None:
    program = (
        "import random, hashlib; random.seed(5);"
        "from luthier.tasks.generated.mixed import MixedSuite;"
        "print(hashlib.sha256(repr(MixedSuite().questions('validation', 136, 2)).encode()).hexdigest())"
    )
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    elsewhere = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert elsewhere == digest_text(repr(MixedSuite().questions("validation", 136, 2)))


def test_generating_leaves_the_global_random_state_alone() -> None:
    random.seed(11)
    before = random.getstate()
    MixedSuite().questions("train", 34, 0)
    assert random.getstate() == before


def test_texts_are_short(rows: list[Question]) -> None:
    assert max(len(q.text) for q in rows) < 230
    assert max(q.text.count("\n") for q in rows) <= 2


@pytest.mark.parametrize(
    ("family", "good", "bad"),
    [
        ("word_sorting", "The answer is a,b ,c.", "a, c, b"),
        ("word_sorting", "[A, B, C]", "a, b, c, d"),
        ("gcd", "7.0", "17"),
        ("gcd", "Answer: 7", "7 or 8"),
        ("spell_backward", ' "TAC" ', "tac is cat backward"),
        ("weekday", "friday", "It is a Friday in May"),
        ("ransom_note", "true.", "True or False"),
    ],
)
def test_answers_are_compared_as_a_whole(family: str, good: str, bad: str) -> None:
    references = {"word_sorting": "a, b, c", "gcd": "7", "spell_backward": "tac", "weekday": "Friday"}
    question = Question.make(
        task="mixed", family=family, text="?", reference=references.get(family, "True"), split="train"
    )
    assert MixedSuite().score(question, good).value == 1.0
    score = MixedSuite().score(question, bad)
    assert score.value == 0.0
    assert question.reference in score.feedback


def test_an_exhausted_family_says_so() -> None:
    with pytest.raises(InputError, match="family 'lcm' gives no new question of split 'test'"):
        MixedSuite(["lcm"]).questions("test", 3000, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("dev", 1, 0), "field split: 'dev' is unknown"), (("train", -1, 0), "field count: -1 is negative")],
)
def test_wrong_arguments_are_named(arguments: tuple[str, int, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MixedSuite().questions(*arguments)  # type: ignore[arg-type]


def test_an_unknown_family_is_named() -> None:
    with pytest.raises(InputError, match="field families: 'sorting' is unknown"):
        MixedSuite(["gcd", "sorting"])


def test_a_task_opens_by_name_and_an_unknown_name_gets_near_matches() -> None:
    task = open_task("mixed", "gcd, lcm")
    assert [q.family for q in task.questions("train", 2, 0)] == ["gcd", "lcm"]
    with pytest.raises(InputError, match=r"task 'gsm8' is unknown.*did you mean gsm8k"):
        open_task("gsm8")
    with pytest.raises(InputError, match=r"use one of: mixed, gsm8k"):
        open_task("zzzz")


def test_held_out_families_stand_in_no_split_and_are_balanced():
    suite = MixedSuite()
    held_out = suite.held_out(6, seed=7)
    assert [question.family for question in held_out] == ["first_reversed", "last_length", "lcm_squared"] * 2
    assert {question.split for question in held_out} == {"test"}
    assert not {question.family for question in held_out} & set(suite.families)
    assert validate(suite, held_out) == []
    assert suite.held_out(6, seed=7) == held_out
