"""What a team does with Prefect: a server, a work pool, a worker; a scheduled run, and one that is cancelled.

In a clean copy with profile `smoke`, `prefect.yaml` is deployed to a server of its own. A cron schedule starts the
main job, which must complete. Then the replicas are started and cancelled while a replica trains in its copy: three
flows, two DVC processes and a trainer deep. No process of it may be left, and no record may say that it runs.

    python -m benchmarks.worker           # about ten minutes on two cores
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import Cancelling

from benchmarks.record import record
from benchmarks.workspace import ROOT, copy_project, environment
from flows.copies import project_and_copies
from luthier.lineage import store
from luthier.lineage.sources import read_stages
from luthier.processes import descendants

WORK = ROOT / ".cache" / "worker"
METHOD = "mas_architect"
FINAL = (StateType.COMPLETED, StateType.FAILED, StateType.CANCELLED, StateType.CRASHED)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def service(folder: Path, variables: dict[str, str], *arguments: str) -> Iterator[None]:
    """`prefect <arguments>` beside the work; its output goes to a log beside the copy's files."""
    log = (folder / ".cache" / f"{arguments[0]}.log").open("wb")
    command = [sys.executable, "-m", "prefect", *arguments]
    process = subprocess.Popen(
        command, cwd=folder, env=variables, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()


def until(holds: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for something; the benchmark ends when it never comes."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"never came: {what}; see {WORK / '.cache'}")
        time.sleep(0.5)


def works_in_a_copy(flow_run_id: str, module: str) -> bool:
    """Whether a stage of this flow run works in a copy of the project now."""
    for pid in descendants(flow_run_id):
        try:
            folder = os.readlink(f"/proc/{pid}/cwd")
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if "replicas" in Path(folder).parts and module in command:
            return True
    return False


def runs(client: SyncPrefectClient, name: str) -> list[FlowRun]:
    """All runs of a deployment that a worker took."""
    deployment = client.read_deployment_by_name(name)
    chosen = DeploymentFilter(id=DeploymentFilterId(any_=[deployment.id]))
    return [run for run in client.read_flow_runs(deployment_filter=chosen) if run.start_time is not None]


def scheduled_run_completes(client: SyncPrefectClient, prefect: Callable[..., None]) -> bool:
    """Whether the main job, started by a cron schedule two minutes ahead, ends Completed with its report."""
    soon = datetime.now(UTC) + timedelta(minutes=2)
    prefect("deployment", "schedule", "create", "rebuild/nightly", "--cron", f"{soon.minute} {soon.hour} * * *")
    until(lambda: bool(runs(client, "rebuild/nightly")), 300, "the scheduled run")
    [run] = runs(client, "rebuild/nightly")
    until(lambda: client.read_flow_run(run.id).state_type in FINAL, 3000, "the end of the scheduled run")
    state = client.read_flow_run(run.id).state_name
    print(f"scheduled run: {state}, {(WORK / 'reports' / 'index.html').is_file()=}", file=sys.stderr)
    return state == "Completed" and "report" in read_stages(WORK)


def cancelled_run_leaves_nothing(client: SyncPrefectClient) -> bool:
    """Whether replicas that are cancelled while one of them trains leave no process and nothing that runs."""
    deployment = client.read_deployment_by_name("rebuild/nightly")
    run = client.create_flow_run_from_deployment(deployment.id, parameters={"targets": [f"replicas@{METHOD}"]})
    name = str(run.id)
    until(lambda: works_in_a_copy(name, "stages.sft"), 1800, "a replica that trains")
    print(f"cancelling {len(descendants(name))} processes", file=sys.stderr)
    client.set_flow_run_state(run.id, Cancelling())
    started = time.monotonic()
    until(lambda: client.read_flow_run(run.id).state_type in FINAL, 300, "the end of the cancelled run")
    print(f"ended after {time.monotonic() - started:.0f} s", file=sys.stderr)
    left = len(descendants(name))
    state = client.read_flow_run(run.id).state_name
    time.sleep(5)  # task runs are told through events
    names = [str(item.state_name) for item in client.read_flow_runs()]
    names += [str(item.state_name) for item in client.read_task_runs()]
    models = [status for folder in project_and_copies(WORK) for status in run_statuses(folder)]
    print(f"{state}; processes left: {left}; Prefect: {Counter(names)}; MLflow: {Counter(models)}", file=sys.stderr)
    return state == "Cancelled" and not left and "Running" not in names and "RUNNING" not in models


def run_statuses(folder: Path) -> list[str]:
    """Status of each MLflow run of a project, as it stands in its store."""
    client = store.open_client(store.store_of(folder))
    experiments = [item.experiment_id for item in client.search_experiments()]
    return [str(run.info.status) for run in client.search_runs(experiments)]


def main() -> int:
    """Deploy, wait for the scheduled run, cancel another one, record whether both went well."""
    shutil.rmtree(WORK, ignore_errors=True)
    copy_project(WORK, profile="smoke")
    profile = WORK / "profiles" / "smoke.yaml"
    profile.write_text(profile.read_text().replace("seeds: [17]", "seeds: [17, 18]"))
    port = free_port()
    os.environ["PREFECT_HOME"] = str(WORK / ".cache" / "prefect")
    os.environ["PREFECT_API_URL"] = f"http://127.0.0.1:{port}/api"
    own = {name: value for name, value in os.environ.items() if name.startswith("PREFECT_")}
    variables = environment(WORK) | own | {"PREFECT_WORKER_QUERY_SECONDS": "2"}

    def prefect(*arguments: str) -> None:
        command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
        subprocess.run(command, cwd=WORK, env=variables, check=True, stdout=subprocess.DEVNULL)

    with service(WORK, variables, "server", "start", "--host", "127.0.0.1", "--port", str(port)):
        # By address: Prefect has read its settings when it was imported.
        client = SyncPrefectClient(api=os.environ["PREFECT_API_URL"])
        until(lambda: client.api_healthcheck() is None, 300, "the server")
        prefect("work-pool", "create", "luthier", "--type", "process")
        prefect("deploy", "--all")
        with service(WORK, variables, "worker", "start", "--pool", "luthier"):
            well = [scheduled_run_completes(client, prefect), cancelled_run_leaves_nothing(client)]
    record("seams_worker", float(all(well)), unit="yes/no", n=len(well))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
