"""What remains of a cancelled or interrupted flow run: no process, and no record that says "running".

A flow that another one started, through DVC or in a copy of the project, is a flow run of its own, which Prefect does
not cancel with the first. It carries the first one's id as a tag, so it is found and cancelled here.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import Flow, State
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterTags,
    TaskRunFilter,
    TaskRunFilterState,
    TaskRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import Cancelled

from flows.copies import project_and_copies
from luthier import lineage
from luthier.lineage.sources import find_root
from luthier.lineage.store import store_of
from luthier.processes import end_all

STOP_WORDS = "stopped on request"
"""In the message of a run whose stage obeyed a stop: it has said "failed", and nothing is wrong."""
_LOGGER = logging.getLogger(__name__)
# An inner run that was interrupted has said "crashed" by itself.
_ENDED = (StateType.COMPLETED, StateType.FAILED, StateType.CANCELLED)


def started_by(flow_run_id: str) -> str:
    """The tag of flow runs that this one started, at any depth."""
    return f"started-by:{flow_run_id}"


def end_children(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Cancellation hook: kill what a flow run left behind, and say in all records that it was cancelled.

    Prefect calls it in the process that supervises the run, when the run's own process is gone. That one has done the
    same before, unless it was killed.
    """
    end_all(str(flow_run.id))
    close_records(str(flow_run.id), find_root())


def close_records(flow_run_id: str, root: Path) -> None:
    """Cancel the unfinished flow and task runs of an ended flow run, and end the MLflow runs of its dead processes.

    Args:
        flow_run_id: Of the run that was ended; its own state is Prefect's.
        root: The project's folder; its copies are seen to as well.
    """
    try:
        with get_client(sync_client=True) as client:
            _cancel_inner_runs(client, flow_run_id)
    except Exception as error:  # whatever a server or a network does, MLflow's records must still be closed
        _LOGGER.warning("cannot cancel the runs that %s started (%s: %s)", flow_run_id, type(error).__name__, error)
    for folder in project_and_copies(root):
        if store_of(folder).is_dir():
            lineage.ensure_store(folder)


def _cancel_inner_runs(client: SyncPrefectClient, flow_run_id: str) -> None:
    tagged = FlowRunFilter(tags=FlowRunFilterTags(all_=[started_by(flow_run_id)]))
    cancelled: State[None] = Cancelled(message="The flow run that started it was cancelled.")
    inner = client.read_flow_runs(flow_run_filter=tagged)
    for run in inner:
        stopped = run.state is not None and STOP_WORDS in (run.state.message or "")
        if stopped or run.state_type not in _ENDED:
            client.set_flow_run_state(run.id, cancelled, force=True)
    everyone = FlowRunFilter(id=FlowRunFilterId(any_=[UUID(flow_run_id), *(run.id for run in inner)]))
    running = TaskRunFilter(state=TaskRunFilterState(type=TaskRunFilterStateType(any_=[StateType.RUNNING])))
    for task_run in client.read_task_runs(flow_run_filter=everyone, task_run_filter=running):
        client.set_task_run_state(task_run.id, cancelled, force=True)
