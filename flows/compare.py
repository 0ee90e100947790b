"""Flow `compare`: bring the comparison up to date through DVC, and show its standings in Prefect.

python -m flows.compare             # what `make compare` does, as a flow
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact

from flows.cancellation import end_children
from flows.launch import exit_status
from flows.rebuild import dvc_repro, show_plan
from luthier.lineage.sources import find_root
from luthier.reading import read_object, shaped

NAME = "compare"


@flow(name=NAME, on_cancellation=[end_children])
def compare() -> list[dict[str, Any]]:
    """Bring stage `compare` and everything before it up to date.

    Returns:
        One row for each method and budget, as in the artifact.

    Raises:
        StageError: a stage failed or was stopped; what was finished is kept.
        InputError: the stage's table cannot be read.
    """
    dvc_repro.with_options(name=NAME)((NAME,))
    rows = standings()
    create_table_artifact(
        key=NAME, table=rows, description="Score at equal total budget; page: reports/comparison.html"
    )
    return rows


def standings() -> list[dict[str, Any]]:
    """The rows of data/compare/table.json.

    Raises:
        InputError: it is missing or broken.
    """
    path = find_root() / "data" / "compare" / "table.json"
    fix = "run `dvc repro -f compare`"
    table = read_object(path, fix=fix)
    with shaped("not a comparison", where=str(path), fix=fix):
        return [
            {"budget": budget, "method": method, **figures}
            for budget, methods in table["budgets"].items()
            for method, figures in methods.items()
        ]


def main(argv: Sequence[str] | None = None) -> int:
    """Command line of `python -m flows.compare`."""
    parser = argparse.ArgumentParser(prog="python -m flows.compare", description=__doc__.splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help="print what would run and its forecast, spend nothing")
    options = parser.parse_args(argv)
    if options.dry_run:
        return exit_status(NAME, lambda: show_plan([NAME], root=find_root(), say=print))
    return exit_status(NAME, compare)


if __name__ == "__main__":
    raise SystemExit(main())
