import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from luthier import lineage
from luthier.errors import InputError, TargetError
from luthier.ledger.budget import Amount
from luthier.ledger.entries import Line
from luthier.lineage import store
from luthier.lineage.sources import read_stages
from luthier.lineage.tags import ledger_totals
from luthier.target import Request
from luthier.targets.openai import OpenAITarget
from tests.luthier.targets.canned_server import answering, refused


def write_model(project: Path, phase: str, method: str, *, weights: str = "w", parent: str = "base") -> Path:
    folder = project / "models" / phase / method
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_text(weights)
    report = {
        "settings": {"learning_rate": 0.1},
        "seed": 5,
        "parent": parent,
        "inputs": {"target": "target-a"},
        "curve": [{"step": 1, "reward": 0.5}, {"step": 2, "reward": 0.75, "kl": 0.1}],
    }
    (folder / "training.json").write_text(json.dumps(report))
    return folder


def log_model(project: Path, phase: str, method: str, **model: str) -> str:
    with lineage.start_phase(phase, method, root=project) as run:
        return lineage.log_checkpoint(run, write_model(project, phase, method, **model), {"train.target.calls": 3})


def log_validation(project: Path, method: str, model_id: str, score: float, questions: str = "q") -> None:
    file = project / ".cache" / "validation.jsonl"
    file.parent.mkdir(exist_ok=True)
    file.write_text(questions)
    with lineage.start_phase("evaluate", method, root=project) as run:
        lineage.log_scores(run, model_id, "validation", {"score": score}, questions=file)


def test_a_phase_run_nests_under_one_pipeline_run(project: Path) -> None:
    with lineage.start_phase("sft", "m", root=project) as first:
        pass
    with lineage.start_phase("reinforce", "m", root=project) as second:
        pass
    client = lineage.ensure_store(project)
    assert first.pipeline_run_id == second.pipeline_run_id
    for run in (first, second):
        stored = client.get_run(run.run_id)
        assert stored.data.tags["mlflow.parentRunId"] == run.pipeline_run_id
        assert stored.info.experiment_id == client.get_run(run.pipeline_run_id).info.experiment_id
        assert stored.info.status == "FINISHED"
    assert client.get_run(first.pipeline_run_id).info.status == "FINISHED"


def test_curves_are_kept_by_step(project: Path) -> None:
    with lineage.start_phase("sft", "m", root=project) as run:
        lineage.log_curves(run, [{"step": 1, "reward": 0.5}, {"step": 2, "reward": 0.75, "kl": 0.1, "note": "x"}])
    client = lineage.ensure_store(project)
    points = [(point.step, point.value) for point in client.get_metric_history(run.run_id, "reward")]
    assert points == [(1, 0.5), (2, 0.75)]
    assert [point.step for point in client.get_metric_history(run.run_id, "kl")] == [2]


@pytest.mark.parametrize(("error", "status"), [(ValueError("no"), "FAILED"), (KeyboardInterrupt(), "KILLED")])
def test_an_interrupted_phase_ends_its_run(project: Path, error: BaseException, status: str) -> None:
    with pytest.raises(type(error)), lineage.start_phase("sft", "m", root=project) as run:
        raise error
    stored = lineage.ensure_store(project).get_run(run.run_id)
    assert stored.info.status == status
    assert type(error).__name__ in stored.data.tags["luthier.problem"]


def test_a_key_that_a_server_repeats_is_in_no_tag(project: Path) -> None:
    key = "sk-proj-4f9aQxZzQ0b77q"
    with answering(lambda path, body: refused(f"Incorrect API key provided: {key}", 401)) as server:
        target = OpenAITarget(server.url, "smol", api_key=key)
        with pytest.raises(TargetError), lineage.start_phase("evaluate", "m", root=project) as run:
            target.complete([Request("a question")])
        target.close()
    tags = lineage.ensure_store(project).get_run(run.run_id).data.tags
    assert "answered 401 (Incorrect API key provided: [hidden])" in tags["luthier.problem"]
    assert not [name for name, value in tags.items() if key in value]


def test_a_killed_process_leaves_killed_runs(project: Path, toy: ModuleType) -> None:
    script = (
        "import os, signal\nfrom luthier import lineage\n"
        "with lineage.start_phase('sft', 'killed') as run:\n"
        "    print(run.run_id, flush=True)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project, env=toy.environment(), capture_output=True, text=True
    )
    run_id = done.stdout.strip()
    client = store.open_client(project.resolve() / "mlruns")
    assert client.get_run(run_id).info.status == "RUNNING"
    lineage.ensure_store(project)
    assert client.get_run(run_id).info.status == "KILLED"
    pipeline = client.get_run(run_id).data.tags["mlflow.parentRunId"]
    assert client.get_run(pipeline).info.status == "KILLED"


