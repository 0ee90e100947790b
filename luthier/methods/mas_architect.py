"""MAS-Architect (Huang, Zhang, Bao, Li, Xu, Zhang, Liu, Kong, Zhu; ICML 2026 poster 63290): distil, then explore.

A generator writes, for each question, a declarative multi-agent system (harness kind `graph`) for a frozen
target. Phases, as in the paper's abstract: *teach* runs candidate systems on training questions and keeps
those that are valid, honest and correct; *sft* imitates them; *reinforce* samples several systems for a
question and rewards them by running them (0 invalid or cheating, 0.1 valid but wrong, 1 correct).

Known from the sources: the two stages, the reward tiers, the filter (valid, cheat-free, correct). Ours, because
no source states it: the text form of the graph, the prompt, the embedded teacher (the hand-written pool and
its one-edit variations; a large model takes its place when a server is named), which correct candidate of a
question becomes a row, every optimiser setting, GRPO as the algorithm of *reinforce*.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from luthier.errors import HarnessError
from luthier.execution import Execution, Limits
from luthier.executors.execute import InvalidHarness, Job
from luthier.generator import ModelGenerator
from luthier.harness import Harness
from luthier.harnesses import parse
from luthier.harnesses.graph.harness import GraphHarness
from luthier.harnesses.graph.presets import presets
from luthier.ledger.meter import Meter
from luthier.method import MethodCard
from luthier.question import Question
from luthier.reward import Reward, RewardValue
from luthier.rewards.cheating import Scorer, find_cheat
from luthier.target import Message, Request
from luthier.tools.registry import TOOLS

CARD = MethodCard(
    name="mas_architect",
    title="MAS-Architect",
    paper="Huang et al., MAS-Architect, ICML 2026 (poster 63290)",
    kind="graph",
    phases=("teach", "sft", "reinforce"),
    trained="the generator that writes the graph",
    frozen="the target that executes the graph's llm nodes",
    ours="graph text form, prompt, embedded teacher, choice among correct candidates, optimiser settings, GRPO",
)

ScopedRun = Callable[[Sequence[Job], str], list[Execution]]
"""Executes jobs on the frozen target within a scope of the ledger; the caller has fixed who pays."""


def generator_prompt(question: str) -> str:
    """What the generator continues with a harness text."""
    return f"Question: {question}\nHarness:\n"


def generator_request(max_tokens: int, *, temperature: float = 0.0, seed: int = 0) -> Callable[[str], Request]:
    """The call that asks a trained checkpoint for one harness."""
    return lambda question: Request(generator_prompt(question), max_tokens, temperature, seed=seed)


def clean_completion(text: str) -> str:
    """The harness text in a checkpoint's continuation."""
    return text.strip()


def trained_generator(name: str, meter: Meter, max_tokens: int) -> ModelGenerator:
    """A trained checkpoint as generator.

    Args:
        name: What reports call it.
        meter: Of the opened checkpoint; pays as role generator.
        max_tokens: Longest harness.
    """
    return ModelGenerator(name, CARD.kind, meter, generator_request(max_tokens), clean_completion)


def as_harness(text: str) -> Harness | InvalidHarness:
    """Parse a graph text; a broken one becomes a row of its own instead of an exception."""
    try:
        return parse("graph", text)
    except HarnessError as error:
        return InvalidHarness("graph", text, str(error))


