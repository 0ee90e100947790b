"""The table of contenders, their outcomes, and paired differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from luthier.errors import HarnessError
from luthier.evaluation.evaluate import Result, Summary
from luthier.harnesses import parse
from luthier.report.html.charts import OUTCOMES, difference_bar, interval_bar, outcome_bar
from luthier.report.html.markup import Html, element, join
from luthier.report.html.numbers import NONE, bounds, count, percent, points, reading
from luthier.report.html.tables import DIFFERENCE, Column, cell, contender_label, note, number, row, section, table
from luthier.report.sections.data import BASELINES, MethodData, pooled

_SHOWN_FAILURES = 6


@dataclass(frozen=True, slots=True)
class FailureCount:
    """A way to give no answer: the outcome, and the broken rule of an invalid harness."""

    outcome: str
    rule: str


def contenders(method: MethodData) -> Html:
    """Scores with intervals, outcomes, calls and tokens; differences; why answers failed."""
    name = method.card.name
    return section(
        f"{name}-contenders",
        f"{method.card.title}: scores",
        _scores(method),
        note(
            "Every contender answered the same questions through the same executor and scorer. Bars start at 0; "
            "whiskers are 95 % bootstrap intervals. “Equal weight” is the mean over families. Calls and tokens are a "
            "question's, uncached. ",
            f"Trained: {method.card.trained}. Frozen: {method.card.frozen}.",
        ),
        element("h3", "Paired differences"),
        _differences(method),
        element("h3", "Outcomes"),
        _outcomes(method),
        _failures(method),
    )


def _scores(method: MethodData) -> Html:
    scores = method.scores
    columns = [
        Column("contender"),
        Column("score", numeric=True),
        Column("95 % interval", numeric=True),
        Column("0 to 100 %"),
        Column("equal weight", numeric=True),
        Column("calls", numeric=True),
        Column("target tokens", numeric=True),
        Column("generator tokens", numeric=True),
    ]
    rows = [_score_row(method, name, standing) for name, standing in scores.test.items()]
    bound = scores.oracle.pooled
    label = join(
        f"oracle over the pool of {scores.oracle.configurations} ",
        element("em", "upper bound, looks at the scores", class_="tag"),
    )
    rows.append(
        row(
            label,
            number(percent(bound.mean)),
            number(bounds(bound)),
            cell(interval_bar(bound, "bound")),
            *(number(NONE) for _ in range(4)),
            class_="bound",
        )
    )
    return table(f"{method.card.title} on {bound.n} test questions, seed {scores.seed}", columns, rows)


def _score_row(method: MethodData, name: str, standing: Summary) -> Html:
    score = pooled(standing)
    configuration = f" ({method.scores.best_fixed})" if name == "best_fixed" else ""
    return row(
        contender_label(name) + configuration,
        number(element("strong", percent(score.mean)) if name == method.scores.final else percent(score.mean)),
        number(bounds(score)),
        cell(interval_bar(score, "baseline" if name in BASELINES else "learned")),
        number(percent(standing.equal_weight)),
        number(f"{standing.calls:.2f}"),
        number(f"{standing.target_tokens:,.0f}"),
        number(f"{standing.generator_tokens:,.0f}"),
    )


def _differences(method: MethodData) -> Html:
    columns = [
        Column("difference"),
        *DIFFERENCE,
    ]
    rows = [
        row(
            _pair(name),
            number(points(gap.interval.mean)),
            number(bounds(gap.interval)),
            cell(difference_bar(gap.interval)),
            number(count(gap.rescued)),
            number(count(gap.regressed)),
            cell(reading(gap.interval)),
        )
        for name, gap in method.scores.differences.items()
    ]
    return table("Rescued and regressed count the questions where the first scored higher or lower", columns, rows)


def _pair(name: str) -> str:
    ours, _, theirs = name.partition("_minus_")
    return f"{contender_label(ours)} − {contender_label(theirs)}"


def _outcomes(method: MethodData) -> Html:
    columns = [Column("contender"), Column("shares"), *(Column(name, numeric=True) for name in OUTCOMES)]
    rows = [
        row(
            contender_label(name),
            cell(outcome_bar(standing.outcomes)),
            *(
                number(_share(standing.outcomes.get(outcome, 0), sum(standing.outcomes.values())))
                for outcome in OUTCOMES
            ),
        )
        for name, standing in method.scores.test.items()
    ]
    legend = element(
        "ul",
        [element("li", element("span", class_=f"key outcome-{name}", aria_hidden="true"), name) for name in OUTCOMES],
        class_="legend",
    )
    return join(
        legend,
        table("How executions ended; only infra_error leaves the denominator", columns, rows),
        note(
            "ok: an answer came out. noop: it ran and answered nothing. incomplete: a limit stopped it. invalid: the "
            "harness does not parse or validate. infra_error: the machine failed."
        ),
    )


def _share(part: int, whole: int) -> str:
    return f"{count(part)} ({percent(part / whole)})" if part else "0"


def _failures(method: MethodData) -> Html | None:
    """The most frequent reasons for which a trained contender gave no answer."""
    rows = [
        row(
            contender_label(name),
            cell(failure.outcome),
            cell(failure.rule),
            number(count(times)),
            cell(example, class_="long"),
        )
        for name in method.scores.learned
        for failure, times, example in frequent_failures(method.results[name])
    ]
    if not rows:
        return note("Every harness of the trained contenders ran and answered.")
    columns = [
        Column("contender"),
        Column("outcome"),
        Column("rule"),
        Column("times", numeric=True),
        Column("for example"),
    ]
    return table("Why trained contenders gave no answer, the most frequent reasons", columns, rows)


def frequent_failures(results: Sequence[Result]) -> list[tuple[FailureCount, int, str]]:
    """(failure, times, one message) of executions without an answer, most frequent first, at most six."""
    times: Counter[FailureCount] = Counter()
    examples: dict[FailureCount, str] = {}
    for result in results:
        if result.execution.outcome == "ok":
            continue
        failure = FailureCount(result.execution.outcome, _rule(result))
        times[failure] += 1
        examples.setdefault(failure, result.execution.error.partition(" Fix: ")[0])
    ranked = sorted(times.items(), key=lambda item: (-item[1], item[0].outcome, item[0].rule))
    return [(failure, number_, examples[failure]) for failure, number_ in ranked[:_SHOWN_FAILURES]]


def _rule(result: Result) -> str:
    """The rule that an invalid harness breaks, "" for anything else."""
    try:
        parse(result.execution.kind, result.text)
    except HarnessError as error:
        return error.rule
    return ""
