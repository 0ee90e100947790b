import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mlflow.entities import Run
from prefect import flow, runtime
from prefect.artifacts import Artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags
from prefect.states import Cancelled, Failed, Running

from flows import copies
from flows.cancellation import end_children, started_by
from flows.evaluate import evaluate
from flows.launch import STOPPED, TRY_AGAIN, StageError, launch
from flows.train_generator import main, may_help, patient_stage, train_generator
from luthier import lineage
from luthier.errors import InputError
from luthier.files import write_json
from luthier.lineage import read_scores
from luthier.lineage.store import experiment_ids
from luthier.process_owner import is_alive, owner_of
from luthier.processes import STARTED_BY


def tell(project: Path, **settings: object) -> None:
    (project / "toy.json").write_text(json.dumps(settings))


def table(key: str) -> list[dict[str, str]]:
    artifact = Artifact.get(key)
    assert artifact is not None
    rows: list[dict[str, str]] = json.loads(str(artifact.data))
    return rows


def runs(project: Path, phase: str) -> list[Run]:
    client = lineage.ensure_store(project)
    return list(client.search_runs(experiment_ids(client), f"tags.phase = '{phase}'"))


def wait_for_pids(project: Path) -> list[int]:
    for _ in range(3000):
        path = project / "pids"
        if path.exists() and len(path.read_text().split()) == 2:
            return [int(pid) for pid in path.read_text().split()]
        time.sleep(0.02)
    raise AssertionError("the trainer never started")


def run_statuses(project: Path) -> list[str]:
    """Status of each MLflow run of phase *sft*."""
    return [run.info.status for run in runs(project, "sft")]


@pytest.mark.slow
def test_a_phase_is_recorded_with_its_artifact(project: Path, prefect_api: str) -> None:
    said = train_generator("mas_architect", "sft", allow_dirty=True)
    checkpoint = lineage.find("mas_architect/sft", root=project)
    assert checkpoint.model_id in said
    run = lineage.ensure_store(project).get_run(checkpoint.run_id)
    assert run.data.metrics["reward"] == 1.0
    assert run.data.tags["dvc.dirty"] == "true"
    artifact = Artifact.get("sft")
    assert artifact is not None
    assert artifact.flow_run_id is not None
    assert run.data.tags["prefect.flow_run_id"] == str(artifact.flow_run_id)
    assert f"/runs/{checkpoint.run_id}" in str(artifact.data)


