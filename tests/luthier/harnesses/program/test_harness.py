from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from luthier.errors import HarnessError, InputError
from luthier.harness import Harness
from luthier.harnesses import parse
from luthier.harnesses.graph.bounds import calls_bound
from luthier.harnesses.graph.harness import GraphHarness
from luthier.harnesses.program.harness import Editable, ProgramHarness, graph_of
from luthier.harnesses.program.module import Module
from luthier.harnesses.prompt import PromptHarness

TEXT = """\
wiring: |
  draft = solve(question)
  n2: verdict, why = judge(question, draft)
    if verdict == "wrong" and visits.n2 < 3 -> fix else done
  fix: draft = mend(draft, why)
    -> n2
  done: answer = copy(draft)
modules:
  solve:
    inputs: [question]
    outputs: [answer]
    instruction: Solve the question.
    demos:
      - question: What is 2 and 3?
        answer: 5
  judge:
    inputs: [question, draft]
    outputs: [verdict, why]
    style: raw
    instruction: |
      Judge the draft.
        Be strict: it may be wrong.
    descriptions:
      verdict: right or wrong
    max_tokens: 80
    temperature: 0.7
  mend:
    inputs: [draft, why]
    outputs: [draft_again]"""

MODULES = """modules:
  ask:
    inputs: [question]
    outputs: [answer]"""


def test_the_canonical_text_is_a_fixed_point() -> None:
    program = ProgramHarness.parse(TEXT)
    assert program.text == TEXT
    assert parse("program", TEXT) == program
    assert isinstance(program, Harness)
    assert program.kind == "program"


def test_spellings_of_one_program_are_one_program() -> None:
    spelled = """\
modules:
  ask:   # the only one
    outputs: ["answer"]
    inputs:
    - question
    temperature: 0.0
    max_tokens: 064
    style: chat
    instruction: '  Answer it. '
wiring: "answer  =  ask( question )   # ask"
"""
    program = ProgramHarness.parse(spelled.replace("\n", "\r\n"))
    wanted = f"wiring: |\n  answer = ask(question)\n{MODULES}\n    instruction: Answer it."
    assert program.text == wanted
    assert program.digest == parse("program", wanted).digest


def test_the_digest_is_of_kind_and_text() -> None:
    program = ProgramHarness.parse(TEXT)
    assert program.digest != ProgramHarness.parse(TEXT.replace("0.7", "0.8")).digest
    assert len(program.digest) == 64
    assert program == ProgramHarness.of(list(program.modules.values()), program.wiring)


def test_parts_are_read() -> None:
    program = ProgramHarness.parse(TEXT)
    assert list(program.modules) == ["solve", "judge", "mend"]
    assert program.module("solve").demos == ({"question": "What is 2 and 3?", "answer": "5"},)
    judge = program.module("judge")
    assert (judge.style, judge.max_tokens, judge.temperature) == ("raw", 80, 0.7)
    assert judge.instruction == "Judge the draft.\n  Be strict: it may be wrong."
    assert judge.descriptions == {"verdict": "right or wrong"}
    assert calls_bound(program.graph) == 1 + 8 + 8


def test_edits_are_pure_and_round_trip() -> None:
    program = ProgramHarness.parse(TEXT)
    hard = 'Quote "this": {question}\n\n- and\tthat\x07 \U0001f600'
    edited = program.with_instruction("mend", hard).with_demos("solve", [{"question": "no", "answer": "~"}] * 2)
    assert program.text == TEXT
    assert edited.module("mend").instruction == hard
    assert edited.module("solve").demos == ({"question": "no", "answer": "~"},) * 2
    assert ProgramHarness.parse(edited.text) == edited
    assert edited.with_instruction("mend", "").with_demos("solve", program.module("solve").demos) == program
    assert edited.wiring == program.wiring


def test_editable_names_what_a_scope_allows() -> None:
    program = ProgramHarness.parse(TEXT)
    assert program.editable("instructions") == tuple(Editable(n, "instruction") for n in ("solve", "judge", "mend"))
    assert program.editable("demos")[0] == Editable("solve", "demos")
    assert len(program.editable()) == 6
    with pytest.raises(InputError, match="scope 'weights' is unknown"):
        program.editable("weights")  # type: ignore[arg-type]


def test_an_unknown_module_is_refused_with_near_names() -> None:
    with pytest.raises(InputError, match=r"no module 'sole'.*solve"):
        ProgramHarness.parse(TEXT).with_instruction("sole", "x")
    with pytest.raises(HarnessError, match="demonstration 1 lacks answer"):
        ProgramHarness.parse(TEXT).with_demos("solve", [{"question": "x"}])


