import importlib.util
import shutil
from pathlib import Path

import pytest

from luthier.report.sections.data import read_report_data
from luthier.settings.load import load_params


def load(name):
    """A helper module of this folder; the tests are no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def builder():
    return load("project_folder")


@pytest.fixture(scope="session")
def read_page():
    """Page text -> what a browser sees in it."""
    return load("page_reader").PageReader


@pytest.fixture(scope="session")
def project(builder, tmp_path_factory):
    """A whole project folder, shared: read it only."""
    return builder.build(tmp_path_factory.mktemp("project"))


@pytest.fixture
def copy(project, tmp_path):
    """A project folder to break."""
    return Path(shutil.copytree(project, tmp_path / "copy"))


@pytest.fixture(scope="session")
def params(project):
    return load_params(project)


@pytest.fixture(scope="session")
def data(project):
    return read_report_data(project, ["mas_architect"])
