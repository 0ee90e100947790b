"""The teacher's filters: valid, correct, honest, dependable; each candidate is counted in the one that it ends in."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

from luthier.execution import Limits
from luthier.executors.execute import InvalidHarness
from luthier.rewards.cheating import Scorer, find_cheat
from luthier.teaching.rows import TeacherCandidate, TeacherRow, TeachLog


def filter_candidates(
    candidates: Iterable[TeacherCandidate],
    scorer: Scorer,
    limits: Limits,
    rows_per_question: int,
    min_share: float = 0.0,
    *,
    prompt: Callable[[str], str],
) -> tuple[list[TeacherRow], TeachLog]:
    """Keep valid, correct, honest candidates, once per canonical graph, the most dependable ones first.

    Among the correct candidates of a question those rank first that were correct on the largest share of the
    family's questions on which they ran, then the cheaper, the shorter, the smaller digest (ours). The share is
    (right + 1) / (ran + 2), Laplace's rule of succession: a system that was right by luck on the one question
    on which it ran does not come before one that was right on nine of ten. A candidate whose share is below
    `min_share` times the best share of its family teaches nothing (counted as `unreliable`).

    Args:
        candidates: Executed systems.
        scorer: Of the task, for the cheat check.
        limits: Bounds of one execution.
        rows_per_question: Most rows of a question.
        min_share: See above.
        prompt: What the generator is asked, from a question's text.

    Returns:
        The rows in the order of the questions, and the count of each filter.
    """
    counts: Counter[str] = Counter()
    families: dict[str, Counter[str]] = defaultdict(Counter)
    tried: dict[tuple[str, str], list[float]] = defaultdict(list)
    correct: dict[str, dict[str, TeacherCandidate]] = defaultdict(dict)
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
        rows.extend(_row(item, prompt) for item in ranked[:rows_per_question])
    counts["questions_taught"] = len({row.question for row in rows})
    counts["rows"] = len(rows)
    graded = counts["executed"] - counts["infra_error"]
    acceptance = (counts["correct"] + counts["duplicate"]) / graded if graded else 0.0
    by_family = {family: dict(sorted(steps.items())) for family, steps in sorted(families.items())}
    return rows, TeachLog(dict(sorted(counts.items())), acceptance, by_family)


def _step(
    candidate: TeacherCandidate, scorer: Scorer, limits: Limits, correct: Mapping[str, Mapping[str, TeacherCandidate]]
) -> str:
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


def _share(candidate: TeacherCandidate, tried: Mapping[tuple[str, str], list[float]]) -> float:
    outcomes = tried[candidate.question.family, candidate.harness.digest]
    return (sum(outcomes) + 1) / (len(outcomes) + 2)


def _rank(candidate: TeacherCandidate, tried: Mapping[tuple[str, str], list[float]]) -> tuple[float, int, int, str]:
    usage = candidate.execution.usage
    tokens = usage.prompt_tokens + usage.completion_tokens
    return (-_share(candidate, tried), tokens, len(candidate.harness.text), candidate.harness.digest)


def _row(candidate: TeacherCandidate, prompt: Callable[[str], str]) -> TeacherRow:
    return TeacherRow(
        question=candidate.question.id,
        family=candidate.question.family,
        prompt=prompt(candidate.question.text),
        completion=candidate.harness.text,
        harness=candidate.harness.digest,
        source=candidate.source,
    )