def test_a_module_may_have_a_preset_s_name_and_presets_are_not_available() -> None:
    of = ProgramHarness.of([Module("cot", ("q",), ("a",), "Mine.")], "answer = cot(question)")
    assert of.graph.implementations["cot"].role == "Mine."
    with pytest.raises(HarnessError, match="no module, tool or builtin direct") as caught:
        ProgramHarness.of([Module("cot", ("q",), ("a",))], "a = cot(question)\nanswer = direct(question)")
    assert (caught.value.rule, caught.value.line) == ("unknown-name", 2)


def test_graph_of_tells_what_runs() -> None:
    program = ProgramHarness.parse(TEXT)
    graph = GraphHarness.parse("answer = copy(question)")
    assert graph_of(program) is program.graph
    assert graph_of(graph) is graph
    assert graph_of(PromptHarness.parse("x")) is None


def wired(*lines: str) -> str:
    return "\n".join(["wiring: |", *(f"  {line}" for line in lines), MODULES])


@pytest.mark.parametrize(
    ("text", "rule", "line", "word"),
    [
        # A cycle without a bound, and other complaints of the wiring, with their line in the program.
        (wired("a: x = ask(question)", "  -> a", "answer = copy(x)"), "unguarded-cycle", 2, "for ever"),
        (wired("a: answer = ask(question)", "  if answer == \"x\" -> a else b", "b: y = copy(answer)", "  -> b"),
         "unguarded-cycle", 4, "for ever"),
        (wired("answer = aks(question)"), "unknown-name", 2, "did you mean ask"),
        (wired("answer = solve(question)"), "unknown-name", 2, "no module, tool or builtin solve"),
        (wired("answer = other(question) n=2"), "missing-impl", 2, "no module, tool or builtin other"),
        (wired("answer = ask(question, question)"), "arity", 2, "takes 1 inputs, 2 given"),
        (wired("answer, b = ask(question)"), "arity", 2, "ask gives answer, but 2 fields are written"),
        (wired("x = ask(question)"), "unwritten-answer", 2, "no node writes answer"),
        (wired("x = ask(question)", "answer = ask(y)"), "unknown-state", 3, "writes y"),
        (wired("answer = ask(question)", "impl ask:", "  ask: x"), "impl-block", 3, "no impl blocks"),
        (wired("answer = copy(question)"), "unused-module", 4, "no node runs module ask"),
        (wired("answer = ask(question", ""), "syntax", 2, "expected"),
        # The text around it.
        ("", "syntax", 1, "no mapping"),
        ("wiring: [", "syntax", 1, "not readable"),
        ("a: &x 1\nb: *x", "syntax", 1, "anchors"),
        ('wiring: "\\UFFFFFFFF"', "syntax", 1, "names no character"),
        ("wiring: " + "[" * 5000, "syntax", 1, "nested too deep"),
        ("wiring: a\nwiring: b", "syntax", 2, "stands twice"),
        ("? [a]\n: b", "syntax", 1, "name is no text"),
        ("wiring: a\x00", "syntax", 1, "not allowed"),
        ("x" * 40_001, "too-long", 1, "40000"),
        (MODULES, "missing-field", 0, "no wiring"),
        ("wiring: answer = copy(question)", "missing-field", 0, "no module"),
        ("wiring: answer = copy(question)\nmodules: []", "missing-field", 2, "no module"),
        (wired("answer = ask(question)") + "\nnotes: x", "unknown-field", 7, "no part of a program"),
        (wired("answer = ask(question)") + "\n    colour: red", "unknown-field", 7, "no field of a module"),
        (wired("answer = ask(question)") + "\n    instruction: [a]", "bad-option", 7, "not one value"),
        (wired("answer = ask(question)") + "\n    descriptions: a", "bad-option", 7, "no mapping"),
        (wired("answer = ask(question)") + "\n    max_tokens: many", "bad-option", 7, "whole number"),
        (wired("answer = ask(question)") + "\n    max_tokens: 0", "bad-option", 7, "whole number"),
        (wired("answer = ask(question)") + "\n    temperature: warm", "bad-option", 7, "no number"),
        (wired("answer = ask(question)") + "\n    style: loud", "bad-option", 7, "unknown"),
        (wired("answer = ask(question)") + "\n    demos: x", "bad-demo", 7, "no list"),
        (wired("answer = ask(question)") + "\n    demos:\n      - answer: x", "bad-demo", 7, "lacks question"),
        (wired("answer = ask(question)") + "\n    demos:\n      - answer: [x]\n        question: y", "bad-demo", 7,
         "not a text"),
        (wired("answer = ask(question)").replace("[question]", "question"), "bad-signature", 5, "no list of names"),
        (wired("answer = ask(question)").replace("    outputs: [answer]", "").rstrip(), "missing-field", 4, "missing"),
        (wired("answer = ask(question)") + "\n  more:", "missing-field", 7, "has no fields"),
    ],
)  # fmt: skip
def test_each_broken_rule_names_rule_line_and_fix(text: str, rule: str, line: int, word: str) -> None:
    with pytest.raises(HarnessError, match=word) as caught:
        ProgramHarness.parse(text)
    assert (caught.value.rule, caught.value.line) == (rule, line)
    assert caught.value.fix
    assert caught.value.field


