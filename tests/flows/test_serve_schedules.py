import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound

from flows.serve_schedules import main, read_deployments
from luthier.errors import InputError

REPOSITORY = Path(__file__).resolve().parents[2]
ONE = "deployments:\n  - {name: x, entrypoint: '%s'}\n"


def test_the_main_job_runs_at_half_past_two_and_the_comparison_when_switched_on() -> None:
    deployments = {f"{item.flow_name}/{item.name}": item for item in read_deployments(REPOSITORY / "prefect.yaml")}
    expected = ["compare/weekly", "evaluate/by-hand", "rebuild/nightly", "train_generator/by-hand"]
    assert sorted(deployments) == expected
    [schedule] = deployments["rebuild/nightly"].schedules or []
    assert schedule.active
    assert deployments["rebuild/nightly"].parameters == {"targets": ["report"]}, "the main job, minutes"
    assert getattr(schedule.schedule, "cron", "") == "30 2 * * *"
    assert not deployments["train_generator/by-hand"].schedules
    assert [item.active for item in deployments["compare/weekly"].schedules or []] == [False], "hours: off"


@pytest.mark.parametrize(
    "entrypoint", ["flows/rebuild.py:rebuilt", "flows/absent.py:rebuild", "", "flows/rebuild.py"], ids=str
)
def test_a_wrong_entrypoint_is_named(tmp_path: Path, entrypoint: str) -> None:
    path = tmp_path / "prefect.yaml"
    path.write_text(ONE % entrypoint)
    with pytest.raises(InputError, match=r"prefect\.yaml: deployment 'x', field entrypoint"):
        read_deployments(path)


@pytest.mark.parametrize("text", ["deployments: [", "{}", "[]"])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prefect.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"prefect\.yaml"):
        read_deployments(path)


def test_without_a_server_it_says_what_to_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    monkeypatch.chdir(REPOSITORY)
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        assert main([]) == 1
    assert "prefect server start" in capsys.readouterr().err


def test_a_dry_run_lists_the_deployments(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert main(["--dry-run"]) == 0
    assert "rebuild/nightly  30 2 * * *" in capsys.readouterr().out.splitlines()


@pytest.mark.slow
def test_serving_registers_the_schedule_and_pauses_it_on_shutdown(prefect_api: str) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "flows.serve_schedules"],
        cwd=REPOSITORY,
        env=os.environ | {"PREFECT_API_URL": prefect_api},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    client = get_client(sync_client=True)
    try:
        for _ in range(300):
            try:
                deployment = client.read_deployment_by_name("rebuild/nightly")
                if deployment.last_polled is not None:  # the runner listens to signals once it polls
                    break
            except ObjectNotFound:
                pass
            time.sleep(0.2)
        else:
            raise AssertionError("the runner never polled for the deployment")
        assert [entry.active for entry in deployment.schedules] == [True]
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    assert client.read_deployment_by_name("rebuild/nightly").paused
