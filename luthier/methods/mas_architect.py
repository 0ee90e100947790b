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

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from pydantic import Field

from luthier.context import StageContext
from luthier.errors import HarnessError
from luthier.execution import Execution, Limits
from luthier.executors.execute import InvalidHarness, Job, forecast_executions
from luthier.generator import ModelGenerator
from luthier.harness import Harness
from luthier.harnesses import parse
from luthier.harnesses.graph.presets import presets
from luthier.harnesses.pool.variations import one_edit_variations
from luthier.ledger.budget import Forecast
from luthier.ledger.meter import Meter
from luthier.method import Lessons, MethodCard, Taught
from luthier.question import Question
from luthier.reward import Reward, RewardValue
from luthier.rewards.cheating import Scorer, find_cheat
from luthier.rewards.tiered import TieredReward
from luthier.settings.base import Section
from luthier.settings.target import TargetParams
from luthier.settings.training import GeneratorParams, ReinforceParams, SftParams
from luthier.target import Failure, Message, Request
from luthier.task import Published
from luthier.teaching.filters import filter_candidates
from luthier.teaching.rows import TeacherCandidate
from luthier.teaching.tries import confirm, vary
from luthier.tools.registry import TOOLS
from luthier.training.policy_gradient import Judge

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


class TeachParams(Section):
    """Phase teach: candidates and the filter (the paper gives no number)."""

    families: list[str] = Field(default_factory=list, description="families that the teacher sees; empty = all")
    variations: int = Field(default=64, ge=0, description="seeded one-edit variations of the pool per question")
    confirm: int = Field(default=12, ge=0, description="promising systems tried on all questions of a family")
    min_share: float = Field(default=0.0, ge=0, le=1, description="least share solved, relative to the family's best")
    rows_per_question: int = Field(default=1, ge=1)
    server: TargetParams | None = Field(default=None, description="a large model that writes the graphs")
    samples: int = Field(default=4, ge=1, description="graphs asked of the server per question")


class MasArchitectParams(Section):
    """MAS-Architect's section of a profile. The paper states no number, so every default is ours."""

    generator: GeneratorParams = GeneratorParams()
    teach: TeachParams = TeachParams()
    sft: SftParams = SftParams(learning_rate=5e-5, batch=8, epochs=2)
    reinforce: ReinforceParams = ReinforceParams(learning_rate=1e-5, batch=8, steps=40)


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


def try_systems(context: StageContext, lessons: Lessons) -> Taught:
    """Phase *teach*: the grid's executions, further tries, a second round for the promising ones, then the filters."""
    settings = context.params.section(context.method, TeachParams, "teach")
    taught = _taught(context, lessons.questions, settings)
    if settings.server is None:
        jobs, source = _variations(context, lessons, taught, settings), "variation"
    else:
        jobs, source = _ask_server(context, taught, settings), "server"
    executions = context.execute(jobs, context.meter("target", "data", split="train"), "teach")
    candidates = list(_from_grid(lessons, taught))
    candidates += [TeacherCandidate(j.question, j.harness, source, e) for j, e in zip(jobs, executions, strict=True)]
    candidates += _second_round(context, candidates, settings.confirm)
    rows, log = filter_candidates(
        candidates,
        context.task.score,
        context.limits,
        settings.rows_per_question,
        settings.min_share,
        prompt=generator_prompt,
    )
    return Taught(rows, log)


def forecast_teach(context: StageContext, lessons: Lessons) -> Forecast:
    """What asking a server, or the first round of tries, costs."""
    settings = context.params.section(context.method, TeachParams, "teach")
    taught = _taught(context, lessons.questions, settings)
    if settings.server is None:
        jobs = _variations(context, lessons, taught, settings)
        return forecast_executions(jobs, context.meter("target", "data", split="train"), context.limits)
    meter = context.meter("teacher", "data", split="train", target=context.open(settings.server))
    return meter.forecast([request for _, request in _server_requests(context, taught, settings)])


def _taught(context: StageContext, questions: Sequence[Question], settings: TeachParams) -> list[Question]:
    """Those of the families that the profile names; all, where it names families of another task alone."""
    taught = [question for question in questions if not settings.families or question.family in settings.families]
    if not taught and isinstance(context.task, Published):
        print(
            f"teach: task {context.task.name} has none of the families in teach.families, so the teacher sees all of it"
        )
        return list(questions)
    return taught


def _variations(
    context: StageContext, lessons: Lessons, taught: Sequence[Question], settings: TeachParams
) -> list[Job]:
    """One-edit variations on the questions that no configuration of the grid answered: only they need more (ours)."""
    variations = one_edit_variations([item.harness for item in lessons.pool if item.harness is not None])
    solved = {c.question.id for c in _from_grid(lessons, taught) if c.execution.score == 1.0}
    unsolved = [question for question in taught if question.id not in solved]
    seed = context.params.ask.seed
    pairs = vary(unsolved, variations, settings.variations, seed)
    print(
        f"teach: {len(taught)} questions; {len(unsolved)} of them no configuration solved,"
        f" for them {len(pairs)} tries of {len(variations)} variations"
    )
    return [Job(graph, question, seed) for question, graph in pairs]


