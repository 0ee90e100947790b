"""Scores and spending of a checkpoint, grouped and rounded for a person, or named for MLflow's pages.

A checkpoint holds both flat: `train.target.alone.calls` is what account `train` spent on role `target` uncached,
`test.score.low` is the lower end of the interval of the mean score on the test questions.
"""

from __future__ import annotations

from collections.abc import Mapping

from luthier.lineage.checkpoint import show_number

_ALONE = "alone"
_FAMILY = "family."
_TOKENS = ("prompt_tokens", "completion_tokens")


def by_role(ledger: Mapping[str, float | None], *, alone: bool = False) -> dict[str, dict[str, float | None]]:
    """Amounts of each role: rollouts, calls, tokens (both kinds together), seconds and usd; None is unknown.

    Args:
        ledger: Flat names, as `luthier.lineage.tags.ledger_totals` gives them.
        alone: What it would have cost without stored answers, else what was paid.
    """
    roles: dict[str, dict[str, float | None]] = {}
    for name, value in sorted(ledger.items()):
        account, role, *rest = name.split(".")
        if (rest[0] == _ALONE) is not alone:
            continue
        unit = "tokens" if rest[-1] in _TOKENS else {"price": "usd"}.get(rest[-1], rest[-1])
        amounts = roles.setdefault(role if account == "train" else f"{account} {role}", {})
        before = amounts.get(unit, 0.0)
        amounts[unit] = None if value is None or before is None else before + value
    return roles


def spending_lines(ledger: Mapping[str, float | None]) -> list[str]:
    """A line for each role that spent, and what it would have cost without stored answers where that is more."""
    paid, alone = by_role(ledger), by_role(ledger, alone=True)
    lines = [f"{role}: {_amounts(amounts)}" for role, amounts in paid.items() if any(amounts.values())]
    lines += [
        f"{role}, uncached: {_amounts(amounts)}"
        for role, amounts in alone.items()
        if amounts != paid.get(role) and any(amounts.values())
    ]
    return lines


def spending_metrics(ledger: Mapping[str, float | None]) -> dict[str, float]:
    """What was paid, as metrics that MLflow groups under "spend"; nothing and unknown amounts are left out."""
    return {
        f"spend/{role}.{unit}": value
        for role, amounts in by_role(ledger).items()
        if any(amounts.values())
        for unit, value in amounts.items()
        if value
    }


def totals(ledger: Mapping[str, float | None], phase: str) -> dict[str, float]:
    """What a phase paid for all roles together, as metrics of its pipeline; unknown amounts are left out."""
    sums: dict[str, list[float | None]] = {}
    for amounts in by_role(ledger).values():
        for unit in ("tokens", "seconds", "usd"):
            if unit in amounts:
                sums.setdefault(unit, []).append(amounts[unit])
    return {
        f"spend/{phase}.{unit}": sum(known)
        for unit, values in sums.items()
        if len(known := [value for value in values if value is not None]) == len(values)
    }


def metric_name(score: str) -> str:
    """A score's name in MLflow, which groups its charts by what stands before a slash: `test.score`, `test/score`."""
    return score.replace(".", "/", 1)


def score_name(metric: str) -> str:
    """Inverse of `metric_name`; names of older stores have no slash."""
    return metric.replace("/", ".", 1)


def score_lines(scores: Mapping[str, float]) -> list[str]:
    """A line for each split: its mean with its interval, both in percent."""
    lines = []
    for split in _splits(scores):
        low, high = (scores.get(f"{split}.score.{end}") for end in ("low", "high"))
        interval = "" if low is None or high is None else f" [{100 * low:.1f}, {100 * high:.1f}]"
        lines.append(f"{split} {100 * scores[f'{split}.score']:.1f} %{interval}")
    return lines


def family_lines(scores: Mapping[str, float]) -> list[str]:
    """A line for each split: families by their mean in percent, best first, those with the same mean together."""
    lines = []
    for split in _splits(scores):
        start = f"{split}.{_FAMILY}"
        families = {name.removeprefix(start): value for name, value in scores.items() if name.startswith(start)}
        means: dict[str, list[str]] = {}
        for family, value in sorted(families.items(), key=lambda item: (-item[1], item[0])):
            means.setdefault(f"{100 * value:.0f} %", []).append(family)
        if means:
            lines.append(f"{split}: {'; '.join(' '.join((mean, ', '.join(named))) for mean, named in means.items())}")
    return lines


def _splits(scores: Mapping[str, float]) -> list[str]:
    return sorted(name.removesuffix(".score") for name in scores if name.endswith(".score"))


def _amounts(amounts: Mapping[str, float | None]) -> str:
    shown = []
    for unit in ("rollouts", "calls", "tokens"):
        if amounts.get(unit) != 0.0 and unit in amounts:
            shown.append(f"{show_number(amounts[unit])} {unit}")
    seconds = amounts.get("seconds")
    if seconds:
        shown.append(f"{seconds:,.1f} s")
    if "usd" in amounts:
        usd = amounts["usd"]
        shown.append("price unknown" if usd is None else f"{usd:.3g} USD")
    return ", ".join(shown)
