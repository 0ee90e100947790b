"""What memory alone reaches: the nearest teacher row and the router over the grid, on test and on unseen families.

A clean copy builds questions, grid and teacher rows; nothing is trained. Settings are chosen on validation, as stage
`evaluate` does.

    python -m benchmarks.lookups           # about eight minutes on two cores
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.record import record
from benchmarks.workspace import copy_project, repro
from luthier.context import StageContext
from luthier.evaluation.evaluate import Result
from luthier.evaluation.statistics import Interval, mean_interval
from luthier.question import read_questions
from stages.evaluate import choose_lookups, score_all, test_runner
from stages.grid import configurations
from stages.places import QUESTIONS
from stages.questions import read_held_out

METHOD = "mas_architect"


def interval(results: Sequence[Result], resamples: int) -> Interval:
    """Mean score of the questions, in per cent, with its interval."""
    found = mean_interval([result.execution.score or 0.0 for result in results], resamples=resamples)
    return Interval(100 * found.mean, 100 * found.low, 100 * found.high, found.n)


def main(argv: Sequence[str] | None = None) -> int:
    """Build what lookups read, score them, record their means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="embedded")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="luthier-lookups-") as name:
        folder = copy_project(Path(name) / "copy", profile=arguments.profile)
        if repro(folder, f"teach@{METHOD}").returncode:
            raise SystemExit((folder / ".cache" / "repro.log").read_text()[-2000:])
        os.chdir(folder)
        with StageContext("evaluate", METHOD) as context:
            validation = read_questions(QUESTIONS / "validation.jsonl")
            generators, told = choose_lookups(context, validation, configurations(context))
            resamples, seed = context.params.profile.evaluate.resamples, context.params.ask.seed
            run = test_runner(context)
            for generator in generators:
                for axis, questions in (
                    ("test", read_questions(QUESTIONS / "test.jsonl")),
                    ("unseen_families", read_held_out(context)),
                ):
                    found = interval(score_all(generator, questions, run, seed), resamples)
                    print(f"{generator.name} ({told[generator.name]}) {axis}: {found}", file=sys.stderr)
                    record(
                        f"lookup_{generator.name}_{axis}",
                        found.mean,
                        unit="per cent",
                        n=found.n,
                        seeds=(seed,),
                        interval=(found.low, found.high),
                    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
