"""Scoring generators on one path: propose, execute, score, count every outcome.

All contenders (the target alone, the best fixed configuration, a random graph, each checkpoint) are
generators; they answer the same questions through the same executor, ledger and scorer. The oracle over the
pool is no generator: it looks at the scores, is an upper bound, and is labelled so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from luthier.errors import HarnessError
from luthier.evaluation.statistics import Difference, mean_interval, paired_difference
from luthier.execution import Execution
from luthier.executors.execute import InvalidHarness, Job
from luthier.generator import Generator, HarnessRequest, Proposal
from luthier.harness import Harness
from luthier.harnesses import parse
from luthier.harnesses.pool.configurations import Configuration
from luthier.question import Question
from luthier.target import Usage

RunJobs = Callable[[Sequence[Job]], list[Execution]]
SOLVES = 0.5
"""A composition solves its family when it is right on at least this share of the family's questions (ours)."""


@dataclass(frozen=True, slots=True)
class Result:
    """One contender's answer to one question.

    Attributes:
        contender: Its name. question, family: Of the question. text: The harness text.
        proposal: Cost of writing the harness. execution: What happened.
    """

    contender: str
    question: str
    family: str
    text: str
    proposal: Usage
    execution: Execution

    def to_row(self) -> dict[str, Any]:
        """JSON object of this result; wall time is left out, so that equal work gives equal rows."""
        proposal = {"calls": self.proposal.calls, "prompt_tokens": self.proposal.prompt_tokens}
        return {
            "contender": self.contender,
            "family": self.family,
            "harness_text": self.text,
            "generator_usage": {**proposal, "completion_tokens": self.proposal.completion_tokens},
            **self.execution.to_row(),
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Result:
        """Inverse of `to_row`.

        Raises:
            KeyError, TypeError: the row was written by another version.
        """
        own = ("contender", "family", "harness_text", "generator_usage")
        execution = Execution.from_row({key: value for key, value in row.items() if key not in own})
        proposal = Usage(**row["generator_usage"])
        return cls(row["contender"], execution.question, row["family"], row["harness_text"], proposal, execution)


def evaluate(generator: Generator, questions: Sequence[Question], run: RunJobs, seed: int) -> list[Result]:
    """Have a generator write a harness for every question, run them all, keep every outcome."""
    return evaluate_requests(generator, [HarnessRequest.of(question) for question in questions], run, seed)


def evaluate_requests(
    generator: Generator, requests: Sequence[HarnessRequest], run: RunJobs, seed: int
) -> list[Result]:
    """Have a generator write a harness for every request, run each on all questions of its request.

    A proposal that the machine could not deliver is an `infra_error` of its questions, never a score. What writing
    cost stands with the first question of a request, so that sums over questions are right.

    Returns:
        One result for each question of each request, in order.
    """
    proposals = generator.propose(requests)
    asked = [
        (question, proposal, question is request.questions[0])
        for request, proposal in zip(requests, proposals, strict=True)
        for question in request.questions
    ]
    jobs = {
        place: Job(parsed(generator.kind, proposal.text), question, seed)
        for place, (question, proposal, _) in enumerate(asked)
        if not proposal.problem
    }
    executions = dict(zip(jobs, run([*jobs.values()]), strict=True))
    return [
        Result(
            generator.name,
            question.id,
            question.family,
            proposal.text,
            proposal.usage if first else Usage(),
            executions.get(place) or _undelivered(generator, question, proposal, seed),
        )
        for place, (question, proposal, first) in enumerate(asked)
    ]


def parsed(kind: str, text: str) -> Harness | InvalidHarness:
    """The harness of a text; one that does not parse is a harness that fails when it runs, and counts."""
    try:
        return parse(kind, text)
    except HarnessError as error:
        return InvalidHarness(kind, text, str(error))


def _undelivered(generator: Generator, question: Question, proposal: Proposal, seed: int) -> Execution:
    return Execution(question.id, "", generator.kind, "", seed, "infra_error", score=None, error=proposal.problem)


# --- the grid --------------------------------------------------------------------------------------------------


def grid_jobs(questions: Sequence[Question], pool: Sequence[Configuration], seed: int) -> list[Job]:
    """Every question with every configuration, question by question."""
    harnesses = [item.harness for item in pool if item.harness is not None]
    return [Job(harness, question, seed) for question in questions for harness in harnesses]


def grid_summary(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean score of each configuration by split and family, and the best one on validation.

    Ties go to the configuration with fewer tokens, then to the name (ours).
    """
    scores: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    tokens: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    for row in rows:
        outcomes[row["outcome"]] += 1
        if row["score"] is not None:
            scores[row["split"]][row["configuration"]][row["family"]].append(row["score"])
        tokens[row["configuration"]] += row["usage"]["prompt_tokens"] + row["usage"]["completion_tokens"]
    table = {
        split: {
            name: {"mean": _mean([v for values in families.values() for v in values])}
            | {family: _mean(values) for family, values in sorted(families.items())}
            for name, families in sorted(names.items())
        }
        for split, names in sorted(scores.items())
    }
    validation = table.get("validation", {})
    best = min(validation, key=lambda name: (-validation[name]["mean"], tokens[name], name), default="")
    return {
        "best_on_validation": best,
        "best_validation_score": validation[best]["mean"] if best else None,
        "compared": len(validation),
        "outcomes": dict(sorted(outcomes.items())),
        "scores": table,
    }


def oracle_scores(results: Iterable[Result]) -> dict[str, float]:
    """Question id -> best score of any configuration: an upper bound that no generator can know in advance."""
    best: dict[str, float] = {}
    for result in results:
        if result.execution.score is not None:
            best[result.question] = max(best.get(result.question, 0.0), result.execution.score)
    return best


# --- summaries -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Summary:
    """What is reported of one contender on one set of questions.

    Attributes:
        pooled: Mean over questions. equal_weight: Mean over families. by_family: Mean per family.
        outcomes: Count of each outcome; nothing is left out of the denominator but infra_error.
        target_tokens, generator_tokens: Per question, uncached. calls: Target calls per question.
    """

    contender: str
    pooled: dict[str, float]
    equal_weight: float
    by_family: dict[str, float]
    outcomes: dict[str, int]
    target_tokens: float
    generator_tokens: float
    calls: float


def standing(contender: str, results: Sequence[Result], resamples: int) -> Summary:
    """Summarise one contender's results."""
    scored = [r for r in results if r.execution.score is not None]
    families: dict[str, list[float]] = defaultdict(list)
    for result in scored:
        families[result.family].append(_score(result))
    by_family = {family: _mean(values) for family, values in sorted(families.items())}
    usages = [result.execution.usage for result in results]
    proposals = [result.proposal for result in results]
    return Summary(
        contender,
        asdict(mean_interval([_score(result) for result in scored], resamples=resamples)),
        _mean(list(by_family.values())),
        by_family,
        dict(sorted(Counter(result.execution.outcome for result in results).items())),
        _mean([usage.prompt_tokens + usage.completion_tokens for usage in usages]),
        _mean([usage.prompt_tokens + usage.completion_tokens for usage in proposals]),
        _mean([usage.calls for usage in usages]),
    )


def difference(ours: Sequence[Result], theirs: Sequence[Result], resamples: int) -> Difference:
    """Paired difference of two contenders.

    Raises:
        InputError: a question has a score on one side only, because the machine failed on the other.
    """
    return paired_difference(scores_of(ours), scores_of(theirs), resamples=resamples)


def scores_of(results: Sequence[Result]) -> dict[str, float]:
    """Question id -> score, infra errors left out (they must be retried before a comparison)."""
    return {result.question: _score(result) for result in results if result.execution.score is not None}


@dataclass(frozen=True, slots=True)
class Composition:
    """A system that a generator wrote for a family.

    Attributes:
        written: Questions of the family for which it was written. share: Correct ones among all of the family's,
            those aside on which the machine failed.
        shown: Whether a teacher row held it.
    """

    family: str
    text: str
    written: int
    share: float
    shown: bool
    digest: str = field(repr=False, default="")


def compositions(results: Sequence[Result], taught: set[str]) -> list[Composition]:
    """The distinct valid systems per family, most used first, marked whether the teacher showed them.

    Args:
        results: Of one contender.
        taught: Harness digests of all teacher rows.
    """
    scored = [result for result in results if result.execution.score is not None]
    sizes = Counter(result.family for result in scored)
    groups: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in scored:
        if result.execution.outcome != "invalid":
            groups[result.family, result.execution.harness].append(result)
    found = [
        Composition(
            family,
            group[0].text,
            len(group),
            sum(_score(result) for result in group) / sizes[family],
            digest in taught,
            digest,
        )
        for (family, digest), group in groups.items()
    ]
    return sorted(found, key=lambda item: (item.family, -item.written, item.digest))


def novel(found: Iterable[Composition]) -> list[Composition]:
    """Compositions that no teacher row held and that solve their family."""
    return [item for item in found if not item.shown and item.share >= SOLVES]


def _score(result: Result) -> float:
    assert result.execution.score is not None
    return result.execution.score


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
