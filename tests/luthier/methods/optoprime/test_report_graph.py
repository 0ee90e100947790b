"""What a report holds, with how much feedback, and whom it blames."""

from __future__ import annotations

from pathlib import Path

import pytest

from luthier.harnesses.program.harness import ProgramHarness
from luthier.ledger.budget import Amount
from luthier.methods.optoprime.report_graph import ReportCredit, Reporter, Try, tries_of
from luthier.search.contracts import Evaluation, LogRow, Scope
from luthier.search.programs import ProgramBinding
from luthier.targets.scripted import prompt_text
from tests.luthier.search.program_runs import question, ran

PROGRAM = ProgramHarness.parse(
    """
wiring: |
  aside = muse(question)
  fact = find(question)
    if fact == "none" -> last else next
  next: fact = mend(fact, "x")
  last: answer = say(fact)
modules:
  muse: {inputs: [question], outputs: [thought]}
  find: {inputs: [question], outputs: [fact], instruction: "Find {it}."}
  mend: {inputs: [fact, way], outputs: [better]}
  say: {inputs: [fact], outputs: [answer], instruction: Say.}
"""
)
NAMES = ("find", "mend", "say")
QUESTIONS = [question("one"), question("two"), question("three", "it is so")]


@pytest.fixture
def evaluation(tmp_path: Path) -> Evaluation:
    def reply(request):
        text = prompt_text(request)
        return "none" if "Find" in text and "two" in text else "secret" if text.endswith("Fact:") else "it is so"

    return ran(tmp_path, PROGRAM, QUESTIONS, reply, sentence="remark 'it is so' fails")


def report(evaluation: Evaluation, feedback="trace", tries=(), most=1500) -> str:
    scope = Scope(NAMES, feedback=feedback, max_characters=99)
    start = ProgramBinding(PROGRAM).candidate()
    return Reporter(PROGRAM, most).report(start, evaluation, QUESTIONS, scope, tries)


def test_parameters_stand_with_their_constraints_and_nothing_else_may_change(evaluation: Evaluation) -> None:
    text = report(evaluation)
    assert (
        "find: instruction of a call that reads question and writes fact; at most 99 characters\n```\nFind {it}.\n```"
        in text
    )
    assert "muse: instruction" not in text


def test_only_what_led_to_the_answers_is_shown(evaluation: Evaluation) -> None:
    text = report(evaluation)
    code = text.partition("# Code that ran\n\n")[2].partition("\n\n")[0]
    assert code.splitlines() == [
        "n2: fact = find(question)",
        '  if fact == "none" -> last',
        "  else -> next",
        'next: fact = mend(fact, "x")',
        "last: answer = say(fact)",
    ]
    assert "muse" not in text


def test_each_run_shows_its_own_values_and_right_runs_are_counted(evaluation: Evaluation) -> None:
    first, second = report(evaluation).partition("Run 2, score 0 of 1")[::2]
    assert "  next (mend) read fact = secret; way = x\n    and wrote it is so" in first
    assert "mend" not in second.partition("\n\n")[0]
    assert "1 other runs had the full score." in second
    assert "  feedback: remark 'it is so' fails" in first


@pytest.mark.parametrize(("feedback", "values", "sentence"), [("score", 0, 0), ("text", 0, 2), ("trace", 5, 2)])
def test_the_scope_says_how_much_is_shown(evaluation: Evaluation, feedback, values, sentence) -> None:
    text = report(evaluation, feedback)
    assert text.count("and wrote") == values
    assert text.count("remark") == sentence
    assert text.count("  answer: it is so") == 2


def test_long_values_are_cut(evaluation: Evaluation) -> None:
    assert "and wrote secr [cut]" in report(evaluation, most=4)


def test_earlier_tries_stand_with_their_scores(evaluation: Evaluation) -> None:
    text = report(evaluation, tries=[Try({"find": "Seek.", "mend": "", "say": "Tell."}, 0.25)])
    assert text.endswith("Score 0.250 on other questions, with\n  find: Seek.\n  mend: (empty)\n  say: Tell.")


def test_the_last_full_validations_of_a_log_are_remembered() -> None:
    def row(step, event, candidate, detail):
        return LogRow(step, event, candidate, "", "", detail, None, "", Amount())

    def made(name):
        return {"candidate": {"texts": {"find": name}}}

    rows = [
        row(0, "start", "a", made("a")),
        row(1, "evaluate", "a", {"full": True, "scores": [0.0, 1.0]}),
        row(2, "evaluate", "a", {"full": False, "scores": [1.0]}),
        row(3, "propose", "a", {"text": ""}),
        row(4, "propose", "b", made("b")),
        row(5, "evaluate", "b", {"full": True, "scores": [1.0, 1.0]}),
    ]
    assert tries_of(rows, 5) == [Try({"find": "a"}, 0.5), Try({"find": "b"}, 1.0)]
    assert tries_of(rows, 1) == [Try({"find": "b"}, 1.0)]
    assert tries_of(rows, 0) == []


def test_credit_goes_to_the_suspects_of_each_failed_run(evaluation: Evaluation) -> None:
    """Both answers are "it is so": first written by `mend` on question one, by `say` on question two."""
    credit = ReportCredit(PROGRAM)
    shown = {name: credit.assign(name, evaluation, QUESTIONS, "trace") for name in ("muse", *NAMES)}
    assert {name: [item.question for item in items] for name, items in shown.items()} == {
        "muse": [],
        "find": [QUESTIONS[0].id, QUESTIONS[1].id],
        "mend": [QUESTIONS[0].id],
        "say": [QUESTIONS[1].id],
    }
    assert shown["mend"][0].feedback == "remark 'it is so' fails"
    assert credit.assign("mend", evaluation, QUESTIONS, "score")[0].feedback == ""