def test_a_module_with_several_outputs_is_not_sampled_in_one_node() -> None:
    two = Module("two", ("q",), ("a", "b"))
    with pytest.raises(HarnessError, match="several outputs"):
        ProgramHarness.of([two], "answer, b = two(question) n=3 temperature=1")
    with pytest.raises(HarnessError, match="two gives a, b, but 1 fields"):
        ProgramHarness.of([two], "answer = two(question)")
    with pytest.raises(HarnessError, match="stands twice"):
        ProgramHarness.of([two, two], "answer, b = two(question)")
    with pytest.raises(HarnessError, match="at most 32"):
        ProgramHarness.of([two] * 33, "answer, b = two(question)")


def test_a_program_that_an_edit_makes_too_long_is_refused() -> None:
    with pytest.raises(HarnessError) as caught:
        ProgramHarness.parse(TEXT).with_instruction("solve", "x" * 40_000)
    assert caught.value.rule == "too-long"


WORDS = (
    "a",
    "no",
    "null",
    "5",
    "1: 2",
    "- x",
    "# y",
    '"q"',
    "{a}",
    "|",
    "\\n",
    " x",
    "x:",
    "\t",
    "\x07",
    "é\u2028",
    "---",
)


def draw_text(rng: random.Random) -> str:
    return "".join(rng.choice(WORDS) + rng.choice(("", " ", "\n", "\n\n  ")) for _ in range(rng.randint(0, 6)))


def draw_program(rng: random.Random) -> ProgramHarness:
    modules = []
    for index in range(rng.randint(1, 4)):
        outputs = tuple(f"out_{n}" for n in range(rng.randint(1, 3)))
        inputs: Sequence[str] = ("question",) if index == 0 else ("question", "notes")
        fields = [*inputs, *outputs]
        modules.append(
            Module(
                f"m{index}",
                tuple(inputs),
                outputs,
                draw_text(rng),
                tuple({name: draw_text(rng) for name in fields} for _ in range(rng.randint(0, 3))),
                {name: draw_text(rng) for name in fields if rng.random() < 0.3},
                rng.choice(("chat", "raw")),
                rng.randint(1, 2048),
                rng.choice((0.0, 0.25, 1.0)),
            )
        )
    lines = []
    for index, module in enumerate(modules):
        writes = ["answer", "x", "y"][: len(module.outputs)]
        args = "question" if index == 0 else "question, answer"
        lines.append(f"{', '.join(writes)} = {module.name}({args})")
        if index and rng.random() < 0.4:
            lines.append(f'  if answer != "" and visits.n{index + 1} < 3 -> n{index}')
    return ProgramHarness.of(modules, "\n".join(lines))


def test_random_programs_are_fixed_points() -> None:
    texts = set()
    for seed in range(150):
        program = draw_program(random.Random(seed))
        again = ProgramHarness.parse(program.text)
        assert again.text == program.text
        assert again.modules == program.modules
        texts.add(program.text)
    assert len(texts) > 140


NOISE = (
    ":",
    "- ",
    "\n",
    "[",
    "}",
    "  ",
    "'",
    '"',
    "|",
    ">",
    "&a",
    "*a",
    "?",
    "!!int",
    "~",
    "\t",
    "=",
    "->",
    "---\n",
    "<<: ",
)


def test_damaged_texts_are_refused_or_read_and_never_crash() -> None:
    refused, read = [], []
    for seed in range(300):
        rng = random.Random(seed)
        text = TEXT
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(NOISE) + text[at + rng.choice((0, 0, 3)) :]
        try:
            read.append(ProgramHarness.parse(text))
        except HarnessError as error:
            refused.append(error)
    assert len(refused) > 100
    assert len(read) > 10
    assert all(error.rule and error.field and error.fix for error in refused)
    assert all(ProgramHarness.parse(program.text) == program for program in read)
