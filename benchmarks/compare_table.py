"""The first honest answer: the comparison's table for the README, and its headline as one figure.

Reads the runs that `make compare` built. The figure is the learned method's score minus that of the best search at
the largest total budget, with an interval over questions and seeds.

    python -m benchmarks.compare_table
"""

from __future__ import annotations

from benchmarks.record import record
from benchmarks.workspace import ROOT
from luthier.evaluation.compare import compare
from luthier.evaluation.method_run import read_contenders
from luthier.evaluation.results import Comparison, Group, MethodResult
from luthier.report.comparison.tables import verdict

RUNS = ROOT / "data" / "compare" / "contenders"
LEARNED = "mas_architect"


def markdown(comparison: Comparison) -> str:
    """One row for each contender: score and spend under every budget, price of uses, break-even, unseen families."""
    groups = comparison.groups
    last = groups[-1]
    head = ["", *(f"at {_usd(group)}" for group in groups), "a thousand uses", "break-even", "unseen families"]
    rows = [head, ["---"] * len(head)]
    uses = {item.other: verdict(item) for item in last.crossings if item.learned == LEARNED}
    for item in last.standings:
        cells = [_score(group.standing(item.method)) for group in groups]
        unseen = f"{item.unseen.mean:.1%}" if item.unseen else ""
        rows.append([item.label, *cells, f"{1000 * item.use_cost:.5f} USD", uses.get(item.method, ""), unseen])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def best_search(group: Group) -> MethodResult:
    """The search with the highest score; of equals the cheaper one."""
    searches = [item for item in group.standings if item.kind == "searched"]
    return max(searches, key=lambda item: (item.score.mean, -item.use_cost))


def main() -> int:
    """Print the table, record the figure."""
    comparison = compare(read_contenders(RUNS), "target_alone", unit="price", resamples=10_000)
    group = comparison.groups[-1]
    learned, search = group.standing(LEARNED), best_search(group)
    pair = next(item for item in group.pairs if (item.ours, item.theirs) == (LEARNED, search.method))
    print(markdown(comparison))
    gap = pair.widest
    record(
        "compare_table",
        round(100 * gap.mean, 2),
        unit=f"points of accuracy, {learned.label} minus {search.label} at {_usd(group)}",
        n=gap.n,
        ours=round(100 * learned.score.mean, 2),
        peer=round(100 * search.score.mean, 2),
        seeds=list(learned.seeds),
        interval=(round(100 * gap.low, 2), round(100 * gap.high, 2)),
    )
    return 0


def _usd(group: Group) -> str:
    return group.budget_name.partition(": ")[2]


def _score(item: MethodResult) -> str:
    spent = "" if item.kind == "fixed" else f", {item.before_use:.4f} spent"
    return f"{item.score.mean:.1%} [{item.score.low:.1%}, {item.score.high:.1%}]{spent}"


if __name__ == "__main__":
    raise SystemExit(main())
