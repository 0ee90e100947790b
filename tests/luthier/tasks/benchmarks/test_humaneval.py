from pathlib import Path

import pytest

from luthier.errors import InputError, SandboxError
from luthier.sandbox import SandboxLimits
from luthier.sandboxes import open_sandbox
from luthier.task import validate
from luthier.tasks.benchmarks.humaneval import HumanEval, complete_sources

DATA = Path(__file__).parents[5] / "shared" / "data" / "humaneval"

if not DATA.exists():
    pytest.skip(f"the published file is not there: {DATA}", allow_module_level=True)

try:
    open_sandbox()
except SandboxError as error:
    pytest.skip(f"no sandbox on this machine: {error.problem}", allow_module_level=True)


@pytest.fixture(scope="module")
def task() -> HumanEval:
    return HumanEval(str(DATA / "HumanEval.jsonl.gz"))


@pytest.fixture(scope="module")
def rows(task):
    return {question.metadata["task_id"]: question for question in task.questions("test", 164, 0)}


@pytest.fixture(scope="module")
def question(rows):
    return rows["HumanEval/0"]


def test_rows_are_as_published(rows, question):
    assert len(rows) == 164
    assert question.text.startswith("from typing import List\n\n\ndef has_close_elements(")
    assert question.reference.startswith("    for idx, elem in enumerate(numbers):\n")
    assert question.metadata["entry_point"] == "has_close_elements"
    assert (question.task, question.family, question.split) == ("humaneval", "humaneval", "test")


def test_a_folder_and_a_plain_file_hold_the_same_rows(task, tmp_path):
    import gzip

    plain = tmp_path / "HumanEval.jsonl"
    plain.write_bytes(gzip.decompress((DATA / "HumanEval.jsonl.gz").read_bytes()))
    assert HumanEval(str(DATA)).questions("test", 20, 3) == task.questions("test", 20, 3)
    assert HumanEval(str(plain)).questions("test", 20, 3) == task.questions("test", 20, 3)


def test_every_row_is_a_test_row(task):
    with pytest.raises(InputError, match="'train' asked for, there are 0"):
        task.questions("train", 1, 0)


def test_a_row_without_tests_is_named(tmp_path):
    source = tmp_path / "HumanEval.jsonl"
    source.write_text('{"task_id": "a", "prompt": "def f():", "entry_point": "f", "canonical_solution": "    pass"}\n')
    with pytest.raises(InputError, match=r"HumanEval.jsonl:1: field test: missing"):
        HumanEval(str(source)).questions("test", 1, 0)


def test_ten_references_pass_and_empty_answers_do_not(task):
    assert validate(task, task.questions("test", 10, 0)) == []


@pytest.mark.slow
@pytest.mark.parametrize("fence", ["bubblewrap", "landlock"])
def test_every_reference_passes(fence):
    try:
        task = HumanEval(str(DATA), sandbox=open_sandbox(fence))
    except SandboxError as error:
        pytest.skip(f"{fence} is not usable here: {error.problem}")
    assert validate(task, task.questions("test", 164, 0)) == []


def dedented(text: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in text.splitlines())


FORMS = {
    "the body": lambda prompt, body: body,
    "the body in a fence": lambda prompt, body: f"Here it is:\n```python\n{body}```\nDone.",
    "the body after a byte-order mark": lambda prompt, body: "\ufeff" + body,
    "the body after thoughts": lambda prompt, body: "<think>\n```python\n    return 0\n```\n</think>" + body,
    "the body, stripped": lambda prompt, body: body.strip(),
    "the body, dedented": lambda prompt, body: dedented(body),
    "the whole function": lambda prompt, body: prompt + body,
    "the whole function in a fence": lambda prompt, body: f"```python\n{prompt}{body}\n```",
    "the whole function in an open fence": lambda prompt, body: f"Sure!\n```\n{prompt}{body}",
    "a fence that is indented": lambda prompt, body: f"1. So:\n   ```py\n{prompt}{body}   ```\n",
    "a draft, then better": lambda prompt, body: (
        f"```python\ndef has_close_elements(n, t):\n    return 1\n```\nBetter:\n```python\n{prompt}{body}```"
    ),
    "the function, then its use": lambda prompt, body: (
        f"```python\n{prompt}{body}```\nUse it so:\n```python\nprint(has_close_elements([], 1))\n```"
    ),
    "without the imports": lambda prompt, body: prompt.replace("from typing import List\n", "") + body,
}


@pytest.mark.parametrize("form", sorted(FORMS))
def test_right_answers_in_many_forms_score_one(task, question, form):
    assert task.score(question, FORMS[form](question.text, question.reference)).value == 1.0


@pytest.mark.parametrize(
    ("answer", "feedback"),
    [
        ("", "the answer is empty"),
        (" \n\t", "the answer is empty"),
        ("    return True", "AssertionError"),
        ("    return undefined", "NameError: name 'undefined' is not defined"),
        ("I cannot do that.", "SyntaxError"),
        ("    import sys; sys.exit(0)", "SystemExit: 0"),
        ("    import os; os._exit(0)", "the answer ended its process"),
        ("import os\nos._exit(0)\n", "the answer ended its process"),
        ("    return type('Yes', (), {'__eq__': lambda *a: True})()", "TypeError: a value of type Yes"),
        ("\\x00", ("SyntaxError", "ValueError")),
        ("\ud800", "UnicodeEncodeError"),
        ("(" * 100_000, ""),
        ("```python\n```", ""),
    ],
)
def test_wrong_answers_score_zero_with_the_last_error(task, question, answer, feedback):
    score = task.score(question, answer)
    assert score.value == 0.0
    assert score.feedback.startswith(feedback)


def test_a_timeout_scores_zero(question):
    task = HumanEval(str(DATA), limits=SandboxLimits(seconds=0.3))
    score = task.score(question, "    while True: pass")
    assert (score.value, score.feedback) == (0.0, "timeout: no result within 0.3 s")


def test_a_missing_sandbox_is_never_a_zero(question, monkeypatch):
    import luthier.tasks.benchmarks.humaneval as module

    def refuse():
        raise SandboxError("no fence", where="sandbox", fix="install one")

    monkeypatch.setattr(module, "open_sandbox", refuse)
    with pytest.raises(SandboxError, match="no fence"):
        HumanEval(str(DATA)).score(question, question.reference)


def test_readings_start_with_the_literal_one():
    assert complete_sources("def f():\n", "    return 1\n", "f")[0] == "def f():\n    return 1\n"
    assert complete_sources("def f():\n", "return 1", "f")[-1] == "def f():\n    return 1\n"