# --- teach -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """A system that the teacher tried on a question.

    Attributes:
        question: The question. harness: Parsed graph, or the broken text.
        source: "pool:<name>", "variation" or "server". execution: What happened.
    """

    question: Question
    harness: Harness | InvalidHarness
    source: str
    execution: Execution


@dataclass(frozen=True, slots=True)
class TeacherRow:
    """One row for supervised fine-tuning, with the candidate that it came from."""

    question: str
    family: str
    prompt: str
    completion: str
    harness: str
    source: str


@dataclass(frozen=True, slots=True)
class TeachLog:
    """How candidates were filtered: one count per step, and the share of the graded ones that were accepted."""

    counts: Mapping[str, int]
    acceptance: float
    by_family: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def vary(
    questions: Sequence[Question], variations: Sequence[GraphHarness], per_question: int, seed: int
) -> list[tuple[Question, GraphHarness]]:
    """Which variations are tried on which question: dealt out within each family, like cards (ours).

    A family's questions share shuffled decks of all variations, a new deck when one is used up. So no variation
    comes a second time in a family before every other came once, and none twice to a question.

    Args:
        questions: Of any families.
        variations: The deck.
        per_question: Variations of each question.
        seed: Of the shuffling.

    Returns:
        Question and variation, in the order of the questions.
    """
    size = min(per_question, len(variations))
    decks: dict[str, Iterator[int]] = {}
    pairs: list[tuple[Question, GraphHarness]] = []
    for question in questions:
        deck = decks.setdefault(question.family, _cards(len(variations), f"{seed}:{question.family}"))
        chosen: set[int] = set()
        left: list[int] = []
        while len(chosen) < size:
            card = next(deck)
            if card in chosen:
                left.append(card)
            else:
                chosen.add(card)
        decks[question.family] = chain(left, deck)
        pairs.extend((question, variations[index]) for index in sorted(chosen))
    return pairs


def _cards(count: int, label: str) -> Iterator[int]:
    """Shuffled decks of `count` cards, one after the other, without end."""
    draw = random.Random(label)
    while True:
        yield from draw.sample(range(count), count)


def confirm(candidates: Iterable[Candidate], keep: int) -> list[tuple[Question, Harness, str]]:
    """What to try next: each family's most promising systems on those of its questions that they did not meet.

    A draw meets a family's right system on some of its questions only, and on the others something that is
    right by luck. So the `keep` systems that were right most often are tried on all questions of the family (ours).

    Returns:
        Question, harness and source of each further try, in a fixed order.
    """
    questions: dict[str, dict[str, Question]] = defaultdict(dict)
    met: dict[tuple[str, str], list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        questions[candidate.question.family][candidate.question.id] = candidate.question
        met[candidate.question.family, candidate.harness.digest].append(candidate)
    tries: list[tuple[Question, Harness, str]] = []
    for family in sorted(questions):
        promising = [group for (where, _), group in met.items() if where == family and _right(group)]
        promising.sort(key=lambda group: (-_right(group), -_right(group) / len(group), group[0].harness.digest))
        for group in promising[:keep]:
            harness = group[0].harness
            assert not isinstance(harness, InvalidHarness), "an invalid harness cannot be right"
            seen = {candidate.question.id for candidate in group}
            left = [question for key, question in questions[family].items() if key not in seen]
            tries += [(question, harness, group[0].source) for question in left]
    return tries


def _right(group: Sequence[Candidate]) -> int:
    return sum(candidate.execution.score == 1.0 for candidate in group)


def filter_candidates(
    candidates: Iterable[Candidate],
    scorer: Scorer,
    limits: Limits,
    rows_per_question: int,
    min_share: float = 0.0,
) -> tuple[list[TeacherRow], TeachLog]:
    """Keep valid, correct, honest candidates, once per canonical graph, the most dependable ones first.

    Among the correct candidates of a question those rank first that were correct on the largest share of the
    family's questions on which they ran, then the cheaper, the shorter, the smaller digest (ours). The share is
    (right + 1) / (ran + 2), Laplace's rule of succession: a system that was right by luck on the one question
    on which it ran does not come before one that was right on nine of ten. A candidate whose share is below
    `min_share` times the best share of its family teaches nothing (counted as `unreliable`).
    """
    counts: Counter[str] = Counter()
    families: dict[str, Counter[str]] = defaultdict(Counter)
    tried: dict[tuple[str, str], list[float]] = defaultdict(list)
    correct: dict[str, dict[str, Candidate]] = defaultdict(dict)
    for candidate in candidates:
        step = _step(candidate, scorer, limits, correct)
        counts["executed"] += 1
        counts[step] += 1
        families[candidate.question.family][step] += 1
        if step != "infra_error":
            right = float(step in ("correct", "duplicate"))
            tried[candidate.question.family, candidate.harness.digest].append(right)
        if step == "correct":
            correct[candidate.question.id][candidate.harness.digest] = candidate
    best: dict[str, float] = defaultdict(float)
    for item in (item for kept in correct.values() for item in kept.values()):
        best[item.question.family] = max(best[item.question.family], _share(item, tried))
    rows: list[TeacherRow] = []
    for kept in correct.values():
        reliable = [item for item in kept.values() if _share(item, tried) >= min_share * best[item.question.family]]
        counts["unreliable"] += len(kept) - len(reliable)
        ranked = sorted(reliable, key=lambda item: _rank(item, tried))
        rows.extend(_row(item) for item in ranked[:rows_per_question])
    counts["questions_taught"] = len({row.question for row in rows})
    counts["rows"] = len(rows)
    graded = counts["executed"] - counts["infra_error"]
    acceptance = (counts["correct"] + counts["duplicate"]) / graded if graded else 0.0
    by_family = {family: dict(sorted(steps.items())) for family, steps in sorted(families.items())}
    return rows, TeachLog(dict(sorted(counts.items())), acceptance, by_family)


def _step(candidate: Candidate, scorer: Scorer, limits: Limits, correct: Mapping[str, Mapping[str, Candidate]]) -> str:
    """The filter that a candidate ends in: the name that is counted."""
    execution, harness = candidate.execution, candidate.harness
    if execution.outcome != "ok":
        return execution.outcome
    if execution.score != 1.0:
        return "wrong"
    if harness.digest in correct.get(candidate.question.id, {}):
        return "duplicate"
    assert not isinstance(harness, InvalidHarness), "an invalid harness cannot end ok"
    if find_cheat(harness, candidate.question, execution, scorer, limits):
        return "cheating"
    return "correct"


def _share(candidate: Candidate, tried: Mapping[tuple[str, str], list[float]]) -> float:
    outcomes = tried[candidate.question.family, candidate.harness.digest]
    return (sum(outcomes) + 1) / (len(outcomes) + 2)


def _rank(candidate: Candidate, tried: Mapping[tuple[str, str], list[float]]) -> tuple[float, int, int, str]:
    usage = candidate.execution.usage
    tokens = usage.prompt_tokens + usage.completion_tokens
    return (-_share(candidate, tried), tokens, len(_text(candidate.harness)), candidate.harness.digest)


def _row(candidate: Candidate) -> TeacherRow:
    return TeacherRow(
        question=candidate.question.id,
        family=candidate.question.family,
        prompt=generator_prompt(candidate.question.text),
        completion=_text(candidate.harness),
        harness=candidate.harness.digest,
        source=candidate.source,
    )


def _text(harness: Harness | InvalidHarness) -> str:
    return harness.text


# --- teach with a server ---------------------------------------------------------------------------------------


def server_request(question: str, *, max_tokens: int, seed: int, temperature: float = 0.8) -> Request:
    """The call that asks a large model for a graph; it is told the language, the tools and the presets."""
    tools = "\n".join(f"  {tool.signature}  # {tool.about}" for tool in TOOLS.values())
    known = "\n".join(f"  {name}({', '.join(item.reads)})  # {item.about}" for name, item in presets().items())
    system = (
        "You design small multi-agent systems for a weak language model that must answer one question. A system is "
        "a text with one node a line, `state = name(inputs)`, run from top to bottom. The state `question` is given, "
        "the state `answer` must be written, and at least one node must be an llm step. Never write the answer "
        "itself.\nLlm steps:\n" + known + "\nTools (exact, no tokens):\n" + tools + "\n"
        'Branches and loops: a line `  if <state> == "text" -> label else label` under a node; `label: state = ...` '
        "names a node; compare only, no arithmetic. Reply with the text of the system and nothing else."
    )
    messages = (Message("system", system), Message("user", f"Question: {question}"))
    return Request(messages, max_tokens=max_tokens, temperature=temperature, seed=seed)


def clean_server_reply(text: str) -> str:
    """The graph in a chat reply: its last closed fenced block, else all of it, thoughts (`<think>`) left out."""
    text = text.rpartition("</think>")[2]
    blocks = re.findall(r"```[^\S\n]*(?:\w+[^\S\n]*\n)?(.*?)```", text, re.DOTALL)
    return str(blocks[-1]).strip() if blocks else text.strip()


# --- reinforce -------------------------------------------------------------------------------------------------


def judge(
    questions: Mapping[str, Question], run: ScopedRun, scorer: Scorer, limits: Limits, reward: Reward, seed: int
) -> Callable[[Sequence[str], Sequence[str], str], list[RewardValue]]:
    """The reward of *reinforce*: run every sampled text on its question and grade it.

    Args:
        questions: By id.
        run: Executes on the frozen target, paid by account train.
        scorer: The task's scorer.
        limits: Bounds of one execution; reaching one earns 0.
        reward: Grades groups.
        seed: Seed of sampled calls inside harnesses.

    Returns:
        A function (question ids, harness texts, scope of the ledger) -> rewards in order.
    """

    def grade(ids: Sequence[str], texts: Sequence[str], scope: str) -> list[RewardValue]:
        harnesses = [as_harness(clean_completion(text)) for text in texts]
        jobs = [Job(harness, questions[i], seed) for i, harness in zip(ids, harnesses, strict=True)]
        executions = run(jobs, scope)
        values: list[RewardValue] = []
        for i, harness, execution in zip(ids, harnesses, executions, strict=True):
            question = questions[i]
            cheat = (
                "" if isinstance(harness, InvalidHarness) else find_cheat(harness, question, execution, scorer, limits)
            )
            values += reward.rewards(question, [execution], [cheat])
        return values

    return grade
