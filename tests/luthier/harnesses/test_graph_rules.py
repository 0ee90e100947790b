"""One smallest invalid document per rule. The text, the rule and the line that the message names."""

from __future__ import annotations

import pytest

from luthier.errors import HarnessError
from luthier.harnesses.graph.harness import GraphHarness

MEND = 'impl mend:\n  ask: "{question}"'

INVALID = [
    ("syntax", 1, ""),
    ("syntax", 1, "answer copy(question)"),
    ("syntax", 1, "answer = copy(question"),
    ("syntax", 1, "answer = copy('question')"),
    ("syntax", 1, "  -> END\nanswer = copy(question)"),
    ("syntax", 3, "answer = copy(question)\n  -> END\n  -> n1"),
    ("syntax", 1, "len = copy(question)\nanswer = copy(len)"),
    ("syntax", 1, "if: answer = copy(question)"),
    ("syntax", 2, "answer = copy(question)\nlimits steps"),
    ("syntax", 1, "state a: int = x\nanswer = copy(question)"),
    ("syntax", 1, 'state a: dict = {"a": NaN}\nanswer = copy(question)'),
    ("syntax", 2, "state a: str\nstate a: str\nanswer = copy(question)"),
    ("syntax", 1, 'answer = copy("\\ud800")'),
    ("syntax", 1, "answer = copy(1e999)"),
    ("syntax", 2, "answer = copy(question)\n# \x07"),
    ("syntax", 3, 'answer = mend(question)\nimpl mend:\n  ask: "{question}" x'),
    ("syntax", 3, "answer = mend(question)\nimpl mend:\n  ask: &a x\n  role: *a"),
    ("syntax", 4, "answer = mend(question)\nimpl mend:\n  ask: x\n  ask: y"),
    ("syntax", 4, f"answer = mend(question)\n{MEND}\n{MEND}"),
    ("syntax", 1, "a, a = copy(question)\nanswer = copy(a)"),
    ("unknown-name", 1, "answer = sortt(question)"),
    ("missing-impl", 1, "answer = mend(question) temperature=0.5"),
    ("missing-impl", 2, "answer = mend(question)\nimpl mend:"),
    ("missing-impl", 2, "answer = mend(question)\nimpl mend:\n  role: You mend."),
    ("unused-impl", 2, f"answer = copy(question)\n{MEND}"),
    ("name-clash", 2, 'answer = sort(question)\nimpl sort:\n  ask: "{question}"'),
    ("name-clash", 2, 'answer = direct(question)\nimpl direct:\n  ask: "{question}"'),
    ("unknown-state", 1, "answer = copy(draft)"),
    ("unknown-state", 2, 'answer = copy(question)\n  if draft == "x" -> END'),
    ("unknown-state", 3, 'answer = mend(question)\nimpl mend:\n  ask: "{draft}"'),
    ("read-before-write", 1, "answer = copy(b)\nb = copy(question)"),
    ("read-before-write", 5, 'a = copy(question)\n  if a == "x" -> n3\nb = copy(a)\n  -> n3\nanswer = copy(b)'),
    ("read-before-write", 2, 'answer = copy(question)\n  if b == "x" -> END\nb = copy(question)'),
    ("read-before-write", 4, "a = copy(question)\n  -> n2, n3\nb = copy(a)\nanswer = copy(b)"),
    ("unwritten-answer", 1, "a = copy(question)"),
    ("unwritten-answer", 1, 'a = copy(question)\n  if a == "x" -> END\nanswer = copy(a)'),
    ("unwritten-answer", 2, 'state answer: str = "7"\na = copy(question)'),
    ("bad-type", 1, "state a: text\nanswer = copy(question)"),
    ("bad-type", 1, "state a: str append\nanswer = copy(question)"),
    ("bad-type", 1, "state a: str sum\nanswer = copy(question)"),
    ("bad-type", 1, "state a: list[int] product\nanswer = copy(question)"),
    ("bad-type", 1, 'state a: int = "x"\nanswer = copy(question)'),
    ("bad-type", 1, "state a: int = true\nanswer = copy(question)"),
    ("bad-type", 2, "a = length(question)\nanswer = sort(a)"),
    ("bad-type", 2, "a = sort(question)\nanswer = reverse(a)"),
    ("bad-type", 1, "answer = sort(5)"),
    ("bad-type", 2, "state a: int\na = sort(question)\nanswer = copy(a)"),
    ("bad-type", 2, "state a: str\na = direct(question) n=2 temperature=1\nanswer = copy(a)"),
    ("bad-guard", 2, "answer = copy(question)\n  if len(answer) + 1 > 2 -> END"),
    ("bad-guard", 2, "answer = copy(question)\n  if answer -> END"),
    ("bad-guard", 2, 'answer = copy(question)\n  if answer.upper == "X" -> END'),
    ("bad-guard", 2, 'answer = copy(question)\n  if answer[0] == "X" -> END'),
    ("bad-guard", 2, 'answer = copy(question)\n  if lower(answer) == "X" -> END'),
    ("unknown-node", 2, "answer = copy(question)\n  -> done"),
    ("unknown-node", 2, "answer = copy(question)\n  if visits.check < 2 -> END"),
    ("unreachable-node", 3, "answer = copy(question)\n  -> END\nanswer = copy(question)"),
    (
        "unreachable-end",
        1,
        'answer = copy(question)\n  if answer == "a" -> n1 else n2\nb = copy(answer)\n  if b == "a" -> n1 else n2',
    ),
    ("unguarded-cycle", 1, "answer = copy(question)\n  -> n1"),
    ("unguarded-cycle", 1, "answer = copy(question)\nb = copy(answer)\n  -> n1"),
    ("unguarded-cycle", 1, "answer = copy(question)\n  -> n1, n2\nb = copy(question)"),
    ("unguarded-cycle", 1, "answer = copy(question)\n  if visits.n1 < 2 -> n1 else n1"),
    ("bad-option", 1, "answer = direct(question) colour=1"),
    ("bad-option", 1, "answer = direct(question) temperature=3"),
    ("bad-option", 1, 'answer = direct(question) temperature="hot"'),
    ("bad-option", 1, "answer = direct(question) n=0"),
    ("bad-option", 1, "answer = direct(question) n=99 temperature=1"),
    ("bad-option", 1, "answer = direct(question) n=3"),
    ("bad-option", 1, "answer = direct(question) max_tokens=1.5"),
    ("bad-option", 1, "answer = direct(question) max_tokens=99999"),
    ("bad-option", 1, "answer = copy(question) n=2"),
    ("bad-option", 1, "limits steps=0\nanswer = copy(question)"),
    ("bad-option", 1, "limits days=3\nanswer = copy(question)"),
    ("bad-option", 4, f"answer = mend(question)\n{MEND}\n  parse: poem"),
    ("bad-option", 4, f"answer = mend(question)\n{MEND}\n  colour: red"),
    ("bad-option", 4, f"answer = mend(question)\n{MEND}\n  max_tokens: many"),
    ("bad-option", 4, f"answer = mend(question)\n{MEND}\n  choices: [yes, no]"),
    ("bad-option", 4, f"answer = mend(question)\n{MEND}\n  shots: [{{draft: x, out: y}}]"),
    ("limits-too-high", 1, "limits calls=999999\nanswer = copy(question)"),
    ("duplicate-label", 2, "a: b = copy(question)\na: answer = copy(b)"),
    ("duplicate-label", 2, "n2: b = copy(question)\nanswer = copy(b)"),
    ("arity", 1, f"answer = sort({', '.join(['question'] * 17)})"),
    ("arity", 1, "answer = days_between(question)"),
    ("arity", 1, "answer = direct()"),
    ("arity", 1, "answer = vote()"),
    ("arity", 1, "a, answer = copy(question)"),
    ("arity", 1, "a, answer = direct(question)"),
    ("question-write", 1, "question = copy(question)\nanswer = copy(question)"),
    ("question-write", 1, "state question: str\nanswer = copy(question)"),
    ("too-long", 1, "answer = copy(question) #" + "x" * 4000),
    ("too-long", 65, "\n".join(["answer = copy(question)"] * 65)),
]  # fmt: skip