def test_a_checkpoint_knows_its_facts(project: Path, toy: ModuleType) -> None:
    parent_id = log_model(project, "sft", "facts", weights="parent")
    client = lineage.ensure_store(project)
    digest = client.get_logged_model(parent_id).tags["folder.digest"]
    model_id = log_model(project, "reinforce", "facts", weights="child", parent=digest)
    model = client.get_logged_model(model_id)
    head = toy.run(project, "git", "rev-parse", "HEAD").strip()
    assert model.tags["git.commit"] == head
    assert model.tags["git.dirty"] == "false"
    assert model.tags["parent.model_id"] == parent_id
    assert model.tags["target.fingerprint"] == "target-a"
    assert len(model.tags["params.sha"]) == 64
    assert model.tags["lock.sha"] == "none"
    assert json.loads(model.tags["ledger"]) == {"train.target.calls": 3}
    assert model.params == {"learning_rate": "0.1", "seed": "5"}
    checkpoint = lineage.find("facts/reinforce", root=project)
    assert checkpoint.parent is not None
    assert checkpoint.parent.model_id == parent_id
    assert checkpoint.seed == 5
    assert checkpoint.aliases == ("candidate",)


def test_models_are_found_by_name_alias_and_id(project: Path) -> None:
    old = log_model(project, "sft", "named", weights="1")
    new = log_model(project, "sft", "named", weights="2")
    lineage.promote("named", "champion", old, root=project)
    assert lineage.find("named/sft", root=project).model_id == new
    assert lineage.find("named@candidate", root=project).model_id == new
    assert lineage.find("named@champion", root=project).model_id == old
    assert lineage.find(old, root=project).model_id == old


@pytest.mark.parametrize("wrong", ["near/sfd", "naer@candidate", "near@champion"])
def test_an_unknown_model_names_its_neighbours(project: Path, wrong: str) -> None:
    log_model(project, "sft", "near")
    with pytest.raises(InputError, match="near"):
        lineage.find(wrong, root=project)


def test_ledger_lines_become_names_and_unknown_stays_unknown() -> None:
    paid, alone = Amount(1, 2, 30, 4, 0.5, None), Amount(1, 3, 40, 5, 0.75, 2_000_000)
    totals = ledger_totals([Line("train", "target", "m", "reinforce", paid, alone, 3, 1, 0)])
    assert totals["train.target.calls"] == 2
    assert totals["train.target.prompt_tokens"] == 30
    assert totals["train.target.price"] is None
    assert totals["train.target.alone.calls"] == 3
    assert totals["train.target.alone.price"] == pytest.approx(2e-6)


def test_phases_of_one_account_and_role_are_summed() -> None:
    drawn, passes = Amount(0, 8, 20, 50, 1.0, 5), Amount(0, 3, 30, 20, 2.0, None)
    lines = [
        Line("train", "generator", "m", phase, amount, amount, 1, 0, 0)
        for phase, amount in (("reinforce", drawn), ("reinforce update", passes))
    ]
    totals = ledger_totals(lines)
    assert (totals["train.generator.calls"], totals["train.generator.seconds"]) == (11, 3.0)
    assert totals["train.generator.price"] is None, "a part that is unknown makes the sum unknown"


def test_a_checkpoint_is_found_by_its_files(project: Path) -> None:
    model_id = log_model(project, "sft", "named", weights="by files")
    folder = project / "models/sft/named"
    found = lineage.checkpoint_of(folder, root=project)
    assert found is not None
    assert found.model_id == model_id
    (folder / "model.safetensors").write_text("never recorded")
    assert lineage.checkpoint_of(folder, root=project) is None


def test_an_unknown_alias_is_refused(project: Path) -> None:
    with pytest.raises(InputError, match="candidate or champion"):
        lineage.promote("named", "best", "m-1", root=project)


def test_the_champion_falls_only_to_a_better_one_on_equal_terms(project: Path) -> None:
    first = log_model(project, "reinforce", "contest", weights="1")
    assert not lineage.challenge("contest", root=project).promoted  # not scored yet
    log_validation(project, "contest", first, 0.5)
    assert lineage.challenge("contest", root=project).promoted
    equal = log_model(project, "reinforce", "contest", weights="2")
    log_validation(project, "contest", equal, 0.5)
    assert "does not beat" in lineage.challenge("contest", root=project).reason
    elsewhere = log_model(project, "reinforce", "contest", weights="3")
    log_validation(project, "contest", elsewhere, 0.9, questions="others")
    assert "other validation questions" in lineage.challenge("contest", root=project).reason
    assert lineage.find("contest@champion", root=project).model_id == first
    better = log_model(project, "reinforce", "contest", weights="4")
    log_validation(project, "contest", better, 0.6)
    assert lineage.challenge("contest", root=project).promoted
    assert lineage.find("contest@champion", root=project).model_id == better


def test_a_broken_training_report_names_file_and_field(project: Path) -> None:
    folder = write_model(project, "sft", "broken")
    (folder / "training.json").write_text('{"settings": {}}')
    with (
        pytest.raises(InputError, match=r"training\.json.*'seed'"),
        lineage.start_phase("sft", "broken", root=project) as run,
    ):
        lineage.log_checkpoint(run, folder)


