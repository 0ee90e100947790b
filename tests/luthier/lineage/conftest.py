"""A repository with an MLflow store, and the toy pipeline built once by DVC for all tests of this folder."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

METHODS = "profile: smoke\nseed: 3\nmethods: [broken, contest, dirty, facts, named, near]\n"


@pytest.fixture(scope="session")
def toy() -> ModuleType:
    """Helpers shared with the tests of the flows."""
    spec = importlib.util.spec_from_file_location("toy_pipeline", Path(__file__).parents[1] / "toy_pipeline.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def project(toy: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with parameters, an empty pipeline and a first run's store; tests name their own methods."""
    folder: Path = toy.make_repository(
        tmp_path_factory.mktemp("project") / "p", {"params.yaml": METHODS, "dvc.yaml": toy.DVC_YAML}
    )
    return folder


@pytest.fixture(scope="session")
def built(toy: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy pipeline after `dvc repro` of all but its last stage, committed."""
    files = {"params.yaml": toy.PARAMS, "dvc.yaml": toy.DVC_YAML, "make.py": toy.MAKE}
    folder: Path = toy.make_repository(tmp_path_factory.mktemp("built") / "p", files)
    toy.dvc(folder, "repro", "-q", toy.BUILT)
    toy.commit(folder, "Build")
    return folder
