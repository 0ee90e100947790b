"""The answer, in one sentence a method, with everything that the figures depend on beside it."""

from __future__ import annotations

from luthier.report.html.markup import Html, element, join
from luthier.report.html.numbers import count, difference, estimate, percent
from luthier.report.html.tables import contender_label, facts, note, section
from luthier.report.sections.data import OPPONENTS, MethodData, ReportData, pooled
from luthier.settings.load import Params
from luthier.settings.training import GeneratorParams

SEEDS_FOR_A_HEADLINE = 3
"""Figures with fewer seeds are not headlines (docs/design.md, section 10)."""


def headline(data: ReportData, params: Params) -> Html:
    """The first section: answer, warnings, and what was measured on what."""
    return section(
        "answer",
        "The answer",
        [_sentence(method, data) for method in data.methods],
        [warning for method in data.methods for warning in _warnings(method)],
        [_facts(method, data, params) for method in data.methods],
    )


def _sentence(method: MethodData, data: ReportData) -> Html:
    scores = method.scores
    final, alone, fixed = (pooled(scores.test[name]) for name in (scores.final, "target_alone", "best_fixed"))
    text = join(
        f"On {count(final.n)} test questions, ",
        element("strong", f"{method.card.title} scores {estimate(final)}"),
        f" ({contender_label(scores.final)}); the target alone scores {estimate(alone)}, and the best single "
        f"configuration of {data.grid['compared']} ({scores.best_fixed}, chosen on validation) {estimate(fixed)}.",
    )
    gaps = [
        f"{difference(gap.interval)} against {contender_label(other)}"
        for other in OPPONENTS
        if (gap := scores.differences.get(f"{scores.final}_minus_{other}")) is not None
    ]
    paired = f" Paired difference: {'; '.join(gaps)}." if gaps else ""
    return element("p", text, paired, class_="lead")


def _warnings(method: MethodData) -> list[Html]:
    found = []
    if len(method.seeds) < SEEDS_FOR_A_HEADLINE:
        seeds = ", ".join(str(seed) for seed in method.seeds)
        number = "One seed" if len(method.seeds) == 1 else f"{len(method.seeds)} seeds"
        found.append(
            note(
                element("strong", f"{number} ({seeds}): not a headline."),
                " The 95 % intervals (bootstrap over questions) speak of new questions at this seed, not of new "
                f"trainings; a result to quote needs {SEEDS_FOR_A_HEADLINE} seeds.",
                warning=True,
            )
        )
    lost = {
        name: row.outcomes["infra_error"] for name, row in method.scores.test.items() if "infra_error" in row.outcomes
    }
    if lost:
        said = ", ".join(f"{contender_label(name)} {number}" for name, number in lost.items())
        found.append(
            note(
                f"The machine failed on some questions, which are not scored: {said}. Run evaluate again.", warning=True
            )
        )
    if len(method.targets) > 1:
        found.append(
            note(f"Several target fingerprints answered ({len(method.targets)}): this is transfer.", warning=True)
        )
    return found


def _facts(method: MethodData, data: ReportData, params: Params) -> Html:
    target, task = params.profile.target, params.ask.task
    sizes = ", ".join(f"{count(len(rows))} {split}" for split, rows in data.questions.items())
    weights = ", ".join(f"{count(record.trainable)} weights in {record.phase}" for record in method.records)
    chosen = ", ".join(
        f"{contender_label(name)} {percent(pooled(row).mean)}" for name, row in method.scores.validation.items()
    )
    return facts(
        ("Method", f"{method.card.title}: {', '.join(method.card.phases)}. {method.card.paper}"),
        ("Questions", f"task {task.name}, {sizes}, {len(data.families)} families; question seed {task.seed}"),
        ("Training seed", ", ".join(str(seed) for seed in method.seeds)),
        ("Frozen", f"{method.card.frozen}: {target.model}, engine {target.engine}, {_fingerprints(method)}"),
        ("Trained", join(f"{method.card.trained}: {_generator(method, params)}", f" ({weights})" if weights else None)),
        ("Ours, stated by no source", method.card.ours),
        ("Validation, for promotion", chosen),
        ("Profile", params.ask.profile),
    )


def _generator(method: MethodData, params: Params) -> str:
    settings = params.section(method.card.name, GeneratorParams, "generator")
    return f"{settings.model}, at most {settings.max_tokens} tokens a harness"


def _fingerprints(method: MethodData) -> str:
    return f"fingerprint {', '.join(method.targets)}"
