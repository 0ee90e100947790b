"""Sample questions: what each trained contender wrote, drawn beside what happened when it ran."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from luthier.evaluation.evaluate import Result
from luthier.execution import Execution, Step
from luthier.question import Question
from luthier.report.html.markup import Html, element, join
from luthier.report.html.numbers import NONE, count, percent
from luthier.report.html.tables import (
    Column,
    cell,
    contender_label,
    folded,
    kind_label,
    kind_order,
    note,
    number,
    row,
    section,
    table,
)
from luthier.report.sections.data import MethodData, ReportData
from luthier.report.sections.systems import drawing, read_graph

Situation = Literal["rescued", "regressed", "wrong", "solved"]
"""How the last trained contender did on a question, against the one before it."""
SITUATIONS: tuple[Situation, ...] = ("rescued", "regressed", "wrong", "solved")
_PER_KIND = 3
_LONGEST_VALUE = 160


def samples(method: MethodData, data: ReportData) -> Html:
    """Two to three questions of each kind of family, one of each situation where there is one."""
    kinds = sorted({data.kind(family) for family in data.families}, key=kind_order)
    blocks = []
    for kind in kinds:
        chosen = choose(method, [q for q in data.questions["test"] if data.kind(q.family) == kind])
        cards = [
            _card(method, question, situation, is_open=number_ == 0)
            for number_, (question, situation) in enumerate(chosen)
        ]
        blocks.append(join(element("h3", kind_label(kind)), cards))
    return section(
        f"{method.card.name}-samples",
        f"{method.card.title}: sample questions",
        note(
            f"For each kind of family up to {_PER_KIND} questions, chosen to show different situations (the first of "
            "each by question id), so they say nothing about rates. Badges count how often a node ran."
        ),
        blocks,
    )


def choose(method: MethodData, questions: Sequence[Question]) -> list[tuple[Question, Situation]]:
    """Questions to show, with their situation: rescued, regressed, still wrong and solved come in turn."""
    by_situation: dict[Situation, list[Question]] = {}
    for question in _families_in_turn(questions):
        by_situation.setdefault(_situation(method, question), []).append(question)
    order = [name for name in SITUATIONS if name in by_situation]
    turns = max((len(group) for group in by_situation.values()), default=0)
    ranked = [
        (by_situation[name][turn], name) for turn in range(turns) for name in order if turn < len(by_situation[name])
    ]
    return ranked[:_PER_KIND]


def _families_in_turn(questions: Sequence[Question]) -> list[Question]:
    """By id, but the first question of each family before any second one."""
    seen: Counter[str] = Counter()
    turns: list[tuple[int, str, Question]] = []
    for question in sorted(questions, key=lambda item: item.id):
        turns.append((seen[question.family], question.id, question))
        seen[question.family] += 1
    return [question for _, _, question in sorted(turns, key=lambda item: item[:2])]


def _situation(method: MethodData, question: Question) -> Situation:
    """How the last trained contender did against the one before it (or the target alone)."""
    learned = method.scores.learned
    before = learned[-2] if len(learned) > 1 else "target_alone"
    now, then = (_result(method, name, question).execution.score or 0.0 for name in (learned[-1], before))
    if now > then:
        return "rescued"
    if now < then:
        return "regressed"
    return "solved" if now >= 1.0 else "wrong"


def _result(method: MethodData, contender: str, question: Question) -> Result:
    return next(result for result in method.results[contender] if result.question == question.id)


def _card(method: MethodData, question: Question, situation: Situation, *, is_open: bool) -> Html:
    groups: dict[str, list[Result]] = {}
    for contender in method.scores.learned:
        result = _result(method, contender, question)
        groups.setdefault(result.execution.harness, []).append(result)
    summary = join(
        element("span", situation, class_=f"tag {situation}"),
        " ",
        element("b", question.family),
        " ",
        _cut(question.text),
    )
    return folded(
        summary,
        element("p", question.text, class_="question") if _loses(question.text) else None,
        element("p", "Reference: ", element("code", question.reference)),
        [_attempt(results, f"{method.card.name} {question.id}") for results in groups.values()],
        is_open=is_open,
    )


def _attempt(results: Sequence[Result], place: str) -> Html:
    """One harness, the picture on the left and the run on the right."""
    execution = results[0].execution
    runs = Counter(step.node for step in execution.trace)
    who = " and ".join(contender_label(result.contender) for result in results)
    tokens = results[0].proposal.completion_tokens
    return element(
        "div",
        element("h4", f"{who} wrote ({count(tokens)} tokens)"),
        element(
            "div",
            drawing(results[0].text, f"{place} {who}", runs),
            element("div", _trace(execution, results[0].text), _verdict(execution), class_="run"),
            class_="beside",
        ),
        class_="attempt",
    )


def _trace(execution: Execution, text: str) -> Html:
    graph = read_graph(text)
    if graph is None or not execution.trace:
        return note("No node ran.")
    names = {node.id: node.name for node in graph.nodes}
    columns = [Column("node"), Column("read"), Column("wrote"), Column("tokens", numeric=True)]
    return table("Trace", columns, [_step(step, names.get(step.node, "")) for step in execution.trace])


def _step(step: Step, name: str) -> Html:
    tokens = step.usage.prompt_tokens + step.usage.completion_tokens
    return row(
        join(name, " ", element("span", f"{step.node}, {step.kind}", class_="kind")),
        cell(_values(step.inputs)),
        cell(element("code", _cut(_value(step.output)))),
        number(count(tokens) if tokens else NONE),
    )


def _verdict(execution: Execution) -> Html:
    score = NONE if execution.score is None else percent(execution.score)
    answer = join("answer ", element("code", _cut(execution.answer)), ", ") if execution.outcome == "ok" else None
    # What is wrong with an invalid text is said under the text.
    reason = "" if execution.outcome == "invalid" else execution.error or execution.feedback
    right = execution.score is not None and execution.score >= 1.0
    return element(
        "p",
        answer,
        f"outcome {execution.outcome}, score ",
        element("strong", score),
        f". {reason}" if reason else ".",
        class_="verdict right" if right else "verdict",
    )


def _values(inputs: Mapping[str, Any]) -> Html:
    return join([element("div", f"{name}: ", element("code", _cut(_value(value)))) for name, value in inputs.items()])


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _loses(text: str) -> bool:
    """Whether one cut line does not say the whole text."""
    return _cut(text) != text or "\n" in text


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
