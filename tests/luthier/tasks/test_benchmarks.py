from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from luthier.errors import InputError
from luthier.question import SPLITS, Question, Split
from luthier.task import Task, validate
from luthier.tasks import TASKS, open_task
from luthier.tasks.benchmarks.hotpotqa import HotpotQa, word_f1


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def everything(task: Task, sizes: dict[Split, int]) -> list[Question]:
    return [question for split, size in sizes.items() for question in task.questions(split, size, 0)]


def only(task: Task) -> Question:
    """The one question of a source with one row."""
    for split in SPLITS:
        try:
            return task.questions(split, 1, 0)[0]
        except InputError:
            continue
    raise AssertionError("the source gives no question")


# ---- the real files ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "path", "sizes"),
    [
        ("gsm8k", "gsm8k/part_a.jsonl", {"train": 544, "validation": 168, "test": 188}),
        ("bbh", "bbh", {"train": 1367, "validation": 443, "test": 438}),
        ("bbeh", "bbeh", {"train": 432, "validation": 142, "test": 146}),
        ("sst2", "sst2/16-13", {"train": 32, "validation": 32, "test": 1821}),
    ],
)
def test_real_files_validate_as_a_whole(shared_data: Path, name: str, path: str, sizes: dict[Split, int]) -> None:
    task = open_task(name, str(shared_data / path))
    rows = everything(task, sizes)
    assert validate(task, rows) == []
    assert len({q.id for q in rows}) == len({q.text for q in rows}) == sum(sizes.values())
    assert not any("canary" in q.text.lower() or "canary" in str(q.metadata).lower() for q in rows)
    assert task.questions("test", 20, 7) == open_task(name, str(shared_data / path)).questions("test", 20, 7)
    assert task.questions("test", 20, 7) != task.questions("test", 20, 8)
    with pytest.raises(InputError, match=f"{sizes['test'] + 1} questions of split 'test' asked for"):
        task.questions("test", sizes["test"] + 1, 0)


def test_bbh_options_are_shuffled_and_can_be_put_back(shared_data: Path) -> None:
    file = shared_data / "bbh" / "disambiguation_qa.json"
    published = {row["input"]: row["target"] for row in json.loads(file.read_text())["examples"]}
    rows = everything(open_task("bbh", str(file)), {"train": 140})
    moved = 0
    for question in rows:
        permutation, shown = question.metadata["permutation"], question.metadata["choices"]
        options = [""] * len(shown)
        for place, original in enumerate(permutation):
            options[original] = shown[place]
        stem = question.text.rsplit("\n(A) ", 1)[0]
        text = "\n".join([stem, *(f"({'ABCD'[place]}) {option}" for place, option in enumerate(options))])
        target = published[text]
        assert permutation["ABCD".index(question.reference[1])] == "ABCD".index(target[1])
        moved += question.reference != target
    assert 60 < moved < 120


def test_sst2_over_all_draws_keeps_train_validation_and_test_apart(shared_data: Path) -> None:
    rows = everything(open_task("sst2", str(shared_data / "sst2")), {"train": 95, "validation": 96, "test": 1821})
    assert len({q.text for q in rows}) == 95 + 96 + 1821


# ---- GSM8K ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("18", 1.0),
        ("$18.00", 1.0),
        ("18 dollars", 1.0),
        ("16 - 3 - 4 = 9\n9 * 2 = 18\n#### 18", 1.0),
        ("She makes $18.\nThe answer is 18.", 1.0),
        (r"so \boxed{18}", 1.0),
        ("18 - 3", 0.0),
        ("#### 18\n#### 19", 0.0),
        ("between 17 and 18", 0.0),
        ("eighteen", 0.0),
        ("#### 18 dollars", 1.0),
        (r"\boxed{\$18}", 1.0),
        ("The answer is $18$. I hope it is correct.", 1.0),
        ("18\n\nQuestion: How many?\n#### 20", 1.0),
        ("<think>17?</think>18", 1.0),
        ("18 thousand", 0.0),
        ("18 dozen", 0.0),
        ("18 less", 0.0),
        (r"\boxed{18\text{ thousand}}", 0.0),
    ],
)
def test_gsm8k_scores(tmp_path: Path, answer: str, value: float) -> None:
    task = open_task("gsm8k", str(write_rows(tmp_path / "a.jsonl", [{"question": "q", "answer": "s\n#### 18"}])))
    assert task.score(only(task), answer).value == value


