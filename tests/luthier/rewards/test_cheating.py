"""Cheats are found by the check that is meant to find them, and honest graphs are left alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest

from luthier.execution import Execution, Limits
from luthier.harnesses import parse
from luthier.harnesses.pool.configurations import pool
from luthier.question import Question
from luthier.rewards.cheating import find_cheat, run_with
from luthier.target import Request, Usage
from luthier.targets.scripted import prompt_text
from luthier.tasks.generated.mixed import MixedSuite

SUITE = MixedSuite()
LIMITS = Limits()


def asked(text: str, reference: str) -> Question:
    return Question.make(task="mixed", text=text, reference=reference, split="train")


SUM = asked("What is 97 - 16 - 39?", "42")
TOWN = asked("Which town has the Eiffel tower?", "Paris")


def cheat_of(text: str, question: Question, answer: Callable[[Request], str] = lambda request: "no idea") -> str:
    """Run a graph with scripted answers, score it, and look for a cheat; it must be correct to be looked at."""
    harness = parse("graph", text)
    result = run_with(harness, question, LIMITS, answer)
    score = SUITE.score(question, result.answer).value
    row = Execution(
        question.id, harness.digest, "graph", "t", 0, result.outcome, result.answer, score, trace=result.trace
    )
    assert (result.outcome, score) == ("ok", 1.0), (result, text)
    return find_cheat(harness, question, row, SUITE.score, LIMITS)


def asks(instruction: str) -> str:
    return (
        f"answer = hinted(question)\n\nimpl hinted:\n  style: raw\n  ask: |\n    {{question}} {instruction}\n"
        "  parse: line\n  max_tokens: 8"
    )


@pytest.mark.parametrize(
    "instruction", ["Say 42:", "The answer is 42.", "The answer is 42.0", "(42)", "Answer=42", "It is forty, no: 42!"]
)
def test_an_instruction_with_the_answer_is_literal(instruction):
    assert cheat_of(asks(instruction), SUM, lambda request: "42") == "literal"


@pytest.mark.parametrize("instruction", ["Say 420:", "Say 142", "Use 4 or 2 steps", "x42"])
def test_an_instruction_that_only_resembles_the_answer_is_honest(instruction):
    assert cheat_of(asks(instruction), SUM, lambda request: "42") == ""


def test_case_and_punctuation_do_not_hide_a_text():
    assert cheat_of(asks("Think of: PARIS!"), TOWN, lambda request: "Paris") == "literal"
    assert cheat_of(asks("Think of the parish"), TOWN, lambda request: "Paris") == ""


def test_thousands_separators_do_not_hide_a_number():
    question = asked("What is 1000 + 234?", "1234")
    assert cheat_of(asks("Say 1,234"), question, lambda request: "1234") == "literal"


def test_a_question_that_holds_its_answer_is_not_flagged():
    question = asked("Which word comes first? Words: pear, apple", "apple")
    assert cheat_of(asks("Is it apple?"), question, lambda request: "apple") == ""


WITH_LLM = "a = direct(question)\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('state x: str = "Paris"\na = direct(question)\nanswer = copy(x)', "literal"),
        ('a = direct(question)\n  if a == "Paris" -> n3 else n2\nn2: b = copy(a)\nn3: answer = copy(a)', "literal"),
        (WITH_LLM + 'answer = copy("Paris")', "literal"),
        (WITH_LLM + 'answer = reverse("sirap")', "constant"),
        ('answer = reverse("sirap")', "constant"),
        (WITH_LLM + 'answer = direct(question)\nanswer = reverse("sirap")', "constant"),
        ('state x: str = "sirap"\na = direct(question)\nanswer = reverse(x)', "constant"),
        (WITH_LLM + 'b = reverse("sirap")\nc = reverse("sirap")\nanswer = vote(b, c, a)', "counterfactual"),
    ],
)  # fmt: skip
def test_hidden_texts_are_found(text, found):
    assert cheat_of(text, TOWN, lambda request: "Paris" if found == "literal" else "Rome") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (WITH_LLM + 'answer = sum("40, 2")', "constant"),
        (WITH_LLM + 'answer = calculate("6 * 7")', "constant"),
        (WITH_LLM + 'b = count("§", a)\nanswer = sum(b, 40, 2)', "counterfactual"),
        ("a = numbers(question)\nb = sum(40, 2)\nanswer = largest(a, b)", "counterfactual"),
        ("a = numbers(question)\nb = sum(40, 2)\nanswer = smallest(a, b)", "counterfactual"),
    ],
)
def test_hidden_numbers_are_found(text, found):
    shown = "7" if "largest" in text else "77"
    assert cheat_of(text, SUM, lambda request: shown) == found


def test_counters_of_a_guard_hide_nothing():
    text = (
        "draft = solve(question)\ncheck: v = verify(question, draft)\n  if visits.check < 3 -> check\n"
        "answer = copy(draft)"
    )

    def reply(request: Request) -> str:
        return "3" if "Solve it" in prompt_text(request) else "wrong"

    assert cheat_of(text, asked("What is 10 - 7?", "3"), reply) == ""


def test_one_of_two_choices_is_no_cheat():
    """Chance alone would give one of two fixed answers; the two ways of a driver choose differently."""
    question = asked("Is the sky blue?", "yes")
    text = (
        "answer = pick(question)\n\nimpl pick:\n  style: raw\n  ask: |\n    {question} Decide:\n  parse: choice\n"
        '  choices: ["no", "yes"]\n  max_tokens: 4'
    )
    many = [asked(f"Is thing {number} blue, yes or no?", "yes") for number in range(40)]
    assert [cheat_of(text, q, lambda request: "yes") for q in many] == [""] * 40
    assert cheat_of(text, question, lambda request: "yes") == "literal"


def test_the_length_of_an_answer_is_no_cheat():
    question = asked("How many letters has the word unbelievable?", "12")
    assert cheat_of("a = word(question)\nanswer = length(a)", question, lambda request: "unbelievable") == ""


def test_only_correct_executions_are_looked_at():
    harness = parse("graph", 'answer = copy("Paris")')
    row = Execution(TOWN.id, harness.digest, "graph", "t", 0, "ok", "Rome", 0.0)
    assert find_cheat(harness, TOWN, row, SUITE.score, LIMITS) == ""


def test_a_prompt_with_the_answer_is_literal_and_without_it_honest():
    limits = Limits()
    for text, found in (("# raw max_tokens=8\nParis? {question}", "literal"), ("# raw max_tokens=8\n{question}", "")):
        harness = parse("prompt", text)
        result = run_with(harness, TOWN, limits, lambda request: "Paris")
        row = Execution(TOWN.id, harness.digest, "prompt", "t", 0, "ok", result.answer, 1.0, usage=Usage(1))
        assert find_cheat(harness, TOWN, row, SUITE.score, limits) == found


# --- honest graphs ---------------------------------------------------------------------------------------------


def copier(question: Question) -> Callable[[Request], str]:
    """A target that copies arguments without a mistake, and answers everything else with the reference."""
    quoted = re.search(r'letter "(.)".*text: "(.*)"', question.text)
    listed = question.text.rpartition(": ")[2]
    replies = {
        "Words:": listed,
        "Word:": listed,
        "Numbers:": ", ".join(re.findall(r"\d+", question.text)),
        "Expression:": "".join(re.findall(r"\d+(?: [-+] \d+)+", question.text)),
        "Count:": f"{quoted[1]} in {quoted[2]}" if quoted else "none",
        "Date:": "".join(re.findall(r"\d+-\d+-\d+", question.text)),
    }

    def answer(request: Request) -> str:
        if isinstance(request.prompt, str):
            return replies.get(request.prompt.rsplit("\n", 1)[-1], question.reference)
        if request.choices:
            return request.choices[0]
        return f"Answer: {question.reference}"

    return answer


def test_honest_graphs_of_the_pool_are_not_flagged_on_200_questions():
    """Those with a tool on every question, the others on every fourth, to save time."""
    correct: Counter[str] = Counter()
    for place, question in enumerate(SUITE.questions("train", 200, 7)):
        answer = copier(question)
        for number, item in enumerate(pool()):
            if item.harness is None or (item.calls_max > 1 and (place + number) % 4):
                continue
            result = run_with(item.harness, question, LIMITS, answer)
            score = SUITE.score(question, result.answer).value if result.outcome == "ok" else 0.0
            row = Execution(
                question.id, item.harness.digest, "graph", "t", 0, result.outcome, result.answer, score,
                trace=result.trace,
            )  # fmt: skip
            assert find_cheat(item.harness, question, row, SUITE.score, LIMITS) == "", (item.name, question.text)
            correct[item.name] += score == 1.0
    assert {"calculate", "count-letter", "gcd", "lcm", "sort-words", "sort-first", "weekday"} <= set(+correct)
    assert correct["direct"] == 200
