from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from luthier.errors import InputError
from luthier.execution import Execution, Limits
from luthier.executor import RunResult
from luthier.executors import executor_for
from luthier.executors.llm_calls import read_answer
from luthier.executors.program import ProgramExecutor, module_traces
from luthier.harnesses import parse
from luthier.harnesses.graph.bounds import calls_bound
from luthier.harnesses.program.harness import ProgramHarness
from luthier.harnesses.program.module import Module, check_module, implementation_of
from luthier.question import Question
from luthier.target import Message, Request
from luthier.targets.scripted import prompt_text

Run = Callable[..., Any]

LOOP = """\
wiring: |
  draft = solve(question)
  check: verdict, why = judge(question, draft)
    if verdict == "wrong" and visits.check < 3 -> fix else done
  fix: draft = mend(draft, why)
    -> check
  done: answer = upper(draft)
modules:
  solve: {inputs: [question], outputs: [answer]}
  judge: {inputs: [question, draft], outputs: [verdict, why]}
  mend: {inputs: [draft, why], outputs: [better_draft]}
"""


def executed(program: ProgramHarness, result: RunResult) -> Execution:
    return Execution("q", program.digest, "program", "t", 0, result.outcome, result.answer, trace=result.trace)


def answer(request: Request) -> str:
    text = prompt_text(request)
    if "Better Draft:" in text:
        return "pear"
    if "Verdict" in text:
        return (
            "Verdict: right\nWhy: fine"
            if "pear" in text.rsplit("Draft:", 1)[1]
            else "verdict: wrong\n**Why:** no\nreason"
        )
    return "fig"


def test_a_program_runs_through_modules_tools_guards_and_loops(run: Run) -> None:
    result, batches = run("program", LOOP, answer)
    assert (result.outcome, result.answer) == ("ok", "PEAR")
    assert [step.node for step in result.trace] == ["n1", "check", "fix", "check", "done"]
    assert batches[2][0].prompt == (Message("user", "Draft: fig\nWhy: no\nreason\nBetter Draft:"),)


def test_traces_per_module_become_demonstrations(run: Run) -> None:
    program = ProgramHarness.parse(LOOP)
    result, _ = run("program", LOOP, answer)
    traces = module_traces(executed(program, result), program)
    assert [(t.module, t.node, t.visit) for t in traces] == [
        ("solve", "n1", 0), ("judge", "check", 0), ("mend", "fix", 0), ("judge", "check", 1)
    ]  # fmt: skip
    assert traces[1].inputs == {"question": "pear, fig, apple", "draft": "fig"}
    assert traces[1].outputs == {"verdict": "wrong", "why": "no\nreason"}
    assert [t.usage.calls for t in traces] == [1, 1, 1, 1]
    better = program.with_demos("judge", [t.demo for t in traces if t.module == "judge"])
    _, batches = run("program", better.text, answer)
    assert Message("assistant", "Verdict: wrong\nWhy: no\nreason") in batches[1][0].prompt


def test_an_unreadable_output_is_empty_counted_and_not_the_end(run: Run) -> None:
    program = ProgramHarness.parse(LOOP)
    result, _ = run("program", LOOP, lambda r: "I do not know" if "Verdict" in prompt_text(r) else "fig")
    assert (result.outcome, result.answer) == ("ok", "FIG")
    traces = module_traces(executed(program, result), program)
    assert [trace.unread for trace in traces] == [(), ("verdict", "why")]


def test_samples_and_literals_are_traced(run: Run) -> None:
    program = ProgramHarness.of(
        [Module("say", ("what", "how"), ("answer",))],
        'xs = say(question, "low") n=3 temperature=1\nanswer = vote(xs)',
    )
    seeds: list[int] = []

    def each(request: Request) -> str:
        seeds.append(request.seed)
        return "yes" if len(seeds) % 3 else "no"

    result, batches = run("program", program.text, each)
    assert result.answer == "yes"
    assert len(batches[0]) == len(set(seeds)) == 3
    traces = module_traces(executed(program, result), program)
    assert [(t.sample, t.outputs["answer"]) for t in traces] == [(0, "yes"), (1, "yes"), (2, "no")]
    assert {tuple(t.inputs.items()) for t in traces} == {(("what", "pear, fig, apple"), ("how", "low"))}


def test_a_trace_survives_its_row(run: Run) -> None:
    program = ProgramHarness.parse(LOOP)
    execution = executed(program, run("program", LOOP, answer)[0])
    assert module_traces(Execution.from_row(execution.to_row()), program) == module_traces(execution, program)


def test_traces_of_another_program_are_refused(run: Run) -> None:
    program = ProgramHarness.parse(LOOP)
    execution = executed(program, run("program", LOOP, answer)[0])
    with pytest.raises(InputError, match="ran harness"):
        module_traces(execution, program.with_instruction("solve", "x"))


