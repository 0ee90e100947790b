"""Tools over the question's corpus: parsed, bound by the executor, keyed, refused without a corpus."""

from __future__ import annotations

import dataclasses
import json

import pytest

from luthier.errors import HarnessError, InputError
from luthier.execution import Limits
from luthier.executor import RunResult
from luthier.executors import executor_for
from luthier.executors.job import SCORING_VERSION, Job, execution_key
from luthier.files import digest_text
from luthier.harnesses import parse
from luthier.question import Question
from luthier.rewards.cheating import run_with
from luthier.target import Request
from luthier.targets.scripted import ScriptedTarget
from luthier.tasks.generated.twohop import TwoHop
from luthier.tasks.generated.twohop_world import world
from luthier.tools.registry import ALL_TOOLS, CORPUS_TOOLS, MAX_HITS, TOOLS
from luthier.tools.retrieval import Corpus, Passage
from luthier.tools.values import ToolInputError

TWO_HOPS = """\
first = retrieve(question)
query = next_query(question, first)
second = retrieve(query, 1)
answer = read(question, second)
impl next_query:
  ask: "Passages:\\n{first}\\nQuestion: {question}\\nName to look up:"
impl read:
  reads: [question, passages]
  ask: "Passages:\\n{passages}\\nQuestion: {question}\\nAnswer:"
"""


PROGRAM = """\
wiring: |
  first = retrieve(question)
  query = next_query(question, first)
  second = retrieve(query, 1)
  answer = read(question, second)
modules:
  next_query: {inputs: [question, passages], outputs: [query], instruction: Name the town.}
  read: {inputs: [question, passages], outputs: [answer], instruction: Name the region.}
"""


def run(
    text: str, question: Question, answer: dict[str, str], *, kind: str = "graph"
) -> tuple[RunResult, list[Request]]:
    """Run a harness against rules over the whole prompt; also what it asked."""
    target = ScriptedTarget(list(answer.items()))
    asked: list[Request] = []

    def reply(request: Request) -> str:
        asked.append(request)
        (completion,) = target.complete([request])
        return completion.text  # type: ignore[union-attr]

    return run_with(parse(kind, text), question, Limits(), reply), asked


@pytest.fixture
def question() -> Question:
    """One question about a person's region."""
    return TwoHop(["birth_region"]).questions("train", 1, 0)[0]


def test_a_two_hop_graph_finds_both_documents_and_the_answer(question: Question) -> None:
    gold = question.metadata["_gold"]
    # The second rule reads the region out of the passage that the tool found, so it proves what was retrieved.
    rules = {r"Name to look up:$": gold["bridge"], r"region of (\w+)[\s\S]*Answer:$": r"\1"}
    result, asked = run(TWO_HOPS, question, rules)
    assert (result.outcome, result.answer) == ("ok", question.reference)
    lines = {passage.id: passage.line for passage in world().corpus.passages}
    first, _, second, _ = result.trace
    assert lines[gold["documents"][0]] in first.output.split("\n")
    assert len(first.output.split("\n")) == 3
    assert second.output == lines[gold["documents"][1]]
    assert len(asked) == 2
    assert TwoHop().score(question, result.answer).value == 1.0


def test_modules_of_a_program_search_the_same_corpus(question: Question) -> None:
    rules = {r"Name the town": question.metadata["_gold"]["bridge"], r"Name the region[\s\S]*region of (\w+)": r"\1"}
    result, asked = run(PROGRAM, question, rules, kind="program")
    assert (result.outcome, result.answer) == ("ok", question.reference)
    assert [step.kind for step in result.trace] == ["tool", "llm", "tool", "llm"]
    assert len(asked) == 2


def test_a_graph_that_searches_is_invalid_without_a_corpus_and_costs_nothing() -> None:
    bare = Question.make(task="toy", text="Where was Ann born?", reference="Bru", split="train")
    result, asked = run(TWO_HOPS, bare, {"": "x"})
    assert (result.outcome, result.trace, asked) == ("invalid", (), [])
    assert result.error == "the graph searches a corpus, and the question has none"


def test_a_question_of_another_version_of_the_corpus_is_refused(question: Question) -> None:
    stale = dataclasses.replace(question, metadata={**question.metadata, "corpus": "twohop@0123456789abcdef"})
    with pytest.raises(InputError, match="generate the questions anew"):
        executor_for("graph").start(parse("graph", TWO_HOPS), stale, Limits(), 0)
    plain = parse("graph", "answer = copy(question)")
    executor_for("graph").start(plain, stale, Limits(), 0)  # nothing is searched, nothing is opened


def test_the_corpus_is_part_of_the_executions_key(question: Question) -> None:
    harness = parse("graph", TWO_HOPS)
    other = dataclasses.replace(question, metadata={**question.metadata, "corpus": "twohop@0123456789abcdef"})
    gold_free = dataclasses.replace(question, metadata={"corpus": question.corpus})
    keys = [execution_key(Job(harness, asked), "m", Limits()) for asked in (question, other, gold_free)]
    assert keys[0] == keys[2] != keys[1]


def test_keys_of_questions_without_a_corpus_stay_as_they_were() -> None:
    bare = Question.make(task="toy", text="Which is last?", reference="pear", split="train")
    harness = parse("prompt", "Answer.")
    version = executor_for("prompt").version
    parts = [harness.digest, bare.id, "m", version, SCORING_VERSION, 5, dataclasses.asdict(Limits())]
    assert execution_key(Job(harness, bare, seed=5), "m", Limits()) == digest_text(json.dumps(parts))


def test_retrieve_takes_a_query_and_a_number_and_is_quiet_when_nothing_fits() -> None:
    corpus = Corpus("two", (Passage("a", "Ann", "Ann lives in Bru."), Passage("b", "Bru", "Bru is a town.")))
    retrieve = CORPUS_TOOLS["retrieve"].bind(corpus)
    assert retrieve("Ann of Bru") == "Ann: Ann lives in Bru.\nBru: Bru is a town."
    assert retrieve("Ann of Bru", "1") == "Ann: Ann lives in Bru."
    assert retrieve("zebra") == ""
    with pytest.raises(ToolInputError, match=f"1 to {MAX_HITS} passages, 0 asked for"):
        retrieve("Ann", 0)
    with pytest.raises(ToolInputError, match="this question has none"):
        CORPUS_TOOLS["retrieve"]("Ann")


def test_binding_changes_only_tools_that_search() -> None:
    corpus = Corpus("one", (Passage("a", "Ann", "Ann."),))
    assert TOOLS["sort"].bind(corpus) is TOOLS["sort"]
    assert list(ALL_TOOLS) == sorted([*TOOLS, *CORPUS_TOOLS])
    assert not any(tool.needs_corpus for tool in TOOLS.values())


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a = retrieve()\nanswer = copy(a)", "arity"),
        ('a = retrieve(question, 1, "more")\nanswer = copy(a)', "arity"),
        ('answer = retrieve(question)\nimpl retrieve:\n  ask: "{question}"', "name-clash"),
        ("answer = retreive(question)", "unknown-name"),
    ],
)
def test_the_checks_of_graphs_know_the_tool(text: str, rule: str) -> None:
    with pytest.raises(HarnessError) as error:
        parse("graph", text)
    assert error.value.rule == rule
    assert rule != "unknown-name" or "did you mean retrieve" in str(error.value)
