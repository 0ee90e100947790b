"""A checkpoint that DVC brought: its pedigree in a clone, and its weights after another build."""

import dataclasses
import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from luthier import lineage
from luthier.errors import InputError
from luthier.lineage.imported import import_checkpoints

pytestmark = pytest.mark.slow
METHOD = "mas_architect"


@pytest.fixture(scope="module")
def clone(built: Path, toy: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Push, clone, pull: another person's folder."""
    folder = tmp_path_factory.mktemp("clone")
    toy.dvc(built, "remote", "add", "--local", "-d", "near", str(folder / "remote"))
    toy.dvc(built, "push", "-q")
    toy.run(folder, "git", "clone", "-q", str(built), "c")
    toy.dvc(folder / "c", "remote", "add", "--local", "-d", "near", str(folder / "remote"))
    toy.dvc(folder / "c", "pull", "-q", "--allow-missing")  # as `make pull`: the stage `later` was never built
    return folder / "c"


def test_a_clone_knows_every_pedigree_and_is_up_to_date(built: Path, clone: Path, toy: ModuleType) -> None:
    assert not (clone / "mlruns").exists()
    text = lineage.tree(f"{METHOD}/reinforce", root=clone)
    for part in (f"{METHOD}/sft", "teach@", "grid", "questions", "base model", "same on disk", "imported"):
        assert part in text
    assert "up to date" in toy.dvc(clone, "status", "--with-deps", toy.BUILT)
    assert toy.run(clone, "git", "status", "--porcelain") == ""


def test_the_imported_record_is_the_first_one(built: Path, clone: Path) -> None:
    for phase in ("sft", "reinforce"):
        here, there = (lineage.find(f"{METHOD}/{phase}", root=root) for root in (clone, built))
        assert here.imported
        assert not there.imported
        for name in ("digest", "files", "md5s", "parent_digest", "seed", "params_digest", "target", "scores"):
            assert getattr(here, name) == getattr(there, name), name
        assert {k: v.outs for k, v in here.stages.items() if k != here.stage} == {
            k: v.outs for k, v in there.stages.items() if k != there.stage
        }
    assert here.aliases == ("candidate",)
    assert here.parent is not None
    assert {name: here.ledger[name] for name in there.ledger} == there.ledger
    client = lineage.ensure_store(clone)
    assert client.get_run(here.run_id).data.metrics["test/score"] == 0.5
    assert [point.step for point in client.get_metric_history(here.run_id, "reward")] == [1, 2, 3]


def test_nothing_is_recorded_twice_or_from_a_changed_folder(clone: Path, tmp_path: Path) -> None:
    lineage.find(f"{METHOD}/sft", root=clone)
    assert import_checkpoints(clone) == []
    copy = Path(shutil.copytree(clone, tmp_path / "c", symlinks=True, ignore=shutil.ignore_patterns("mlruns")))
    weights = copy / "models/sft" / METHOD / "model.safetensors"
    weights.unlink()
    weights.write_text("somebody's own")
    assert [lineage.find(item, root=copy).phase for item in import_checkpoints(copy)] == ["reinforce"]


def test_a_clone_verifies_what_it_never_trained(clone: Path) -> None:
    result = lineage.verify(f"{METHOD}/sft", root=clone)
    assert result.identical, result.render()


def test_a_checkpoint_is_restored_after_another_took_its_folder(built: Path, tmp_path: Path, toy: ModuleType) -> None:
    project = Path(shutil.copytree(built, tmp_path / "p", symlinks=True))
    old = lineage.find(f"{METHOD}/reinforce", root=project)
    assert lineage.weights_of(old, project) == project / old.path
    shutil.rmtree(project / old.path)
    restored = lineage.weights_of(old, project)
    assert restored == lineage.weights_of(old, project)
    assert {path.name for path in restored.iterdir()} == set(old.files)
    shutil.rmtree(restored)
    shutil.rmtree(project / ".dvc/cache")
    with pytest.raises(InputError, match=r"DVC's cache lacks .*git checkout .* dvc\.lock"):
        lineage.weights_of(old, project)
    with pytest.raises(InputError, match="an old record"):
        lineage.weights_of(dataclasses.replace(old, md5s={}), project)


def test_the_pedigree_of_a_machine_is_whole(clone: Path) -> None:
    row = json.loads(lineage.to_json(f"{METHOD}/reinforce", root=clone))
    assert row["parent"]["phase"] == "sft"
    assert len(row["digest"]) == 64
    assert row["stages"]["grid"]["outs"][0]["rows"] == {"executions": 15}
    assert row["scores"]["test.score"] == 0.5
