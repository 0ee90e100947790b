"""What every stage's command line shares: options, the context, `--dry-run`, and one clear message on failure."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from luthier.context import StageContext
from luthier.errors import BudgetExhausted, LuthierError, TargetError
from luthier.experiment import share_cache
from luthier.methods import check_asked, check_settings
from luthier.stopping import STOPPED, StopRequested, StopSignal

__all__ = ["INTERRUPTED", "STOPPED", "TRY_AGAIN", "Options", "run_stage"]

INTERRUPTED = 130
"""Exit status after a second Ctrl-C, as shells give it: what was in flight is lost."""

TRY_AGAIN = 75
"""Exit status when a machine failed and a second try may help (EX_TEMPFAIL); `flows.launch` knows it."""


@dataclass(frozen=True, slots=True)
class Options:
    """A stage's command line."""

    method: str
    dry_run: bool


def run_stage(
    name: str,
    work: Callable[[StageContext, Options], None],
    argv: Sequence[str] | None = None,
    *,
    per_method: bool = False,
    searches: bool = False,
    trains: bool = False,
) -> int:
    """Parse the command line, open the context, do the work; the exit status.

    `per_method`: the command line names a method; one that learns, or with `searches` one that searches.
    `trains`: a whole checkpoint is a success even when a stop was asked for meanwhile, because DVC would delete it
    and train again; under DVC the next stage stops instead.

    Expected failures (wrong input, a server that is down, an exhausted budget, a stop) print one message
    that says what to do; anything else keeps its traceback. A stop that was asked for while the stage ended is
    a stop, too: its results are in the store.
    """
    parser = argparse.ArgumentParser(prog=f"python -m stages.{name}", description=work.__doc__)
    if per_method:
        parser.add_argument("--method", required=True, help="method to build, as in params.yaml")
    parser.add_argument("--dry-run", action="store_true", help="print what would run and its forecast, spend nothing")
    arguments = parser.parse_args(argv)
    options = Options(getattr(arguments, "method", ""), arguments.dry_run)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    stop: StopSignal | None = None
    try:
        with StopSignal() as stop:
            stop.check()
            share_cache(Path("."))
            with StageContext(name, options.method, stop=stop) as context:
                check_settings(context.params)
                if per_method:
                    check_asked("searches" if searches else "methods", options.method)
                work(context, options)
            if not trains:
                stop.check()
            stop.pass_on()
        return 0
    except StopRequested as reason:
        print(f"{name}: {reason}; what was done is kept, run the same command again to continue", file=sys.stderr)
        return STOPPED
    except KeyboardInterrupt:
        print(f"{name}: stopped at once; what was finished is kept, run the same command again", file=sys.stderr)
        return INTERRUPTED
    except (BudgetExhausted, LuthierError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        if isinstance(error, TargetError):
            # Waiting for a server ends when a stop is asked for: that is the stop, and no fault to try again.
            return STOPPED if stop is not None and stop.requested() else TRY_AGAIN
        return 1