def test_gsm8k_references_lose_their_separators_and_splits_are_the_publishers(tmp_path: Path) -> None:
    numbers = ["1,234"] * 95 + ["-2"] * 5
    write_rows(tmp_path / "train.jsonl", [{"question": f"q{n}", "answer": f"#### {v}"} for n, v in enumerate(numbers)])
    write_rows(tmp_path / "test.jsonl", [{"question": f"q{n}", "answer": "#### -2"} for n in range(95, 105)])
    task = open_task("gsm8k", str(tmp_path))
    test = task.questions("test", 10, 0)
    assert {q.reference for q in test} == {"-2"}
    train, validation = task.questions("train", 70, 0), task.questions("validation", 10, 0)
    assert {q.reference for q in (*train, *validation)} == {"1234"}
    assert not {q.text for q in (*train, *validation)} & {q.text for q in test}


@pytest.mark.parametrize("solution", ["18", "#### ", "#### many"])
def test_gsm8k_names_a_row_without_a_final_number(tmp_path: Path, solution: str) -> None:
    rows = [{"question": "q", "answer": "#### 1"}, {"question": "q", "answer": solution}]
    with pytest.raises(InputError, match=r"a\.jsonl:2: field answer: does not end in #### and a number"):
        only_error(open_task("gsm8k", str(write_rows(tmp_path / "a.jsonl", rows))))


def only_error(task: Task) -> None:
    task.questions("train", 1, 0)


# ---- BBH -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "answer", "value"),
    [
        ("valid", "Valid.", 1.0),
        ("valid", "invalid", 0.0),
        ("] ) }", "] ) }", 1.0),
        ("] ) }", "] }", 0.0),
        ("ant bee cow", "ant, bee, cow", 1.0),
        ("ant bee cow", "bee ant cow", 0.0),
        ("24", "The answer is 24.", 1.0),
        ("no, yes, unknown", "no,yes,unknown", 1.0),
        ("no, yes, unknown", "no, yes", 0.0),
        ("24", r"so \boxed{24}", 1.0),
        ("24", "24 dozen", 0.0),
        ("Yes", r"\boxed{\text{Yes}}", 1.0),
        ("Yes", "The answer is Yes. I hope it is correct.", 1.0),
        ("Yes", "Yes\n\nQ: And now?\nA: No", 1.0),
        ("?", "?", 1.0),
    ],
)
def test_bbh_scores(tmp_path: Path, target: str, answer: str, value: float) -> None:
    file = write(tmp_path / "task.json", json.dumps({"examples": [{"input": "q", "target": target}]}))
    task = open_task("bbh", str(file))
    assert only(task).family == "task"
    assert task.score(only(task), answer).value == value


def test_bbh_names_a_target_that_is_no_option(tmp_path: Path) -> None:
    file = write(tmp_path / "t.json", json.dumps({"examples": [{"input": "q\n(A) x\n(B) y", "target": "(C)"}]}))
    with pytest.raises(InputError, match=r"row 1: field target: \(C\) is not among the 2 options"):
        only_error(open_task("bbh", str(file)))


# ---- MMLU ----------------------------------------------------------------------------------------


def test_mmlu_csv_folders(tmp_path: Path) -> None:
    write(tmp_path / "dev" / "anatomy_dev.csv", '"Shots, few?",one,two,three,four,B\n')
    write(tmp_path / "val" / "anatomy_val.csv", "question,A,B,C,D,answer\nBone?,p,q,r,s,a\n")
    write(tmp_path / "test" / "anatomy_test.csv", "Skull?,k,l,m,All of the above,D\nArm?,k,l,m,n,C\n")
    task = open_task("mmlu", str(tmp_path))
    rows = everything(task, {"train": 1, "validation": 1, "test": 2})
    assert validate(task, rows) == []
    assert {q.family for q in rows} == {"anatomy"}
    assert rows[0].text.startswith("Shots, few?\n(A) ")
    for question, right in zip(rows[:2], ("two", "p"), strict=True):
        assert question.metadata["choices"]["ABCD".index(question.reference)] == right
        assert task.score(question, right).value == task.score(question, f"({question.reference})").value == 1.0
    fixed = next(q for q in rows if q.text.startswith("Skull?"))
    assert fixed.metadata["permutation"] == [0, 1, 2, 3]
    assert fixed.reference == "D"


