"""Starting stages and DVC from a flow: streamed lines under one prefix, and nothing left when the flow is ended."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from prefect import runtime, tags
from prefect.client.orchestration import get_client
from prefect.exceptions import ExternalSignal

from flows.cancellation import STOP_WORDS, close_records, started_by
from flows.temporary_server import keep_apart
from luthier.errors import LuthierError
from luthier.processes import GRACE_SECONDS, ancestors, run_streamed
from luthier.stopping import STOPPED, StopSignal
from stages.entry import INTERRUPTED, TRY_AGAIN

TERMINATED = 143
"""Exit status after SIGTERM, as shells give it."""
_STOPS = frozenset({STOPPED, INTERRUPTED, TERMINATED, -signal.SIGINT, -signal.SIGTERM})


class StageError(LuthierError):
    """A command ended with a status other than 0."""

    def __init__(self, command: str, status: int) -> None:
        self.status = status
        self.stopped = status in _STOPS
        if self.stopped:
            super().__init__(STOP_WORDS, where=command, fix="run it again to continue")
            return
        fixes = {TRY_AGAIN: "check the target's server, then run it again"}
        fix = fixes.get(status, "correct the cause in the lines above")
        super().__init__(f"ended with status {status}", where=command, fix=fix)


class _OneMessage(logging.Filter):
    """Leaves out the traceback of an expected error: its one message says what to do."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], LuthierError):
            record.exc_info = None
        return True


for _name in ("prefect.flow_runs", "prefect.task_runs"):
    logging.getLogger(_name).addFilter(_OneMessage())


def launch(
    arguments: Sequence[str],
    *,
    root: Path,
    say: Callable[[str], None],
    grace_seconds: float = GRACE_SECONDS,
    keep_open: Sequence[int] = (),
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run `python <arguments>` in the project's folder.

    Inside a flow it is named after the flow run, so that `flows.cancellation` ends what it started. Flows that it
    starts report to the same Prefect API and leave the prefix of their lines to this one.

    Args:
        arguments: After the interpreter.
        root: The project's folder.
        say: Receives each line.
        grace_seconds: Between the request to end and the kill.
        keep_open: File descriptors that the process inherits.
        cwd: Another folder to run in, such as a copy of the project.
        environment: In place of this process's, such as a copy's.

    Returns:
        The exit status.
    """
    flow_run_id = str(runtime.flow_run.id or "")
    try:
        return run_streamed(
            [sys.executable, *arguments],
            cwd=cwd or root,
            environment=_environment(environment, reporting=bool(flow_run_id)),
            say=say,
            name=flow_run_id,
            grace_seconds=grace_seconds,
            keep_open=keep_open,
        )
    except Exception:
        raise
    except BaseException:  # Ctrl-C or Prefect's cancellation
        if flow_run_id:
            close_records(flow_run_id, root)
        raise


def _environment(given: Mapping[str, str] | None, *, reporting: bool) -> dict[str, str]:
    """What a child gets; variables of Prefect's engine ("PREFECT__") concern the process that runs the flow alone."""
    environment = {**(os.environ if given is None else given)}
    if reporting:
        environment |= {name: value for name, value in os.environ.items() if name.startswith("PREFECT_")}
    environment = {name: value for name, value in environment.items() if not name.startswith("PREFECT__")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}",
        "PYTHONUNBUFFERED": "1",
        "DVC_NO_ANALYTICS": "1",
    }
    if reporting:
        environment |= {
            # Also right when the server is this process's temporary one.
            "PREFECT_API_URL": str(get_client(sync_client=True).api_url),
            "PREFECT_LOGGING_FORMATTERS_STANDARD_FLOW_RUN_FMT": "%(message)s",
            "PREFECT_LOGGING_FORMATTERS_STANDARD_TASK_RUN_FMT": "%(message)s",
        }
    return environment


def exit_status(name: str, action: Callable[[], object]) -> int:
    """Run a flow's command; 0, a stage's own status where that says what to do, else 1, with one message.

    `STOPPED` also when a stop was asked for and everything was done before it was seen: nothing shall follow. Under
    DVC the work counts then, and the next stage stops instead. The flow run is tagged with those that it descends from.
    """
    stop = StopSignal()
    keep_apart()
    try:
        with stop, tags(*map(started_by, ancestors(os.environ))):
            action()
            return 0 if stop.pass_on() or not stop.requested() else STOPPED
    except StageError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.status if error.status in (STOPPED, TRY_AGAIN) else 1
    except LuthierError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        if not stop.requested():
            raise
        # A server that was stopped together with this flow takes no more reports.
        print(f"{name}: stopped on request, after which Prefect failed ({type(error).__name__})", file=sys.stderr)
        return STOPPED
    except (KeyboardInterrupt, ExternalSignal) as interruption:
        print(f"{name}: stopped at once; what was finished is kept, run the same command again", file=sys.stderr)
        return INTERRUPTED if isinstance(interruption, KeyboardInterrupt) else TERMINATED
