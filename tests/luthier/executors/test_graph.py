from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from luthier.errors import InputError
from luthier.execution import Limits
from luthier.executors.graph import GraphExecutor, calls_bound, llm_calls_min, tightest
from luthier.harnesses import parse
from luthier.harnesses.graph.harness import GraphHarness
from luthier.question import Question
from luthier.target import Request

Run = Callable[..., Any]

LOOP = """\
draft = solve_it(question)
check: verdict = judge_it(question, draft)
  if verdict == "wrong" and visits.check < 3 -> fix else done
fix: draft = mend_it(question, draft)
  -> check
done: answer = copy(draft)
impl judge_it:
  ask: "Judge {question} {draft}"
impl mend_it:
  ask: "Mend {question} {draft}"
impl solve_it:
  ask: "Solve {question}"
"""
ASK = 'impl ask_it:\n  ask: "{question}"'


def prompt(request: Request) -> str:
    return request.prompt if isinstance(request.prompt, str) else request.prompt[-1].content


def script(verdict: str) -> Callable[[Request], str]:
    return lambda request: verdict if prompt(request).startswith("Judge") else f"{prompt(request)[:5].strip()}ed"


def test_a_chain_of_a_call_and_tools(run: Run) -> None:
    result, batches = run("graph", f"a = ask_it(question)\nb = sort(a)\nanswer = last(b)\n{ASK}", lambda r: "b, c, a")
    assert (result.outcome, result.answer, result.error) == ("ok", "c", "")
    assert [(s.node, s.kind, s.output) for s in result.trace] == [
        ("n1", "llm", "b, c, a"),
        ("n2", "tool", ["a", "b", "c"]),
        ("n3", "tool", "c"),
    ]
    assert result.trace[0].inputs == {"question": "pear, fig, apple"}
    assert (result.trace[0].usage.calls, result.trace[1].usage.calls) == (1, 0)
    assert len(batches) == 1


@pytest.mark.parametrize(
    ("verdict", "nodes", "answer"),
    [
        ("right", ["n1", "check", "done"], "Solveed"),
        ("wrong", ["n1", "check", "fix", "check", "fix", "check", "done"], "Mended"),
    ],
)
def test_a_guarded_loop_runs_and_stops(run: Run, verdict: str, nodes: list[str], answer: str) -> None:
    result, batches = run("graph", LOOP, script(verdict))
    assert [step.node for step in result.trace] == nodes
    assert (result.outcome, result.answer) == ("ok", answer)
    graph = GraphHarness.parse(LOOP)
    assert llm_calls_min(graph) == 2
    assert llm_calls_min(graph) <= sum(map(len, batches)) <= calls_bound(graph)


@pytest.mark.parametrize(
    ("limits", "word"),
    [
        (Limits(steps=2), "2 steps"),
        (Limits(visits=1), "1 visits of node check"),
        (Limits(calls=2), "2 calls"),
        (Limits(tokens=5), "5 tokens"),
    ],
)
def test_a_limit_ends_a_run_incomplete_without_overshooting(run: Run, limits: Limits, word: str) -> None:
    result, batches = run("graph", LOOP, script("wrong"), limits=limits)
    assert result.outcome == "incomplete"
    assert word in result.error
    assert result.answer == ""
    assert len(result.trace) <= limits.steps
    assert sum(map(len, batches)) <= limits.calls


def test_the_document_can_only_tighten_limits(run: Run) -> None:
    graph = GraphHarness.parse("limits calls=100 steps=3\n" + LOOP)
    assert tightest(Limits(), graph) == Limits(steps=3)
    result, _ = run("graph", graph.text, script("wrong"))
    assert (result.outcome, result.error) == ("incomplete", "limit reached: 3 steps")