def test_mmlu_hub_form(tmp_path: Path) -> None:
    rows = [
        {"question": f"q{n}", "subject": "law", "choices": ["w", "x", "y", "z"], "answer": n % 4} for n in range(40)
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "test-00000-of-00001.parquet")
    task = open_task("mmlu", str(tmp_path))
    questions = task.questions("test", 40, 0)
    assert validate(task, questions) == []
    for question in questions:
        original = int(question.text.split("\n")[0][1:]) % 4
        assert question.metadata["choices"]["ABCD".index(question.reference)] == "wxyz"[original]
    assert len(Counter(tuple(q.metadata["permutation"]) for q in questions)) > 10


def test_mmlu_copies_with_their_options_in_another_order_stay_out_of_train(tmp_path: Path) -> None:
    write(tmp_path / "a_dev.csv", "q,w,x,y,z,A\nother,w,x,y,z,A\n")
    write(tmp_path / "a_test.csv", "q,z,y,x,w,D\n")
    task = open_task("mmlu", str(tmp_path))
    with pytest.raises(
        InputError, match=r"the source gives train 1, validation 0, test 1|train 0, validation 1, test 1"
    ):
        task.questions("train", 9, 0)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "q", "choices": ["a", "b"], "answer": 2}, "field answer: 2 names no option"),
        ({"question": "q", "choices": ["a", "b"], "answer": "C"}, "write a letter from A to B"),
        ({"question": "q", "choices": "ab", "answer": 0}, "field choices: not a list"),
        ({"question": "q", "A": "1", "B": "2", "C": "3", "answer": "A"}, "field D: missing"),
    ],
)
def test_mmlu_names_wrong_fields(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=rf"a\.jsonl:1: .*{message}"):
        only_error(open_task("mmlu", str(write_rows(tmp_path / "a.jsonl", [row]))))


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("B", 1.0),
        ("<think>A?\nB.</think>\nB", 1.0),
        ("The answer is B. I hope it is correct.", 1.0),
        ("The answer is (B).\n\nQuestion: next?", 1.0),
        (r"\boxed{\text{(B)}}", 1.0),
        ("\ufeffB", 1.0),
        ("The answer is B. Both a and b", 0.0),  # the letter of one option, the text of another
        ("İ", 0.0),
        ("(ı) it", 0.0),
        ("<think>B", 0.0),
    ],
)
def test_mmlu_scores(tmp_path: Path, answer: str, value: float) -> None:
    row = {"question": "q", "choices": ["one", "two", "three", "Both a and b"], "answer": "B"}
    question = only(task := open_task("mmlu", str(write_rows(tmp_path / "a.jsonl", [row]))))
    assert question.metadata["permutation"] == [0, 1, 2, 3]
    assert task.score(question, answer).value == value


# ---- HotpotQA ------------------------------------------------------------------------------------

HOTPOT = {
    "question": "Who?",
    "answer": "The New York Times",
    "type": "bridge",
    "context": [["Paper", ["It is a paper.", " It is old."]], ["City", ["A city."]]],
}


@pytest.mark.parametrize(
    ("answer", "value", "f1"),
    [
        ("new york times", 1.0, None),
        ("The answer is the New York Times.", 1.0, None),
        ("New York", 0.0, "0.80"),  # 2 of 2 words right, 2 of 3 found
        ("it is the New York Times", 0.0, "0.75"),  # "it is": 3 of 5 words right, 3 of 3 found
        ("yes", 0.0, "0.00"),
        ("", 0.0, "0.00"),
    ],
)
def test_hotpotqa_scores_exact_match_and_reports_f1(tmp_path: Path, answer: str, value: float, f1: str | None) -> None:
    task = open_task("hotpotqa", str(write(tmp_path / "h.json", json.dumps([HOTPOT]))))
    score = task.score(only(task), answer)
    assert score.value == value
    assert f1 is None or f"word F1 of the answer is {f1}." in score.feedback


def test_a_title_that_begins_like_a_lead_in_equals_itself(tmp_path: Path) -> None:
    title = "The Answer Is Blowing"
    task = open_task("hotpotqa", str(write(tmp_path / "h.json", json.dumps([{**HOTPOT, "answer": title}]))))
    assert validate(task, [only(task)]) == []
    assert task.score(only(task), "Blowing").value == 0.0