@pytest.mark.slow
def test_four_processes_start_on_a_cold_store(tmp_path: Path, toy: ModuleType) -> None:
    project = toy.make_repository(tmp_path / "p", {"params.yaml": toy.PARAMS, "dvc.yaml": toy.DVC_YAML})
    script = (
        "import sys\nfrom luthier import lineage\n"
        "with lineage.start_phase('sft', sys.argv[1]) as run:\n"
        "    lineage.log_curves(run, [{'step': s, 'reward': s} for s in range(20)])\n"
    )
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", script, f"m{number}"], cwd=project, env=toy.environment(), stderr=subprocess.PIPE
        )
        for number in range(4)
    ]
    errors = [worker.communicate()[1].decode() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0, 0], errors
    client = lineage.ensure_store(project)
    runs = client.search_runs(store.experiment_ids(client), "tags.phase = 'sft'")
    assert sorted(run.data.tags["method"] for run in runs) == ["m0", "m1", "m2", "m3"]
    assert {run.data.metrics["reward"] for run in runs} == {19.0}
    assert len({run.data.tags["mlflow.parentRunId"] for run in runs}) == 4
    assert toy.run(project, "git", "status", "--porcelain") == ""  # nothing is written outside mlruns/


@pytest.mark.slow
def test_the_tree_reaches_the_questions(built: Path) -> None:
    text = lineage.tree("mas_architect/reinforce", root=built)
    lines = text.splitlines()
    assert lines[0].startswith("mas_architect/reinforce  m-")
    depth = {}
    for line in lines:
        for name in ("mas_architect/sft", "teach@mas_architect", "grid", "questions", "base model"):
            if line.lstrip("│├└─ ").startswith(name) and name not in depth:
                depth[name] = len(line) - len(line.lstrip("│├└─ "))
    assert 0 < depth["mas_architect/sft"] < depth["teach@mas_architect"] < depth["grid"] < depth["questions"]
    assert depth["base model"] > depth["mas_architect/sft"]
    for fact in (
        "data/questions  test 3, train 5, validation 2 rows",
        "data/grid  15 rows",
        "data/teach/mas_architect  4 rows",
        "same on disk",
        "price unknown",
    ):
        assert fact in text
    run = lineage.ensure_store(built).get_run(lineage.find("mas_architect/reinforce", root=built).run_id)
    assert run.data.tags["dvc.data/grid.md5"] == read_stages(built)["grid"].outs[0].md5
    assert {item.dataset.name for item in run.inputs.dataset_inputs} == {"data/questions", "models/sft/mas_architect"}
    questions = {out.md5 for out in read_stages(built)["questions"].outs}
    assert questions
    assert all(md5[:12] in text for md5 in questions)
    assert "(clean)" in text


@pytest.mark.slow
def test_a_rebuild_is_identical(built: Path) -> None:
    said: list[str] = []
    result = lineage.verify("mas_architect/reinforce", root=built, say=said.append)
    assert result.exit_code == 0
    assert result.render().endswith("identical")
    ran = {line.split("'")[1] for line in said if line.startswith("Running stage")}
    assert ran == {"questions", "grid", "teach@mas_architect", "sft@mas_architect", "reinforce@mas_architect"}


@pytest.mark.slow
def test_every_file_that_differs_is_named(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = built / "models/sft/mas_architect"
    tampered = folder / "training.json"
    before = tampered.read_bytes()
    tampered.unlink()  # DVC's cache may share the file
    tampered.write_text("tampered")
    monkeypatch.setenv("TOY_NOISE", "1")
    try:
        result = lineage.verify("mas_architect/sft", root=built)
    finally:
        tampered.write_bytes(before)
    assert result.exit_code == 1
    differing = {row.name: row for row in result.rows if not row.same}
    assert sorted(differing) == [
        "models/sft/mas_architect/model.safetensors",
        "models/sft/mas_architect/training.json",
    ]
    rebuilt_other, disk_other = (differing[name] for name in sorted(differing))
    assert rebuilt_other.rebuilt != rebuilt_other.recorded == rebuilt_other.on_disk
    assert disk_other.rebuilt == disk_other.recorded != disk_other.on_disk
    assert result.render().count("DIFFERS") == 2


def test_uncommitted_code_cannot_be_verified(project: Path) -> None:
    stray = project / "stray.py"
    stray.write_text("")
    log_model(project, "sft", "dirty")
    stray.unlink()
    with pytest.raises(InputError, match=r"uncommitted changes in stray\.py"):
        lineage.verify("dirty/sft", root=project)


def test_importing_lineage_is_cheap() -> None:
    script = "import sys, luthier.lineage; print(sorted({'mlflow', 'torch', 'prefect', 'dvc'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], env=os.environ, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
