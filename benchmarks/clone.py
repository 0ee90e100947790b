"""Push, clone, pull in an empty folder: everything is up to date there, has its pedigree, and can be built again.

A clean copy with profile `smoke` is built up to the report, committed and pushed to a local folder as DVC remote. A
clone without caches, MLflow store or prepared weights pulls it. Then `dvc status` must have nothing to say of the
report and all before it, the report must be the same file, `luthier lineage` must reach the questions, and
`luthier verify` must build the checkpoint after SFT again, identical.

    python -m benchmarks.clone                  # about ten minutes on two cores
    python -m benchmarks.clone --built FOLDER   # with a copy that is built and committed already
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.record import record
from benchmarks.workspace import ROOT, copy_project, environment, repro

WORK = ROOT / ".cache" / "clone"
METHOD = "mas_architect"


def build(folder: Path, profile: str) -> Path:
    """A copy of the project, built up to the report and committed.

    Raises:
        SystemExit: the build failed.
    """
    copy_project(folder, profile=profile)
    if repro(folder, "report").returncode:
        raise SystemExit(f"the build failed; see {folder / '.cache' / 'repro.log'}")
    say(folder, "git", "add", "--all")
    say(folder, "git", "-c", "user.name=luthier", "-c", "user.email=luthier@localhost", "commit", "-q", "-m", "Build")
    return folder


def push_and_clone(built: Path, folder: Path) -> Path:
    """The clone, after a push to `folder`/remote and a pull from there."""
    for place in (built, folder / "clone"):
        if place != built:
            say(folder, "git", "clone", "-q", str(built), str(place))
        say(place, "dvc", "remote", "add", "--local", "-f", "-d", "near", str(folder / "remote"))
        say(place, "dvc", *(("push", "-q") if place == built else ("pull", "-q", "--allow-missing")))
    return folder / "clone"


def faults(built: Path, clone: Path) -> list[str]:
    """What a user of the clone would miss, one line each."""
    found = []
    status = say(clone, "dvc", "status", "--with-deps", "report")
    if "up to date" not in status:
        found.append(f"dvc status: {status}")
    page = Path("reports/index.html")
    if not (clone / page).is_file() or (clone / page).read_bytes() != (built / page).read_bytes():
        found.append(f"{page} did not come")
    shown = say(clone, "luthier", "lineage", f"{METHOD}/reinforce")
    missing = [name for name in ("sft", "teach@", "grid", "questions", "base model", "scores") if name not in shown]
    if missing:
        found.append(f"luthier lineage shows no {', '.join(missing)}")
    if not say(clone, "luthier", "verify", f"{METHOD}/sft").rstrip().endswith("identical"):
        found.append("luthier verify finds a difference")
    return found


def say(folder: Path, *command: str) -> str:
    """What a command prints; a failing one says so at the end."""
    done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False)
    return done.stdout + (f"{done.stderr}\n{command[0]} ended with {done.returncode}" if done.returncode else "")


def main(argv: Sequence[str] | None = None) -> int:
    """Build, push, clone, pull, look; record whether everything is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="smoke")
    parser.add_argument("--built", type=Path, help="a copy that is built and committed already")
    arguments = parser.parse_args(argv)
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    built = arguments.built.resolve() if arguments.built else build(WORK / "built", arguments.profile)
    found = faults(built, push_and_clone(built, WORK))
    print("\n".join(found) or "the clone has everything")
    record("seams_clone", float(not found), unit="yes/no", n=4)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