def test_hotpotqa_f1_is_zero_between_yes_and_a_longer_answer() -> None:
    assert word_f1(["yes"], ["yes", "indeed"]) == 0.0
    assert word_f1(["no"], ["no"]) == 1.0


def test_hotpotqa_texts_carry_their_paragraphs_in_both_forms(tmp_path: Path) -> None:
    local = write(tmp_path / "h.json", json.dumps([HOTPOT]))
    columns = {"title": ["Paper", "City"], "sentences": [["It is a paper.", " It is old."], ["A city."]]}
    hub = write_rows(tmp_path / "hub.jsonl", [{**HOTPOT, "context": columns}])
    text = "Paper: It is a paper. It is old.\nCity: A city.\n\nQuestion: Who?"
    assert only(HotpotQa(str(local))).text == only(HotpotQa(str(hub))).text == text
    assert only(HotpotQa(str(local), context=False)).text == "Who?"
    assert only(HotpotQa(str(local))).family == "bridge"


def test_hotpotqa_skips_the_unanswered_test_file_and_halves_dev(tmp_path: Path) -> None:
    rows = [{**HOTPOT, "question": f"Who is {n}?"} for n in range(40)]
    write(tmp_path / "hotpot_dev_distractor_v1.json", json.dumps(rows))
    write(tmp_path / "hotpot_test_fullwiki_v1.json", json.dumps([{"question": "Unknown?", "context": []}]))
    task = open_task("hotpotqa", str(tmp_path))
    assert len(everything(task, {"validation": 10, "test": 10})) == 20
    with pytest.raises(InputError, match="there are 0"):
        task.questions("train", 1, 0)
    with pytest.raises(InputError, match="no row has an answer"):
        open_task("hotpotqa", str(tmp_path / "hotpot_test_fullwiki_v1.json")).questions("test", 1, 0)


def test_hotpotqa_names_a_broken_context(tmp_path: Path) -> None:
    file = write(tmp_path / "h.json", json.dumps([{**HOTPOT, "context": [["only a title"]]}]))
    with pytest.raises(InputError, match=r"row 1: field context: not a list of \[title, \[sentences\]\]"):
        only_error(open_task("hotpotqa", str(file)))


# ---- MATH ----------------------------------------------------------------------------------------


def test_math_folders_and_rows(tmp_path: Path) -> None:
    row = {"problem": "Half?", "level": "Level 1", "type": "Algebra", "solution": r"so $\boxed{\frac{1}{2}}$."}
    write(tmp_path / "train" / "algebra" / "1.json", json.dumps(row))
    write(tmp_path / "test" / "algebra" / "2.json", json.dumps({**row, "problem": "Third?"}))
    task = open_task("math", str(tmp_path))
    question = task.questions("test", 1, 0)[0]
    assert (question.family, question.reference, question.metadata) == ("Algebra", r"\frac{1}{2}", {"level": "Level 1"})
    assert validate(task, [question]) == []
    for answer in ("0.5", r"\dfrac12", r"first \boxed{3}, then \boxed{1/2}", "Let x.\nThe answer is $1/2$."):
        assert task.score(question, answer).value == 1.0, answer
    for answer in ("The answer is $0.5$. I hope it is correct.", "0.5\n\nProblem: next?\n7", "<think>3</think>0.5"):
        assert task.score(question, answer).value == 1.0, answer
    for answer in ("1/3", "it is 0.5 or so", r"\boxed{1/2} or \boxed{3}"):
        assert task.score(question, answer).value == 0.0, answer


def test_math_500_answers_win_over_solutions(tmp_path: Path) -> None:
    row = {"problem": "p", "solution": "long", "answer": r"\left( 3, \pi \right)", "subject": "Precalculus", "level": 2}
    question = only(open_task("math", str(write_rows(tmp_path / "x.jsonl", [row]))))
    assert (question.reference, question.family, question.metadata["level"]) == (row["answer"], "Precalculus", "2")


def test_math_names_a_solution_without_a_box(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "m.jsonl", [{"problem": "p", "solution": "it is 3"}])
    with pytest.raises(InputError, match=r"m\.jsonl:1: field solution: has no \\boxed answer"):
        only_error(open_task("math", str(file)))


