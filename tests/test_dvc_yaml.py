"""What every stage of `dvc.yaml` keeps to."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from luthier.methods import check_phases
from luthier.settings.load import CompareParams, read_phases

ROOT = Path(__file__).resolve().parents[1]
PIPELINE = yaml.safe_load((ROOT / "dvc.yaml").read_text())
STAGES: dict[str, Any] = {name: stage.get("do", stage) for name, stage in PIPELINE["stages"].items()}
EACH = {
    name: stage["foreach"].removeprefix("${phases.").removesuffix("}")
    for name, stage in PIPELINE["stages"].items()
    if "foreach" in stage
}
PHASES = read_phases(ROOT)


def profile_fields(stage: dict[str, Any]) -> list[str]:
    items = [item for item in stage.get("params", []) if isinstance(item, dict)]
    return [field for item in items for file, fields in item.items() if "profile" in file for field in fields]


@pytest.mark.parametrize("path", sorted((ROOT / "profiles").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_profile_states_each_setting_that_a_stage_depends_on(path):
    """DVC takes no default for one that is missing."""
    profile = yaml.safe_load(path.read_text())
    checked = 0
    for name, stage in STAGES.items():
        for method in PHASES[EACH.get(name, "evaluate")]:
            for field in profile_fields(stage):
                checked += 1
                section = profile
                for part in field.replace("${item}", method).replace("${key}", method).split("."):
                    assert part in section, f"{name}: {field}"
                    section = section[part]
    assert checked > len(STAGES)


def test_no_setting_stands_both_whole_and_in_part():
    """`dvc params diff` would list its values twice."""
    fields = {field for stage in STAGES.values() for field in profile_fields(stage)}
    assert not [(whole, part) for whole in fields for part in fields if part.startswith(f"{whole}.")]


def test_the_comparison_names_each_of_its_settings():
    named = {field.partition(".")[2] for field in profile_fields(STAGES["compare"]) if field.startswith("compare.")}
    assert named == set(CompareParams.model_fields)


def test_every_output_is_kept_by_dvc():
    """Git ignores them all, so what is not cached cannot be compared with a commit or an experiment."""
    assert not [out for stage in STAGES.values() for out in stage["outs"] if not isinstance(out, str)]


def test_nothing_depends_on_what_was_paid_or_on_a_page():
    """They hold seconds, which differ between equal builds."""
    deps = {dep for stage in STAGES.values() for dep in stage.get("deps", [])}
    written = {out for stage in STAGES.values() for out in stage["outs"] if out.startswith("reports/paid")}
    assert len(written) == 2
    assert not [dep for dep in deps if dep.startswith("reports") and not dep.startswith("reports/spending/")]


def test_dvc_shows_a_row_of_metrics_for_each_method():
    assert PIPELINE["metrics"] == ["reports/metrics"]
    assert "reports/metrics" in STAGES["report"]["outs"]


def test_the_phases_are_those_of_the_cards():
    check_phases(PHASES)
    assert {*EACH.values()} == {*PHASES}, "each list is built by a stage"
