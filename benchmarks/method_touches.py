"""How many files a new method touches beside its own, the list of methods, the pipeline file and the profile: none.

The example of docs/adding-a-method.md is added to a copy of the project as the page says, and the copy's own stages
read it: its code is digested, its phases are in the pipeline, its settings are checked.

    python -m benchmarks.method_touches           # seconds
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.record import record
from benchmarks.workspace import ROOT, copy_project, environment

PAGE = ROOT / "docs" / "adding-a-method.md"
NAME = "cheapest"
OWN = Path("luthier/methods") / f"{NAME}.py"
LIST, PHASES, PROFILE = Path("luthier/methods/__init__.py"), Path("pipeline.yaml"), Path("profiles/smoke.yaml")


def blocks(language: str) -> list[str]:
    """The fenced blocks of the page in one language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def add_method(folder: Path) -> None:
    """Follow the page in a copy of the project."""
    (code,) = blocks("python")
    phases, section = blocks("yaml")
    (folder / OWN).write_text(code, encoding="utf-8")
    listed = (folder / LIST).read_text(encoding="utf-8")
    listed = listed.replace("import bootstrap, gepa", f"import bootstrap, {NAME}, gepa")
    (folder / LIST).write_text(listed.replace("    gepa.METHOD,\n", f"    gepa.METHOD,\n    {NAME}.METHOD,\n"), "utf-8")
    kept = (folder / PHASES).read_text(encoding="utf-8")
    for line in phases.splitlines()[1:]:
        stage = line.split(":")[0]
        kept = re.sub(rf"^{stage}:.*$", line, kept, flags=re.MULTILINE)
    (folder / PHASES).write_text(kept, encoding="utf-8")
    with (folder / PROFILE).open("a", encoding="utf-8") as profile:
        profile.write(section)


def touched(folder: Path) -> set[str]:
    """Files of a copy that differ from its last commit."""
    told = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {line[3:] for line in told.splitlines()}


def main() -> int:
    """Add the example to a clean copy, let its stages read it, record the number of other files touched."""
    with tempfile.TemporaryDirectory(prefix="luthier-touches-") as name:
        folder = copy_project(Path(name) / "copy", profile="smoke")
        add_method(folder)
        others = touched(folder) - {str(path) for path in (OWN, LIST, PHASES, PROFILE)}
        told = subprocess.run(
            [sys.executable, "-m", "stages.code"], cwd=folder, env=environment(folder), capture_output=True, text=True
        )
        works = told.returncode == 0 and (folder / f"data/code/evaluate/{NAME}.json").is_file()
    print(f"other files: {sorted(others) or 'none'}; {'works' if works else told.stderr}", file=sys.stderr)
    record("method_touches", float(len(others)), unit="other files", n=1)
    return int(bool(others) or not works)


if __name__ == "__main__":
    raise SystemExit(main())
