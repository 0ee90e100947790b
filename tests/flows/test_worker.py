"""prefect.yaml as a team uses it: deployed to a real server, run by a real worker of a process work pool."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags, LogFilter, LogFilterFlowRunId
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import PrefectHTTPStatusError
from prefect.states import Cancelling, Scheduled

from flows.cancellation import started_by
from luthier import lineage
from luthier.processes import descendants

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 300
FINAL = (StateType.COMPLETED, StateType.FAILED, StateType.CANCELLED, StateType.CRASHED)

pytestmark = pytest.mark.slow


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.2)


def prefect(project: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def project(shared_project: tuple[Path, pytest.MonkeyPatch], prefect_api: str) -> Path:
    """The toy with this repository's flows, deployed to a server that has a work pool."""
    folder, patch = shared_project
    patch.setenv("PREFECT_API_URL", prefect_api)
    shutil.copytree(REPOSITORY / "flows", folder / "flows", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "prefect.yaml", folder)
    prefect(folder, "work-pool", "create", "luthier", "--type", "process")
    prefect(folder, "deploy", "--all")
    return folder


@pytest.fixture
def client(project: Path) -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as client:
        yield client


@pytest.fixture(scope="module")
def worker(project: Path) -> Iterator[None]:
    """Started elsewhere than in the project's folder, and as a shell starts what runs in its background."""
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "luthier"]
    with (project.parent / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command],
            cwd=project.parent,
            env=os.environ | {"PREFECT_WORKER_QUERY_SECONDS": "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        yield
        process.kill()
        process.wait()


def schedule(client: SyncPrefectClient, name: str, **parameters: object) -> FlowRun:
    deployment = client.read_deployment_by_name(name)
    soon = Scheduled(scheduled_time=datetime.now(UTC) + timedelta(seconds=1))
    return client.create_flow_run_from_deployment(deployment.id, parameters=parameters, state=soon)


def ended(client: SyncPrefectClient, run: FlowRun) -> str:
    until(lambda: client.read_flow_run(run.id).state_type in FINAL, f"the end of {run.name}")
    return str(client.read_flow_run(run.id).state_name)


def inner(client: SyncPrefectClient, run: FlowRun) -> list[FlowRun]:
    tagged = FlowRunFilter(tags=FlowRunFilterTags(all_=[started_by(str(run.id))]))
    return client.read_flow_runs(flow_run_filter=tagged)


def said(client: SyncPrefectClient, run: FlowRun) -> list[str]:
    logs = client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run.id])))
    return [entry.message for entry in logs]


def phase_statuses(project: Path) -> list[str]:
    store = lineage.ensure_store(project)
    experiments = [item.experiment_id for item in store.search_experiments()]
    return [run.info.status for run in store.search_runs(experiments)]


def test_after_a_deployment_to_a_pool_one_process_still_serves(project: Path, client: SyncPrefectClient) -> None:
    with (project.parent / "serve.log").open("wb") as log:
        command = [sys.executable, "-m", "flows.serve_schedules"]
        process = subprocess.Popen(command, cwd=project, stdout=log, stderr=subprocess.STDOUT)
        try:
            polled = "rebuild/nightly"
            until(lambda: client.read_deployment_by_name(polled).last_polled is not None, "the runner")
            assert ended(client, schedule(client, polled, targets=["questions"])) == "Completed"
        finally:
            process.terminate()
            process.wait(60)


def test_what_the_form_does_not_offer_is_refused_before_it_is_scheduled(client: SyncPrefectClient) -> None:
    form = client.read_deployment_by_name("train_generator/by-hand").parameter_openapi_schema
    assert form is not None
    assert form["properties"]["method"]["enum"] == ["mas_architect"]
    assert form["properties"]["phase"]["enum"] == ["all", "sft", "dpo", "reinforce", "evaluate"]
    for wrong in ({"method": "mas_architekt"}, {"method": "mas_architect", "phase": "sf"}):
        with pytest.raises(PrefectHTTPStatusError, match="409"):
            schedule(client, "train_generator/by-hand", **wrong)
    with pytest.raises(PrefectHTTPStatusError, match="409"):
        schedule(client, "evaluate/by-hand", method="gepa")


def test_a_run_fails_is_tried_again_and_completes(project: Path, client: SyncPrefectClient, worker: None) -> None:
    (project / "toy.json").write_text(json.dumps({"fails": "sft", "status": 1}))
    run = schedule(client, "rebuild/nightly", targets=["sft@mas_architect"])
    assert ended(client, run) == "Failed"
    (project / "toy.json").write_text("{}")
    prefect(project, "flow-run", "retry", str(run.id))
    until(lambda: client.read_flow_run(run.id).state_name == "Completed", "the second try")
    assert (project / "models/sft/mas_architect/training.json").exists()
    assert sorted(str(item.state_name) for item in inner(client, run)) == ["Completed", "Failed"]
    until(lambda: "sft starts" in said(client, run), "the stage's line, without a prefix of the inner flow")


def test_a_cancelled_run_leaves_no_process_and_nothing_running(
    project: Path, client: SyncPrefectClient, worker: None
) -> None:
    (project / "toy.json").write_text(json.dumps({"hangs": "sft"}))
    run = schedule(client, "rebuild/nightly", targets=["sft@mas_architect"])
    until(lambda: (project / "pids").exists(), "the trainer")
    assert descendants(str(run.id))
    assert "RUNNING" in phase_statuses(project)
    client.set_flow_run_state(run.id, Cancelling())
    assert ended(client, run) == "Cancelled"
    assert not descendants(str(run.id))
    assert [item.state_name for item in inner(client, run)] == ["Cancelled"]
    until(lambda: not [item for item in client.read_task_runs() if item.state_name == "Running"], "no running task")
    assert {"KILLED", "RUNNING"} & set(phase_statuses(project)) == {"KILLED"}
