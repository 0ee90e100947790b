"""`Verification`: a checkpoint rebuilt in a clean clone and compared file by file."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from luthier.errors import InputError, LuthierError
from luthier.lineage.checkpoint import Checkpoint, file_digests, shorten
from luthier.lineage.sources import LOCK_FILE, PARAMS_FILE, read_stages
from luthier.processes import run_streamed


@dataclass(frozen=True, slots=True)
class Compared:
    """One digest, three times: as recorded, as rebuilt, and on disk ("" where there is none to compare)."""

    name: str
    recorded: str
    rebuilt: str
    on_disk: str

    @property
    def same(self) -> bool:
        """Whether the rebuild, and the disk where it holds a copy, agree with the record."""
        return self.rebuilt == self.recorded and self.on_disk in ("", self.recorded)


@dataclass(frozen=True, slots=True)
class Verification:
    """What a rebuild in a clean clone gave: upstream stages' outputs first, then the checkpoint's files."""

    model: str
    commit: str
    rows: tuple[Compared, ...]

    @property
    def identical(self) -> bool:
        """Whether every digest agrees."""
        return all(row.same for row in self.rows)

    @property
    def exit_code(self) -> int:
        """0 when identical, else 1."""
        return 0 if self.identical else 1

    def render(self) -> str:
        """A table, one line per digest, and a verdict that names what differs."""
        width = max(len(row.name) for row in self.rows)
        lines = [f"{'':{width}}  {'recorded':14}{'rebuilt':14}{'on disk':14}"]
        for row in self.rows:
            digests = "".join(f"{shorten(d) or '-':14}" for d in (row.recorded, row.rebuilt, row.on_disk))
            lines.append(f"{row.name:{width}}  {digests}{'same' if row.same else 'DIFFERS'}")
        differing = [row.name for row in self.rows if not row.same]
        verdict = "identical" if not differing else f"differs in {', '.join(differing)}"
        return "\n".join([*lines, f"{self.model} rebuilt from commit {self.commit[:12]}: {verdict}"])


def rebuild_and_compare(
    checkpoint: Checkpoint, root: Path, *, settings: Path, say: Callable[[str], None] = lambda line: None
) -> Verification:
    """Clone the recorded commit, `dvc repro` the stages that made the checkpoint, and compare digests.

    The clone starts with no cache and no store, so every question, execution and training step runs again,
    with this interpreter and its packages.

    Args:
        checkpoint: What to rebuild.
        root: The project's folder, whose repository is cloned.
        settings: The `params.yaml` of the training, used when it differed from the commit's (`dvc exp run -S`).
        say: Receives the rebuild's log lines.

    Raises:
        InputError: the code was never committed, or the commit is gone.
        LuthierError: the rebuild failed.
    """
    code = [path for path in checkpoint.changed if path != PARAMS_FILE]
    if code:
        raise InputError(
            f"{checkpoint.model_id} was trained with uncommitted changes in {', '.join(code[:5])}",
            where=f"commit {checkpoint.commit[:12]}",
            fix=f"commit them, run `dvc repro -f {checkpoint.stage}` and verify the new checkpoint",
        )
    with tempfile.TemporaryDirectory(prefix="luthier-verify-") as folder:
        clone = Path(folder) / "clone"
        _clone(root, checkpoint.commit, clone)
        if PARAMS_FILE in checkpoint.changed:
            (clone / PARAMS_FILE).write_bytes(settings.read_bytes())
        _reproduce(checkpoint.stage, clone, say)
        rows = [*_compare_stages(checkpoint, clone), *_compare_files(checkpoint, root, clone)]
    return Verification(f"{checkpoint.method}/{checkpoint.phase} {checkpoint.model_id}", checkpoint.commit, tuple(rows))


def _clone(root: Path, commit: str, clone: Path) -> None:
    environment = _clean_environment(clone)
    for command in (
        ["git", "clone", "--quiet", "--no-checkout", str(root), str(clone)],
        ["git", "-C", str(clone), "fetch", "--quiet", "origin", commit],
        ["git", "-C", str(clone), "checkout", "--quiet", "--detach", commit],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise InputError(
                f"cannot clone commit {commit[:12]} ({done.stderr.strip()})",
                where=str(root),
                fix="fetch the branch that holds it; a commit that was rewritten cannot be rebuilt",
            )


def _reproduce(stage: str, clone: Path, say: Callable[[str], None]) -> None:
    last: list[str] = []

    def keep(line: str) -> None:
        say(line)
        last[:] = [*last, line.strip()][-5:]

    command = [sys.executable, "-m", "dvc", "repro", "--no-run-cache", stage]
    code = run_streamed(command, cwd=clone, environment=_clean_environment(clone), say=keep)
    if code:
        raise LuthierError(
            f"the rebuild ended with exit code {code} ({' | '.join(line for line in last if line)})",
            where=stage,
            fix="correct the cause above; a machine without the same packages cannot rebuild it",
        )


def _clean_environment(clone: Path) -> dict[str, str]:
    """This environment without what ties it to the project it came from, and with the clone's code first."""
    ties = ("GIT_", "DVC_", "MLFLOW_", "PREFECT_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ties)}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    return kept | {
        "PATH": path,
        "PYTHONPATH": str(clone),
        "DVC_NO_ANALYTICS": "1",
        "DVC_SITE_CACHE_DIR": str(clone.parent / "dvc"),
    }


def _compare_stages(checkpoint: Checkpoint, clone: Path) -> list[Compared]:
    rebuilt = {out.path: out.md5 for facts in read_stages(clone).values() for out in facts.outs}
    if not rebuilt:
        raise LuthierError("the rebuild wrote no stage", where=LOCK_FILE, fix="check the recorded commit's dvc.yaml")
    outs = {
        out.path: out.md5 for name, facts in checkpoint.stages.items() if name != checkpoint.stage for out in facts.outs
    }
    return [Compared(path, md5, rebuilt.get(path, ""), "") for path, md5 in sorted(outs.items())]


def _compare_files(checkpoint: Checkpoint, root: Path, clone: Path) -> list[Compared]:
    rebuilt, disk = file_digests(clone / checkpoint.path), file_digests(root / checkpoint.path)
    return [
        Compared(
            f"{checkpoint.path}/{name}",
            checkpoint.files.get(name, ""),
            rebuilt.get(name, ""),
            disk.get(name, "missing") if disk else "",
        )
        for name in sorted({*checkpoint.files, *rebuilt, *disk})
    ]
