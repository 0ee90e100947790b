import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from flows.launch import StageError
from flows.rebuild import StageOutcome, main, plan, rebuild, reproduce, stale_before

WAITING_STAGE = "echo x > out; echo start >> marks; until [ -e go ]; do sleep 0.05; done; echo end >> marks"
REBUILD = "from pathlib import Path; from flows.rebuild import reproduce; reproduce([], root=Path('.'), say=print)"


@pytest.fixture
def waiting_project(project: Path) -> Path:
    """A pipeline of one stage that notes its start, waits for the file `go`, and notes its end."""
    (project / "dvc.yaml").write_text(
        f"stages:\n  waiting:\n    cmd: '{WAITING_STAGE}'\n    always_changed: true\n    outs: [out]\n"
    )
    return project


def start_rebuild(project: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-c", REBUILD], cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def marks(project: Path) -> list[str]:
    path = project / "marks"
    return path.read_text().split() if path.exists() else []


def wait_for_start(project: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if marks(project) == ["start"]:
            return
        time.sleep(0.02)
    raise AssertionError("the stage never started")


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.slow
def test_two_rebuilds_never_overlap_and_the_second_says_so(waiting_project: Path) -> None:
    first = start_rebuild(waiting_project)
    wait_for_start(waiting_project)
    second = start_rebuild(waiting_project)
    assert first_line(second) == f"another rebuild (process {first.pid}) is running; waiting for it to end"
    assert marks(waiting_project) == ["start"]
    (waiting_project / "go").touch()
    outputs = [process.communicate()[0] for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], outputs
    assert marks(waiting_project) == ["start", "end", "start", "end"]


@pytest.mark.slow
def test_the_lock_outlives_a_killed_rebuild_as_long_as_its_dvc(waiting_project: Path) -> None:
    first = start_rebuild(waiting_project)
    wait_for_start(waiting_project)
    first.kill()
    first.communicate()
    second = start_rebuild(waiting_project)
    assert "waiting for it to end" in first_line(second)
    (waiting_project / "go").touch()
    output = second.communicate()[0]
    assert second.returncode == 0, output
    assert marks(waiting_project) == ["start", "end", "start", "end"]


@pytest.mark.slow
def test_an_interrupted_rebuild_leaves_no_process(waiting_project: Path) -> None:
    first = start_rebuild(waiting_project)
    wait_for_start(waiting_project)
    first.send_signal(signal.SIGINT)
    first.communicate()
    assert first.returncode != 0
    (waiting_project / "go").touch()
    time.sleep(0.5)
    assert marks(waiting_project) == ["start"]


@pytest.mark.slow
def test_the_plan_follows_a_change_downstream(project: Path) -> None:
    everything = ["questions", "sft@mas_architect", "reinforce@mas_architect", "evaluate@mas_architect"]
    assert plan([], root=project) == everything
    assert plan(["sft@mas_architect"], root=project) == ["questions", "sft@mas_architect"]


def test_a_dry_run_prints_the_plan_with_forecasts_and_runs_nothing(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--dry-run", "sft@mas_architect"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "questions would run",
        "  forecast of questions",
        "sft@mas_architect would run",
        "  forecast of sft mas_architect",
    ]
    assert not (project / "data").exists()


def test_a_failing_stage_is_named_with_its_own_status(project: Path) -> None:
    (project / "toy.json").write_text(json.dumps({"fails": "questions", "status": 75}))
    with pytest.raises(StageError, match=r"dvc repro, stage questions: ended with status 75.*server") as caught:
        reproduce(["questions"], root=project, say=print)
    assert caught.value.status == 75


@pytest.mark.slow
def test_stages_before_are_checked_unless_dvc_did(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stale_before("sft@mas_architect", root=project) == ["questions"]
    reproduce(["questions"], root=project, say=print)
    assert stale_before("sft@mas_architect", root=project) == []
    monkeypatch.setenv("DVC_STAGE", "sft@mas_architect")
    assert stale_before("reinforce@mas_architect", root=project) == []


@pytest.mark.slow
def test_the_flow_reports_what_ran(project: Path, prefect_api: str) -> None:
    from prefect.artifacts import Artifact

    assert rebuild(["questions"]) == [StageOutcome("questions", "run")]
    assert rebuild(["questions"]) == [StageOutcome("questions", "unchanged")]
    artifact = Artifact.get("rebuild")
    assert artifact is not None
    assert json.loads(str(artifact.data)) == [{"stage": "questions", "outcome": "unchanged"}]


@pytest.mark.slow
def test_the_flow_needs_no_server(project: Path, toy: ModuleType, tmp_path: Path) -> None:
    environment = toy.environment() | {"PREFECT_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-m", "flows.rebuild", "questions"],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "questions starts" in done.stderr  # the stage's line, in the flow run's log
    assert "database is locked" not in done.stderr
    assert (project / "data/questions/train.jsonl").exists()
