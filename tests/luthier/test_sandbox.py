import platform
import shutil
import warnings
from pathlib import Path

import pytest

from luthier import sandboxes as contract
from luthier.errors import InputError, SandboxError
from luthier.sandbox import SandboxLimits
from luthier.sandboxes import open_sandbox


@pytest.fixture
def forgotten_checks():
    """Each test meets a process that has checked nothing yet, and leaves it so."""
    for remembered in (contract._first_that_holds, contract._checked):
        remembered.cache_clear()
    yield
    for remembered in (contract._first_that_holds, contract._checked):
        remembered.cache_clear()


@pytest.fixture
def landlock_holds(forgotten_checks):
    try:
        open_sandbox("landlock")
    except SandboxError as error:
        pytest.skip(f"Landlock is not usable here: {error.problem}")


def test_bubblewrap_comes_first_and_without_a_warning(forgotten_checks):
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_sandbox().name == "bubblewrap"


def test_an_opened_sandbox_is_probed_once_per_process(forgotten_checks):
    assert open_sandbox() is open_sandbox()


def test_a_missing_bubblewrap_selects_landlock_visibly(landlock_holds, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda tool, path=None: None)
    with pytest.warns(RuntimeWarning, match=r"bwrap is not installed.*Landlock"):
        assert open_sandbox().name == "landlock"


def test_blocked_user_namespaces_select_landlock_visibly(landlock_holds, monkeypatch, tmp_path: Path):
    blocked = tmp_path / "bwrap"
    blocked.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    blocked.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda tool, path=None: str(blocked))
    with pytest.warns(RuntimeWarning, match=r"No permissions to create new namespace.*Landlock"):
        assert open_sandbox().name == "landlock"


def test_without_any_fence_nothing_runs_and_the_fix_is_named(forgotten_checks, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(SandboxError, match=r"riscv64.*apt-get install -y bubblewrap"):
        open_sandbox()


def test_a_sandbox_asked_for_by_name_is_not_replaced(forgotten_checks, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda tool, path=None: None)
    with pytest.raises(SandboxError, match="bwrap is not installed"):
        open_sandbox("bubblewrap")


def test_an_unknown_sandbox_is_an_input_error():
    with pytest.raises(InputError, match=r"'docker' is unknown.*bubblewrap, landlock"):
        open_sandbox("docker")


@pytest.mark.parametrize("field", ["seconds", "memory_bytes", "output_bytes", "processes"])
def test_a_limit_that_is_not_positive_is_refused(field):
    with pytest.raises(InputError, match=f"field {field}: 0"):
        SandboxLimits(**{field: 0})