@pytest.mark.slow
def test_training_on_an_out_of_date_pipeline_is_refused_in_one_message(
    project: Path, prefect_api: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--method", "mas_architect", "--phase", "sft"]) == 1
    printed = capsys.readouterr().err
    assert "out of date: questions. Fix: run `dvc repro sft@mas_architect`" in printed
    assert "Traceback" not in printed
    assert not (project / "models").exists()


@pytest.mark.slow
def test_a_failed_stage_fails_its_run_and_is_not_tried_again(project: Path, prefect_api: str) -> None:
    tell(project, fails="sft", status=1)
    with pytest.raises(StageError, match=r"stages\.sft.*status 1"):
        train_generator("mas_architect", "sft", allow_dirty=True)
    [run] = runs(project, "sft")
    assert run.info.status == "FAILED"
    assert "StageError" in run.data.tags["luthier.problem"]
    assert (project / "attempts").read_text() == "x"


@pytest.mark.slow
def test_all_phases_then_promotion_by_validation(project: Path, prefect_api: str) -> None:
    assert train_generator("mas_architect").startswith("promoted: the candidate is the champion (first champion")
    first = lineage.find("mas_architect@champion", root=project)
    assert first.phase == "reinforce"
    assert first.parent is not None
    assert first.parent.phase == "sft"
    assert first.scores["validation.score"] == 0.5
    assert first.scores["test.family.gcd"] == 0.5
    rows = table("train-generator")
    assert [row["checkpoint"] for row in rows] == ["sft", "reinforce"]
    assert rows[1]["validation.score"] == "0.5000"
    assert rows[1]["mlflow"].endswith(first.run_id)
    assert train_generator("mas_architect").startswith("not promoted: the candidate is the champion")
    tell(project, weights="worse", score=0.3)
    assert "0.3000 does not beat the champion's 0.5000" in train_generator("mas_architect")
    assert lineage.find("mas_architect@champion", root=project).model_id == first.model_id
    assert lineage.find("mas_architect@candidate", root=project).model_id != first.model_id
    assert [item.score for item in evaluate("mas_architect") if item.phase == "reinforce"] == [0.3, 0.3]


@pytest.mark.slow
def test_no_run_shows_the_score_of_another_checkpoint(project: Path, prefect_api: str) -> None:
    train_generator("mas_architect")
    client = lineage.ensure_store(project)
    expected = {"sft": 0.4, "reinforce": 0.5}
    evaluations = {run.data.params["checkpoint"]: run for run in runs(project, "evaluate")}
    for phase, score in expected.items():
        checkpoint = lineage.find(f"mas_architect/{phase}", root=project)
        for run in (evaluations[phase], client.get_run(checkpoint.run_id)):
            assert run.data.metrics["test/score"] == score
            assert run.data.metrics["test/score.low"] == pytest.approx(score - 0.1)
        inputs = client.get_run(evaluations[phase].info.run_id).inputs
        assert [item.model_id for item in inputs.model_inputs] == [checkpoint.model_id]
        names = {item.dataset.name for item in inputs.dataset_inputs}
        assert names == {"data/questions/validation.jsonl", "data/questions/test.jsonl"}
    [pipeline] = {run.data.tags["mlflow.parentRunId"] for run in evaluations.values()}
    assert client.get_run(pipeline).data.metrics["test/score"] == expected["reinforce"]
    check_pages(project)


def check_pages(project: Path) -> None:
    """Every page says what a person looks for."""
    client = lineage.ensure_store(project)
    checkpoint = lineage.find("mas_architect@champion", root=project)
    run, model = client.get_run(checkpoint.run_id), client.get_logged_model(checkpoint.model_id)
    pipeline = client.get_run(run.data.tags["mlflow.parentRunId"])
    assert run.info.experiment_id == pipeline.info.experiment_id, "MLflow nests runs of one experiment only"
    assert run.data.params == {"method": "mas_architect", "phase": "reinforce", "seed": "1", "steps": "2"}
    for shown in (run.data.tags, pipeline.data.tags, model.tags):
        assert shown["mlflow.source.name"].startswith("dvc repro")
        assert "commit `" in shown["mlflow.note.content"]
    assert "`models/reinforce/mas_architect`" in model.tags["mlflow.note.content"]
    version = client.get_model_version_by_alias("mas_architect", "champion")
    assert json.loads(model.tags["mlflow.modelVersions"]) == [{"name": "mas_architect", "version": version.version}]
    assert "`models/reinforce/mas_architect`" in version.description
    assert "candidate" in client.get_registered_model("mas_architect").description
    assert {item.path for item in client.list_artifacts(run.info.run_id)} >= {"params.yaml", "training.json"}
    assert [output.model_id for output in run.outputs.model_outputs] == [checkpoint.model_id]


@pytest.mark.slow
def test_a_cancelled_flow_leaves_no_process(project: Path, prefect_api: str) -> None:
    tell(project, hangs="sft")
    environment = os.environ | {"PREFECT_API_URL": prefect_api}
    command = [
        sys.executable,
        "-m",
        "flows.train_generator",
        "--method",
        "mas_architect",
        "--phase",
        "sft",
        "--allow-dirty",
    ]
    trainer = subprocess.Popen(
        command, cwd=project, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    owners = [owner_of(pid) for pid in wait_for_pids(project)]
    trainer.send_signal(signal.SIGTERM)  # what Prefect sends on cancellation
    assert trainer.wait(60) != 0
    assert not any(is_alive(owner) for owner in owners)
    assert run_statuses(project) == ["KILLED"]


@pytest.mark.slow
def test_the_cancellation_hook_ends_and_records_what_a_dead_flow_left(project: Path, prefect_api: str) -> None:
    tell(project, hangs="sft")
    client = get_client(sync_client=True)
    outer = client.create_flow_run(train_generator, state=Running())
    environment = os.environ | {"PREFECT_API_URL": prefect_api, STARTED_BY: str(outer.id)}
    command = [sys.executable, "-m", "flows.train_generator", "--method", "mas_architect", "--phase", "sft"]
    trainer = subprocess.Popen([*command, "--allow-dirty"], cwd=project, env=environment, stderr=subprocess.DEVNULL)
    owners = [owner_of(pid) for pid in wait_for_pids(project)]
    trainer.kill()
    trainer.wait()
    assert all(is_alive(owner) for owner in owners)
    end_children(train_generator, outer, Cancelled())
    assert not any(is_alive(owner) for owner in owners)
    tagged = FlowRunFilter(tags=FlowRunFilterTags(all_=[started_by(str(outer.id))]))
    assert [run.state_name for run in client.read_flow_runs(flow_run_filter=tagged)] == ["Cancelled"]
    assert run_statuses(project) == ["KILLED"]
    end_children(train_generator, outer, Cancelled())  # nothing left to do


def test_only_a_failed_server_is_tried_again() -> None:
    def state(status: int) -> Failed:
        return Failed(data=StageError("stages.evaluate", status))

    assert may_help(None, None, state(TRY_AGAIN))
    assert not may_help(None, None, state(1))
    assert not may_help(None, None, state(STOPPED))


@pytest.mark.slow
@pytest.mark.parametrize(("status", "attempts"), [(TRY_AGAIN, "xxx"), (1, "x")])
def test_an_evaluation_is_tried_again_when_its_server_failed(
    project: Path, prefect_api: str, status: int, attempts: str
) -> None:
    tell(project, fails="evaluate", status=status)

    @flow
    def evaluation() -> None:
        patient_stage.with_options(retry_delay_seconds=0)("mas_architect", "evaluate")

    with pytest.raises(StageError):
        evaluation()
    assert (project / "attempts").read_text() == attempts


def test_a_stage_that_was_stopped_did_not_fail(project: Path) -> None:
    stops = [STOPPED, 130, 143, -signal.SIGINT, -signal.SIGTERM]
    assert all(StageError("stages.sft", status).stopped for status in stops)
    assert not any(StageError("stages.sft", status).stopped for status in (1, TRY_AGAIN, -signal.SIGKILL))
    with pytest.raises(StageError, match="stopped on request"), lineage.start_phase("sft", "m") as run:
        raise StageError("stages.sft", STOPPED)
    assert lineage.ensure_store(project).get_run(run.run_id).info.status == "KILLED"


def test_a_phase_forecasts_without_running(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--method", "mas_architect", "--phase", "sft", "--dry-run"]) == 0
    assert capsys.readouterr().out == "forecast of sft mas_architect\n"
    assert not (project / "models").exists()


def test_a_stage_finds_this_interpreter_and_its_packages(project: Path) -> None:
    lines: list[str] = []
    status = launch(
        ["-c", "import subprocess; subprocess.run(['python', '-c', 'import sys; print(sys.prefix)'])"],
        root=project,
        say=lines.append,
    )
    assert (status, lines) == (0, [sys.prefix])


@pytest.mark.parametrize(
    "broken", ["{}", '{"validation": {"sft": {}}, "test": {}}', "[", '{"validation": 3, "test": 3}']
)
def test_broken_scores_name_their_file(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "scores.json"
    path.write_text(broken)
    with pytest.raises(InputError, match=r"scores\.json.*run the stage evaluate"):
        read_scores(path)


def test_scores_are_read(tmp_path: Path) -> None:
    tables = {phase: {"pooled": {"mean": 0.5, "low": 0.4, "high": 0.6}} for phase in ("sft", "reinforce")}
    write_json(tmp_path / "scores.json", {"validation": tables, "test": tables})
    assert read_scores(tmp_path / "scores.json")["test"]["sft"]["pooled"]["low"] == 0.4


@pytest.mark.slow
def test_a_flow_in_a_copy_reports_to_the_same_server_under_one_prefix(
    project: Path, prefect_api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "me:secret")
    monkeypatch.setenv("PREFECT__FLOW_ENTRYPOINT", "flows/outer.py:outer")
    lines: list[str] = []
    script = "import json, os; print(json.dumps({**os.environ}))"

    @flow
    def outer() -> str:
        launch(["-c", script], root=project, say=lines.append, environment=copies.environment(project))
        return str(runtime.flow_run.id)

    flow_run_id = outer()
    found = json.loads(lines[0])
    assert found["PREFECT_API_URL"].rstrip("/") == prefect_api.rstrip("/")
    assert found["PREFECT_API_AUTH_STRING"] == "me:secret"
    assert found["PREFECT_LOGGING_FORMATTERS_STANDARD_FLOW_RUN_FMT"] == "%(message)s"
    assert found[STARTED_BY].split()[-1] == flow_run_id
    assert "PREFECT__FLOW_ENTRYPOINT" not in found