def _from_grid(lessons: Lessons, taught: Sequence[Question]) -> Iterator[TeacherCandidate]:
    """The grid's rows on the taught questions, with the configurations' graphs."""
    by_id = {question.id: question for question in taught}
    pool = {item.name: item.harness for item in lessons.pool}
    for row in lessons.grid:
        question = by_id.get(row.execution.question)
        if row.split == "train" and question is not None and (harness := pool[row.configuration]) is not None:
            yield TeacherCandidate(question, harness, f"pool:{row.configuration}", row.execution)


def _second_round(context: StageContext, candidates: Sequence[TeacherCandidate], keep: int) -> list[TeacherCandidate]:
    """Promising systems on the questions of their family that they did not meet."""
    tries = confirm(candidates, keep)
    jobs = [Job(harness, question, context.params.ask.seed) for question, harness, _ in tries]
    meter = context.meter("target", "data", split="train", scope="confirm")
    executions = context.execute(jobs, meter, "teach, second round")
    return [
        TeacherCandidate(question, harness, source, execution)
        for (question, harness, source), execution in zip(tries, executions, strict=True)
    ]


def _server_requests(
    context: StageContext, taught: Sequence[Question], settings: TeachParams
) -> list[tuple[Question, Request]]:
    assert settings.server is not None
    seed, max_tokens = context.params.ask.seed, 512
    asked = [(question, sample) for question in taught for sample in range(settings.samples)]
    print(f"teach: {len(asked)} graphs asked of {settings.server.model}")
    return [
        (question, server_request(question.text, max_tokens=max_tokens, seed=seed + sample))
        for question, sample in asked
    ]


def _ask_server(context: StageContext, taught: Sequence[Question], settings: TeachParams) -> list[Job]:
    """Have the large model of `teach.server` write graphs; its failures are retried by the next run."""
    assert settings.server is not None
    meter = context.meter("teacher", "data", split="train", target=context.open(settings.server))
    asked = _server_requests(context, taught, settings)
    jobs = []
    for (question, _), answer in zip(asked, meter.complete([request for _, request in asked]), strict=True):
        if isinstance(answer, Failure):
            raise answer.error
        harness = as_harness(clean_server_reply(answer.text))
        jobs.append(Job(harness, question, context.params.ask.seed))
    return jobs


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
) -> Judge:
    """The reward of *reinforce*: run every sampled text on its question and grade it.

    Args:
        questions: By id.
        run: Executes on the frozen target, paid by account train.
        scorer: The task's scorer.
        limits: Bounds of one execution; reaching one earns 0.
        reward: Grades groups: the samples of one question, which stand one after the other.
        seed: Seed of sampled calls inside harnesses.

    Returns:
        A function (question ids, harness texts, scope of the ledger) -> rewards in order.
    """

    def grade(ids: Sequence[str], texts: Sequence[str], scope: str) -> list[RewardValue]:
        harnesses = [as_harness(clean_completion(text)) for text in texts]
        jobs = [Job(harness, questions[i], seed) for i, harness in zip(ids, harnesses, strict=True)]
        executions = run(jobs, scope)
        cheats = [
            "" if isinstance(harness, InvalidHarness) else find_cheat(harness, questions[i], execution, scorer, limits)
            for i, harness, execution in zip(ids, harnesses, executions, strict=True)
        ]
        values: list[RewardValue] = []
        for question, group in groupby(range(len(ids)), key=lambda place: ids[place]):
            members = list(group)
            values += reward.rewards(
                questions[question], [executions[place] for place in members], [cheats[place] for place in members]
            )
        return values

    return grade


# --- the method ------------------------------------------------------------------------------------------------


class MasArchitect:
    """The method as stages see it; see `luthier.method`."""

    card = CARD
    section: type[Section] = MasArchitectParams

    def teach(self, context: StageContext, lessons: Lessons) -> Taught:
        """See `try_systems`."""
        return try_systems(context, lessons)

    def forecast_teach(self, context: StageContext, lessons: Lessons) -> Forecast:
        """See `forecast_teach`."""
        return forecast_teach(context, lessons)

    def prompt(self, question: str) -> str:
        """See `generator_prompt`."""
        return generator_prompt(question)

    def generator(self, name: str, meter: Meter, context: StageContext) -> ModelGenerator:
        """See `trained_generator`; the longest harness is the profile's."""
        settings = context.params.section(context.method, MasArchitectParams)
        return trained_generator(name, meter, settings.generator.max_tokens)

    def judge(self, context: StageContext, questions: Mapping[str, Question]) -> Judge:
        """See `judge`; the middle tier of the reward is the profile's."""
        settings = context.params.section(context.method, MasArchitectParams).reinforce

        def run(jobs: Sequence[Job], scope: str) -> list[Execution]:
            meter = context.meter("target", "train", split="train", scope=scope)
            return context.execute(jobs, meter, "reinforce", quiet=True)

        reward = TieredReward(settings.valid_but_wrong)
        return judge(questions, run, context.task.score, context.limits, reward, context.params.ask.seed)


METHOD = MasArchitect()