# ---- SST-2 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "value"),
    [("Positive", 1.0), ("great.", 1.0), ("1", 1.0), ("negative", 0.0), ("positive or negative", 0.0), ("", 0.0)],
)
def test_sst2_label_words(tmp_path: Path, answer: str, value: float) -> None:
    task = open_task("sst2", str(write(tmp_path / "s.tsv", 'a "fine" film\t1\n')))
    assert only(task).text == 'a "fine" film'
    assert task.score(only(task), answer).value == value


def test_sst2_leaves_out_unlabelled_rows_and_names_wrong_labels(tmp_path: Path) -> None:
    write_rows(tmp_path / "test.jsonl", [{"sentence": "hidden", "label": -1}])
    write_rows(tmp_path / "validation.jsonl", [{"sentence": f"s{n}", "label": n % 2} for n in range(30)])
    rows = everything(open_task("sst2", str(tmp_path)), {"validation": 8, "test": 8})
    assert "hidden" not in {q.text for q in rows}
    with pytest.raises(InputError, match=r"bad\.tsv:2: field label: '2' is not 0 or 1"):
        only_error(open_task("sst2", str(write(tmp_path / "bad" / "bad.tsv", "a\t1\nb\t2\n"))))


# ---- all -----------------------------------------------------------------------------------------


FORMS: dict[str, dict[str, Any]] = {
    "gsm8k": {"question": "q", "answer": "3 + 4 = 7\n#### 7"},
    "bbh": {"input": "q", "target": "7"},
    "mmlu": {"question": "q", "choices": ["6", "7"], "answer": 1},
    "hotpotqa": HOTPOT,
    "math": {"problem": "q", "solution": r"\boxed{7}"},
    "sst2": {"sentence": "q", "label": 1},
}


@pytest.mark.parametrize("file", FORMS)
@pytest.mark.parametrize("name", FORMS)
def test_a_benchmark_refuses_the_file_of_another(tmp_path: Path, name: str, file: str) -> None:
    task = open_task(name, str(write_rows(tmp_path / "a.jsonl", [FORMS[file]])))
    if name == file:
        assert only(task)
    else:
        with pytest.raises(
            InputError, match=rf"a\.jsonl:1: a row of the benchmark {file}, not of {name}\. Fix: choose"
        ):
            only_error(task)


@pytest.mark.parametrize("name", ["bbh", "math", "hotpotqa"])
@pytest.mark.parametrize("answer", ["first 3 + 4\nthen 7", "x" * 1001])
def test_a_worked_solution_is_no_reference(tmp_path: Path, name: str, answer: str) -> None:
    file = write_rows(tmp_path / "a.jsonl", [{"question": "q", "answer": answer}])
    with pytest.raises(
        InputError, match=r"a\.jsonl:1: the answer is a worked solution.*Fix: give the final answer alone"
    ):
        only_error(open_task(name, str(file)))


def test_rows_that_fail_their_own_check_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [{"question": "p", "answer": "7"}, {"question": "q", "answer": "<think>"}, {"question": "r", "answer": "8"}]
    task = open_task("hotpotqa", str(write_rows(tmp_path / "a.jsonl", rows)))
    assert isinstance(task, HotpotQa)
    assert sum(task.size(split) for split in SPLITS) == 2
    where = tmp_path / "a.jsonl"
    assert task.notes() == (f"1 of 3 rows fail their own check and are left out, the first is {where}:2",)
    broken = open_task("hotpotqa", str(write_rows(tmp_path / "b.jsonl", rows[1:2])))
    with pytest.raises(InputError, match=r"b\.jsonl:1: 1 of 1 rows fail .*Fix: check that this is a file of hotpotqa"):
        only_error(broken)


GENERATED = {"mixed", "twohop", "explained"}


@pytest.mark.parametrize("name", sorted(set(TASKS) - GENERATED))
def test_a_benchmark_without_a_source_says_what_to_give(name: str) -> None:
    with pytest.raises(InputError, match=rf"{name}: field source: missing.*Fix: give a local file or folder"):
        open_task(name)


@pytest.mark.parametrize("name", sorted(set(TASKS) - GENERATED - {"humaneval"}))
def test_an_unknown_split_is_named(name: str) -> None:
    with pytest.raises(InputError, match="field split: 'dev' is unknown"):
        open_task(name, "somewhere").questions("dev", 1, 0)  # type: ignore[arg-type]
