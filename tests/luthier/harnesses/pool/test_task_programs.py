"""The programs that searches start from: well-formed, answer-free, and right when their modules are right."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import pytest

from luthier.errors import HarnessError, InputError
from luthier.execution import Execution, Limits
from luthier.executors.execute import Job, execute
from luthier.harnesses.graph.bounds import calls_bound
from luthier.harnesses.pool.task_programs import PROGRAM_TASKS, SINGLE, program_for, read_program_file
from luthier.harnesses.program.harness import ProgramHarness
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.store import Store
from luthier.question import SPLITS, Question
from luthier.target import Request
from luthier.targets.scripted import ScriptedTarget, prompt_text
from luthier.task import Task
from luthier.tasks import TASKS, open_task
from luthier.tasks.generated.families import FAMILIES

PLANS: Mapping[str, str] = {
    "chain_sum": "calculate",
    "letter_counting": "count",
    "spell_backward": "reverse",
    "word_sorting": "sort",
    "gcd": "gcd",
    "lcm": "lcm",
    "sort_last": "sort, last",
    "sort_first": "sort, first",
    "last_reversed": "last, reverse",
    "gcd_squared": "gcd, square",
    "sort_first_reversed": "sort, first, reverse",
    "sort_last_length": "sort, last, length",
    "sort_last_reversed": "sort, last, reverse",
    "sort_first_length": "sort, first, length",
    "ransom_note": "judge",
    "syllogism": "judge",
    "weekday": "weekday",
}
"""What a perfect router says, in names of tools."""
WORDS: Mapping[str, str] = {
    "calculate": "add",
    "gcd": "divisor",
    "lcm": "multiple",
    "length": "letters",
    "reverse": "backward",
    "sort": "alphabetical",
    "weekday": "day",
}
"""The words of the questions for tools, as the instruction of the router has them."""
ARGUMENTS: Mapping[str, str] = {
    "Letter:": r'"(\w)"',
    "Text:": r'text: "(.*)"',
    "Expression:": r"(\d[-+ \d]*\d)",
    "Words:": r": ([a-z, ]+)$",
    "Word:": r": ([a-z]+)$",
}
"""What perfect argument modules copy, by the last line of their prompt."""
Reply = Callable[[Request], str]


Run = Callable[..., list[Execution]]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    store = Store(tmp_path / "store.db")

    def execute_all(program: str, task: Task, questions: Sequence[Question], reply: Reply) -> list[Execution]:
        """One reply for every program and task: the store keeps what a target of the same name said."""
        target = ScriptedTarget(reply, name=f"{program} {len(questions)}")
        meter = Meter(target, store, Ledger(store, run="t"), role="target", account="data", method="", phase="t")
        return execute([Job(program_for(program), question) for question in questions], task.score, meter)

    yield execute_all
    store.close()


def asked(request: Request) -> tuple[str, str]:
    """The question of a prompt of a module that reads the question last, and the label that it ends with."""
    text, label = prompt_text(request).rsplit("\n", 1)
    return text.rsplit("Question: ", 1)[1], label


@pytest.mark.parametrize("name", sorted(TASKS))
def test_every_task_has_a_program_without_demonstrations(name: str) -> None:
    program = program_for(name)
    assert ("answer",) in {node.writes for node in program.graph.nodes}
    assert not any(module.demos for module in program.modules.values())
    assert all(module.instruction for module in program.modules.values())


@pytest.mark.parametrize("name", [*PROGRAM_TASKS, SINGLE])
def test_files_are_canonical_and_round_trip(name: str) -> None:
    text = (files("luthier.harnesses.pool") / "programs" / f"{name}.txt").read_text(encoding="utf-8")
    program = ProgramHarness.parse(text)
    assert text == f"{program.text}\n"
    assert ProgramHarness.of(list(program.modules.values()), program.wiring) == program == read_program_file(name)
    assert calls_bound(program.graph) <= Limits().calls


def test_tasks_without_a_program_of_their_own_share_the_single_one() -> None:
    assert {name for name in TASKS if program_for(name) == read_program_file(SINGLE)} == set(TASKS) - set(PROGRAM_TASKS)


def test_an_unknown_task_is_refused_with_near_names() -> None:
    with pytest.raises(InputError, match=r"task 'twohops' is unknown.*did you mean twohop"):
        program_for("twohops")


@pytest.mark.parametrize("name", ["mixed", "twohop", "explained"])
def test_no_program_holds_an_answer_that_the_question_does_not_show(name: str) -> None:
    program = program_for(name)
    said = " ".join(module.instruction for module in program.modules.values()) + program.wiring
    words = set(re.findall(r"\w+", said.casefold()))
    for split in SPLITS:
        for question in open_task(name).questions(split, 34, 7):
            answer = re.findall(r"\w+", question.reference.casefold())
            shown = set(answer) <= set(re.findall(r"\w+", question.text.casefold()))
            assert shown or answer[0].isdigit() or not set(answer) <= words, question


@pytest.mark.parametrize("words", [{}, WORDS])
def test_right_modules_make_the_mixed_program_right(run: Run, words: Mapping[str, str]) -> None:
    task = open_task("mixed")
    questions = task.questions("train", 4 * len(FAMILIES), 7)
    by_text = {question.text: question for question in questions}

    def reply(request: Request) -> str:
        text, label = asked(request)
        if label == "Tools:":
            return ", ".join(words.get(tool, tool) for tool in PLANS[by_text[text].family].split(", "))
        if label == "Answer:":
            return by_text[text].reference
        found = re.search(ARGUMENTS[label], text.rstrip(" =?."))
        assert found
        return found[1]

    for question, row in zip(questions, run("mixed", task, questions, reply), strict=True):
        assert (row.outcome, row.score) == ("ok", 1.0), (question, row)
        tools = [step.node for step in row.trace if step.kind == "tool"]
        assert (len(tools) > 1) == (PLANS[question.family] != "judge")


def test_a_router_that_names_nothing_leaves_the_answer_to_the_answer_module(run: Run) -> None:
    task = open_task("mixed", "chain_sum")
    (row,) = run("mixed", task, task.questions("train", 1, 7), lambda r: "mine" if asked(r)[1] == "Answer:" else "?")
    assert row.answer == "mine"


@pytest.mark.parametrize(("follows", "fewest", "most"), [(True, 16, 16), (False, 0, 2)])
def test_the_second_query_of_twohop_decides(run: Run, follows: bool, fewest: int, most: int) -> None:
    task = open_task("twohop")
    questions = task.questions("train", 20, 7)
    by_text = {question.text: question for question in questions}

    def reply(request: Request) -> str:
        text, label = asked(request)
        question = by_text[text]
        if label == "Look Up:":
            return question.metadata["_gold"]["bridge"] if follows else text
        return question.reference if question.reference in prompt_text(request) else "unknown"

    right = sum(row.score == 1.0 for row in run("twohop", task, questions, reply))
    assert fewest <= right <= most


@pytest.mark.parametrize(("program", "calls"), [("explained", 2), ("hotpotqa", 2), ("gsm8k", 1)])
def test_the_last_module_writes_the_answer(run: Run, program: str, calls: int) -> None:
    task = open_task("explained")
    (question,) = task.questions("train", 1, 7)
    (row,) = run(program, task, [question], lambda request: question.reference)
    assert (row.outcome, row.score, row.usage.calls) == ("ok", 1.0, calls)


@pytest.mark.parametrize("name", [*PROGRAM_TASKS, SINGLE])
def test_a_cycle_without_a_bound_is_one_clear_error(name: str) -> None:
    program = read_program_file(name)
    last = program.graph.nodes[-1].id
    with pytest.raises(HarnessError, match=f"node {last} comes back to itself for ever") as caught:
        ProgramHarness.of(list(program.modules.values()), f"{program.wiring}\n  -> {last}")
    assert caught.value.rule == "unguarded-cycle"
    assert caught.value.line > 0
    assert f"visits.{last} <" in caught.value.fix
