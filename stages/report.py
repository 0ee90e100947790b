"""Stage `report`: draw the one-page report, and write the same figures for `dvc metrics`, `dvc plots` and programs."""

from __future__ import annotations

from pathlib import Path

from luthier.context import StageContext
from luthier.files import write_atomically, write_json
from luthier.lineage import log_report
from luthier.report.html.page import render
from luthier.report.sections.data import read_report_data
from luthier.report.sections.metrics import curves_csv, figures, headline
from stages.entry import Options, run_stage

OUT = Path("reports")


def work(context: StageContext, options: Options) -> None:
    """Write reports/{index.html, figures.json, curves.csv} and reports/metrics/<method>.json."""
    methods = context.params.ask.methods
    print(f"report: methods {', '.join(methods)}, no model is called")
    if options.dry_run:
        return
    data = read_report_data(context.root, methods)
    out = context.root / OUT
    write_atomically(out / "index.html", render(data, context.params, context.root))
    write_json(out / "figures.json", figures(data))
    for method in data.methods:
        write_json(out / "metrics" / f"{method.card.name}.json", headline(method))
    write_atomically(out / "curves.csv", curves_csv(data))
    for name in methods:
        log_report(out / "index.html", name, root=context.root)
    print(f"report: {out / 'index.html'}")


if __name__ == "__main__":
    raise SystemExit(run_stage("report", work))
