import importlib.util
import json
from pathlib import Path

import pytest

from stages.entry import run_stage
from stages.report import work


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project folder as the earlier stages leave it; the stage runs in it."""
    path = Path(__file__).parents[1] / "luthier/report/project_folder.py"
    spec = importlib.util.spec_from_file_location("project_folder", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.chdir(module.build(tmp_path))
    return tmp_path


def test_the_stage_writes_page_metrics_and_curves(project, capsys):
    assert run_stage("report", work, []) == 0
    metrics = json.loads((project / "reports/figures.json").read_text())
    page = (project / "reports/index.html").read_text()
    assert f"{100 * metrics['mas_architect.reinforce.score']:.1f} %" in page
    assert (project / "reports/curves.csv").read_text().startswith("method,phase,step,loss,reward")
    assert "reports/index.html" in capsys.readouterr().out


def test_a_dry_run_writes_nothing(project):
    assert run_stage("report", work, ["--dry-run"]) == 0
    assert not (project / "reports").exists()


def test_a_missing_input_is_one_message_and_leaves_the_old_page(project, capsys):
    run_stage("report", work, [])
    old = (project / "reports/index.html").read_text()
    (project / "data/evaluate/mas_architect/scores.json").unlink()
    assert run_stage("report", work, []) == 1
    assert "run `dvc repro evaluate`" in capsys.readouterr().err
    assert (project / "reports/index.html").read_text() == old