def test_a_limit_ends_it_incomplete(run: Run) -> None:
    result, batches = run("program", LOOP, answer, limits=Limits(calls=2))
    assert result.outcome == "incomplete"
    assert len(batches) == 2


def test_another_kind_is_refused_and_the_version_names_no_presets() -> None:
    row = Question.make(task="toy", text="x", reference="y", split="train")
    with pytest.raises(InputError, match="no program"):
        ProgramExecutor().start(parse("graph", "answer = copy(question)"), row, Limits(), 0)
    assert executor_for("program").version == "program-1-graph-1"


def implementation(style: str, *outputs: str) -> Any:
    return implementation_of(check_module(Module("f", ("question",), outputs, style=style)))


@pytest.mark.parametrize(
    ("style", "outputs", "text", "value"),
    [
        ("chat", ("answer",), " two\nlines ", "two\nlines"),
        ("chat", ("answer",), "Answer: 5", "5"),
        ("chat", ("answer",), "**Answer:** 5\nAnswer: 6", "5\nAnswer: 6"),
        ("chat", ("answer",), "The Answer: 5", "The Answer: 5"),
        ("raw", ("answer",), "5", "5"),
        ("chat", ("why", "end"), "Sure!\nWhy: a\n\nb\nEnd: c", ["a\n\nb", "c"]),
        ("chat", ("why", "end"), "- end : c\n# WHY:a", ["a", "c"]),
        ("chat", ("why", "end"), "End: c", ["", "c"]),
        ("chat", ("why", "end"), "Why:\nEnd:", ["", ""]),
        ("chat", ("why", "end"), "Why: a\nWhy: b\nEnd: c\nEnd: d", ["a", "c"]),
        ("chat", ("why", "end"), "", ["", ""]),
        ("raw", ("why", "end"), "a\nEnd: c", ["a", "c"]),
        ("raw", ("why", "end"), "Why: a\nEnd: c", ["a", "c"]),
        ("chat", ("end", "end_date"), "End Date: b\nEnd: a", ["a", "b"]),
    ],
)
def test_outputs_are_read_by_their_labels(style: str, outputs: tuple[str, ...], text: str, value: object) -> None:
    assert read_answer(implementation(style, *outputs), text) == value


@pytest.mark.parametrize("style", ["chat", "raw"])
def test_what_a_demonstration_shows_is_read_back(style: str) -> None:
    demo = {"question": "q", "why": "one\n\n  two", "end": "x: y", "kind": "-"}
    module = check_module(Module("f", ("question",), ("why", "end", "kind"), "", (demo,), style=style))
    compiled = implementation_of(module)
    assert read_answer(compiled, compiled.shots[0].out) == ["one\n\n  two", "x: y", "-"]


ANSWERS = ("", "7", "Answer: x", "A: one\nB: two", "B: two", "no\nB: two\nC: three", "wrong", "a\n\nb")


def draw_program(rng: random.Random) -> ProgramHarness:
    """Two to four modules with one to three outputs, some in a loop, the last one sampled and voted on."""
    modules = [
        Module(f"m{n}", ("question",), tuple("abc"[: rng.randint(1, 3)]), style=rng.choice(("chat", "raw")))
        for n in range(rng.randint(1, 3))
    ]
    lines = []
    for n, module in enumerate(modules, start=1):
        lines.append(
            f"{', '.join(f'{name}{n}' for name in module.outputs)} = {module.name}({rng.choice(['question', '7'])})"
        )
        if rng.random() < 0.5:
            lines.append(f'  if a{n} != "7" and visits.n{n} < {rng.randint(2, 4)} -> n{rng.randint(1, n)}')
    lines += [f"tries = last_one(a{len(modules)}) n=3 temperature=1", "answer = vote(tries)"]
    return ProgramHarness.of([*modules, Module("last_one", ("x",), ("y",))], "\n".join(lines))


def test_random_programs_run_within_their_bounds_and_every_call_is_traced(run: Run) -> None:
    outcomes: Counter[str] = Counter()
    unread = 0
    for seed in range(120):
        rng = random.Random(seed)
        program = draw_program(rng)
        result, batches = run("program", program.text, lambda request, rng=rng: rng.choice(ANSWERS), seed=seed)
        traces = module_traces(executed(program, result), program)
        assert sum(map(len, batches)) == len(traces) <= calls_bound(program.graph)
        outcomes[result.outcome] += 1
        unread += sum(len(trace.unread) for trace in traces)
        for trace in traces:
            assert tuple(trace.demo) == program.module(trace.module).fields
    assert set(outcomes) <= {"ok", "noop", "incomplete"}
    assert outcomes["ok"] > 60
    assert unread > 60