def test_fan_out_is_one_batch_and_a_merge_waits_for_the_long_branch(run: Run) -> None:
    text = (
        "start: a = copy(question)\n  -> left, right\n"
        'left: x = ask_it("l")\n  -> join\n'
        'right: y = ask_it("r")\nlonger: y = upper(y)\n  -> join\n'
        'join: both = merge(x, y)\nanswer = copy(both)\nimpl ask_it:\n  ask: "say {arg1}"'
    )
    result, batches = run("graph", text, lambda r: prompt(r)[-1])
    assert [len(batch) for batch in batches] == [2]
    assert [step.node for step in result.trace] == ["start", "left", "right", "longer", "join", "n6"]
    assert result.answer == "l, R"


def test_a_conditional_branch_that_is_not_taken_does_not_block_the_merge(run: Run) -> None:
    text = (
        "start: a = copy(question)\n  -> left, right\nleft: x = copy(a)\n  if x == \"skip\" -> END else join\n"
        "right: y = upper(a)\n  -> join\nstate x: str = \"none\"\njoin: both = merge(y)\nanswer = copy(both)"
    )  # fmt: skip
    assert run("graph", text, asked="skip")[0].answer == "SKIP"
    assert run("graph", text, asked="go")[0].answer == "GO"


def test_joins_that_wait_for_each_other_do_not_hang(run: Run) -> None:
    text = (
        "start: a = copy(question)\n  -> one, two\n"
        "one: b = merge(a)\n  if visits.two > 0 -> END else two\n"
        "two: answer = merge(a)\n  if visits.one > 0 -> END else one"
    )
    result, _ = run("graph", text)
    assert result.outcome == "ok"
    assert [step.node for step in result.trace] == ["start", "one", "two"]


def test_writes_of_a_superstep_are_seen_only_afterwards_and_in_document_order(run: Run) -> None:
    text = (
        "state seen: list[str] append\nstart: x = copy(question)\n  -> one, two\n"
        "one: x = upper(x)\n  -> done\ntwo: seen = copy(x)\n  -> done\ndone: both = merge(x, seen)\nanswer = copy(both)"
    )
    assert run("graph", text, asked="low")[0].answer == "LOW, low"


def test_reducers_and_types(run: Run) -> None:
    text = (
        "state total: int sum = 1\nstate items: list[str] append\nstate half: float\nstate sure: bool\n"
        'total = copy("the number 4")\ntotal = length("abc")\nitems = copy("x, y")\nitems = sort("c, b")\n'
        'half = calculate("1/2")\nsure = copy("Correct.")\nall = merge(total, items, half, sure)\nanswer = copy(all)'
    )
    assert run("graph", text)[0].answer == "8, x, y, b, c, 0.5, true"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("answer = weekday(question)", "node n1: a date"),
        ("state n: int\nn = copy(question)\nanswer = copy(n)", "node n1: a number is needed"),
        ("state n: dict\nn = copy(question)\nanswer = copy(n)", "a JSON object is needed"),
        ("state n: bool\nn = copy(question)\nanswer = copy(n)", "true or false"),
        ('answer = copy("")', "the answer is empty"),
        (
            'state big: list[str] append\nbig = copy("' + "x" * 1000 + '")\nloop: big = merge(big)\n'
            "  if visits.loop < 50 -> loop\nanswer = last(big)",
            "would grow above",
        ),
    ],
)
def test_what_cannot_be_used_ends_as_noop_with_its_reason(run: Run, text: str, word: str) -> None:
    result, _ = run("graph", text, limits=Limits(steps=99, visits=60))
    assert (result.outcome, result.answer) == ("noop", "")
    assert word in result.error
    assert result.trace


def test_a_failed_node_keeps_the_costs_of_its_superstep(run: Run) -> None:
    text = (
        "start: x = copy(question)\n  -> one, two\none: y = weekday(x)\n  -> END\n"
        f"two: answer = ask_it(question)\n  -> END\n{ASK}"
    )
    result, _ = run("graph", text, lambda r: "7")
    assert result.outcome == "noop"
    assert [(step.node, step.usage.calls) for step in result.trace] == [("start", 0), ("one", 0), ("two", 1)]


