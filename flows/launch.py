"""Starting stages and DVC from a flow: streamed lines, one process group, ended when the flow is."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prefect import Flow, State, runtime
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ExternalSignal

from luthier.errors import LuthierError
from luthier.files import write_atomically
from luthier.owners import is_alive, owner_of
from luthier.processes import GRACE_SECONDS, end_group, run_streamed
from luthier.revision import find_root
from luthier.stopping import STOPPED, StopSignal
from stages.entry import INTERRUPTED, TRY_AGAIN

TERMINATED = 143
"""Exit status after SIGTERM, as shells give it."""


class StageError(LuthierError):
    """A command ended with a status other than 0."""

    def __init__(self, command: str, status: int) -> None:
        self.status = status
        fixes = {STOPPED: "run it again to continue", TRY_AGAIN: "check the target's server, then run it again"}
        problem = "stopped on request" if status == STOPPED else f"ended with status {status}"
        super().__init__(problem, where=command, fix=fixes.get(status, "correct the cause in the lines above"))


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
    """Run `python <arguments>` in the project's folder; inside a flow, its group can be ended by `end_children`.

    Args:
        arguments: After the interpreter.
        root: The project's folder.
        say: Receives each line.
        grace_seconds: Between the request to end and the kill.
        keep_open: File descriptors that the process inherits.
        cwd: Another folder to run in, such as a copy of the project.
        environment: The whole environment there, in place of this process's with what a flow adds.

    Returns:
        The exit status.
    """
    record = _record(root, str(runtime.flow_run.id)) if runtime.flow_run.id else None
    if environment is None:
        environment = _environment(reporting=record is not None)
    try:
        return run_streamed(
            [sys.executable, *arguments],
            cwd=cwd or root,
            environment=environment,
            say=say,
            started=lambda pid: write_atomically(record, owner_of(pid)) if record else None,
            grace_seconds=grace_seconds,
            keep_open=keep_open,
        )
    finally:
        if record is not None:
            record.unlink(missing_ok=True)


def _environment(*, reporting: bool) -> dict[str, str]:
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONUNBUFFERED": "1",
        "DVC_NO_ANALYTICS": "1",
    }
    if reporting:
        # A flow started by the child reports to the same API, also when that is this process's temporary one.
        environment["PREFECT_API_URL"] = str(get_client(sync_client=True).api_url)
    return environment


def exit_status(name: str, action: Callable[[], object]) -> int:
    """Run a flow's command; 0, a stage's own status where that says what to do, else 1, with one message.

    `STOPPED` also when a stop was asked for and everything was done before it was seen: nothing shall follow. Under
    DVC the work counts then, and the next stage stops instead.
    """
    try:
        with StopSignal() as stop:
            action()
            return 0 if stop.pass_on() or not stop.requested() else STOPPED
    except StageError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.status if error.status in (STOPPED, TRY_AGAIN) else 1
    except LuthierError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, ExternalSignal) as interruption:
        print(f"{name}: stopped at once; what was finished is kept, run the same command again", file=sys.stderr)
        return INTERRUPTED if isinstance(interruption, KeyboardInterrupt) else TERMINATED


def end_children(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Cancellation hook: kill what a flow run started, should the flow's own process not have managed to.

    Prefect calls it in the process that supervises the run.
    """
    record = _record(find_root(), str(flow_run.id))
    if not record.is_file():
        return
    owner = record.read_text(encoding="utf-8")
    if is_alive(owner):
        end_group(int(owner.rsplit(":", 2)[1]))
    record.unlink(missing_ok=True)


def _record(root: Path, flow_run_id: str) -> Path:
    return root / ".cache" / "flows" / flow_run_id