RULES = {
    "syntax", "unknown-name", "unknown-state", "read-before-write", "unwritten-answer", "bad-type", "bad-guard",
    "unknown-node", "unreachable-end", "unguarded-cycle", "missing-impl", "unused-impl", "bad-option",
    "limits-too-high", "duplicate-label", "arity", "question-write", "too-long", "name-clash", "unreachable-node",
}  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "line", "text"), INVALID, ids=[f"{rule}-{i}" for i, (rule, _, _) in enumerate(INVALID)]
)
def test_an_invalid_document_is_refused_with_its_rule_line_and_fix(rule: str, line: int, text: str) -> None:
    with pytest.raises(HarnessError) as caught:
        GraphHarness.parse(text)
    assert (caught.value.rule, caught.value.line) == (rule, line)
    assert caught.value.field
    assert caught.value.fix


def test_every_rule_has_a_document() -> None:
    assert {rule for rule, _, _ in INVALID} == RULES


def test_too_many_ways_are_refused_before_they_are_walked() -> None:
    branches = "\n".join(
        f"b{i}: x{i} = copy(question)\n  if x{i} == 1 -> c{i} else END\nc{i}: y{i} = copy(x{i})\n  -> END"
        for i in range(18)
    )
    text = f"answer = copy(question)\n  -> {', '.join(f'b{i}' for i in range(18))}\n{branches}"
    with pytest.raises(HarnessError) as caught:
        GraphHarness.parse(text)
    assert caught.value.rule == "too-long"


@pytest.mark.parametrize(("name", "fix"), [("sortt", "did you mean sort"), ("qqqqqq", "use a tool (")])
def test_an_unknown_name_is_answered_with_what_there_is(name: str, fix: str) -> None:
    with pytest.raises(HarnessError) as caught:
        GraphHarness.parse(f"answer = {name}(question)")
    assert fix in str(caught.value)