def test_several_writes_take_lists_by_order_and_objects_by_name(run: Run) -> None:
    text = "a, b = ask_it(question)\nboth = merge(b, a)\nanswer = copy(both)\n" + ASK
    assert run("graph", text + "\n  parse: list", lambda r: "x, y")[0].answer == "y, x"
    assert run("graph", text + "\n  parse: json", lambda r: 'Sure: {"b": 2, "a": [1, 3]}')[0].answer == "2, 1, 3"
    assert run("graph", text + "\n  parse: list", lambda r: "x")[0].answer == ", x"


def test_samples_are_one_batch_with_seeds_of_their_own_shared_by_equal_calls(run: Run) -> None:
    text = f"drafts = ask_it(question) n=3 temperature=0.7\nanswer = vote(drafts)\n{ASK}"
    answers = iter(["8", "7", "7.0"])
    result, batches = run("graph", text, lambda r: next(answers))
    assert result.answer == "7"
    assert result.trace[0].output == ["8", "7", "7.0"]
    seeds = [request.seed for request in batches[0]]
    assert len(set(seeds)) == 3
    other = f"once: a = ask_it(question) temperature=0.7\nanswer = upper(a)\n{ASK}"
    assert run("graph", other, lambda r: "x")[1][0][0] == batches[0][0]
    assert run("graph", other, lambda r: "x", seed=1)[1][0][0].seed != seeds[0]


def test_a_second_visit_draws_a_new_sample_and_greedy_calls_have_seed_zero(run: Run) -> None:
    text = (
        "again: answer = ask_it(question) temperature=0.7\n  if visits.again < 2 -> again\n"
        f"answer = ask_it(question)\n{ASK}"
    )
    batches = run("graph", text, lambda r: "x")[1]
    first, second, greedy = (batch[0] for batch in batches)
    assert first.prompt == second.prompt == greedy.prompt
    assert first.seed != second.seed
    assert greedy.seed == 0


def test_equal_arguments_give_equal_requests_and_results(run: Run) -> None:
    assert run("graph", LOOP, script("wrong"), seed=5) == run("graph", LOOP, script("wrong"), seed=5)


def test_a_run_reads_nothing_of_the_question_but_its_text() -> None:
    harness = parse("graph", f"answer = ask_it(question)\n{ASK}")
    requests = []
    for reference in ("1", "2"):
        row = Question.make(
            task="toy", text="same", reference=reference, split="test", metadata={"choices": [reference]}
        )
        requests.append(next(GraphExecutor().start(harness, row, Limits(), 0)))
    assert requests[0] == requests[1]


def test_another_kind_is_refused() -> None:
    row = Question.make(task="toy", text="x", reference="y", split="train")
    with pytest.raises(InputError, match="no graph"):
        GraphExecutor().start(parse("prompt", "Answer."), row, Limits(), 0)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("answer = copy(question)", 0, 0),
        (f"a = ask_it(question) n=5 temperature=1\nanswer = vote(a)\n{ASK}", 5, 5),
        (f'a = copy(question)\n  if a == "x" -> n3\na = ask_it(question)\nanswer = copy(a)\n{ASK}', 0, 1),
        (f"limits visits=4\nl: answer = ask_it(question)\n  if visits.l < 2 -> l\n{ASK}", 1, 4),
        (f"limits calls=3\nl: answer = ask_it(question)\n  if visits.l < 2 -> l\n{ASK}", 1, 3),
    ],
)
def test_static_bounds_by_hand(text: str, least: int, most: int) -> None:
    graph = GraphHarness.parse(text)
    assert (llm_calls_min(graph), calls_bound(graph)) == (least, most)


def test_the_version_names_code_and_presets() -> None:
    assert GraphExecutor().version.startswith("graph-1-")
