from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OF_DSPY = {"dspy_engine", "dspy_letters", "dspy_peers"}
OTHERS = sorted({path.stem for path in (ROOT / "benchmarks").glob("*.py")} - OF_DSPY)


def imported_without(package: str, *names: str) -> subprocess.CompletedProcess[str]:
    """Benchmarks imported by a process in which this package is not installed."""
    start = f"import sys; sys.modules[{package!r}] = None; import " + ", ".join(f"benchmarks.{name}" for name in names)
    return subprocess.run([sys.executable, "-c", start], cwd=ROOT, capture_output=True, text=True)


def test_only_the_benchmark_beside_dspy_needs_it() -> None:
    started = imported_without("dspy", *OTHERS)
    assert started.returncode == 0, started.stderr


@pytest.mark.parametrize(
    ("name", "package", "extra"), [("dspy_peers", "dspy", "dspy"), ("gepa_vs_gepa", "gepa", "search")]
)
def test_an_extra_that_is_not_installed_is_named_in_one_line(name: str, package: str, extra: str) -> None:
    started = imported_without(package, name)
    assert started.returncode == 1
    assert started.stderr == f"benchmarks.{name} needs the extra {extra}: pip install 'luthier[{extra}]'\n"


@pytest.mark.extras
def test_the_program_of_dspy_is_the_one_that_is_written_out() -> None:
    pytest.importorskip("dspy", reason="the extra dspy is not installed")
    from benchmarks.dspy_letters import Program
    from benchmarks.letters import PROGRAM
    from luthier.harnesses.program.dspy_bridge import from_dspy

    assert from_dspy(Program(), PROGRAM.wiring, style="raw") == PROGRAM
