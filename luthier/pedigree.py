"""`Checkpoint`: a trained model with everything recorded about where it comes from, and its tree as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from luthier.files import digest_file, digest_folder
from luthier.reading import read_object, shaped
from luthier.revision import StageFacts, parents, read_stages, upstream

TRAINING_FILE = "training.json"


@dataclass(frozen=True, slots=True)
class Training:
    """What a training stage reports beside its weights, in `training.json`.

    Attributes:
        settings: Every setting that the phase used.
        seed: Seed of the training.
        parent: Digest of the parent model's folder.
        inputs: Digest of each input by name; "target" is the frozen target's fingerprint where one was asked.
        curve: One row per logged step: `step` and named numbers (reward, validity, KL, length, loss).
    """

    settings: Mapping[str, Any]
    seed: int
    parent: str
    inputs: Mapping[str, str]
    curve: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A trained model and everything recorded about where it comes from.

    Attributes:
        model_id, run_id, experiment_id: MLflow's ids of the checkpoint, its run and its experiment.
        method, phase, stage: "mas_architect", "sft", "sft@mas_architect".
        aliases: Aliases that point here now.
        path: Its folder, relative to the project.
        digest, files: SHA-256 of the folder, and of each file by name.
        parent, parent_digest: The checkpoint it was trained from; None for a base model, which has a digest only.
        stages: Every DVC stage it was made from, by name, itself included, as recorded at training.
        commit, changed: Code revision, and the paths that differed from it.
        params_digest, packages_digest: SHA-256 of the settings and of the package locks.
        target: Fingerprint of the frozen target ("" where the phase asked none).
        seed: Seed of the training.
        ledger: What the phase spent, by name; None is unknown.
        scores: Scores by name.
        scores_digest: Digest of the evaluation file that they came from ("" before the first).
    """

    model_id: str
    run_id: str
    experiment_id: str
    method: str
    phase: str
    stage: str
    aliases: tuple[str, ...]
    path: str
    digest: str
    files: Mapping[str, str]
    parent: Checkpoint | None
    parent_digest: str
    stages: Mapping[str, StageFacts]
    commit: str
    changed: tuple[str, ...]
    params_digest: str
    packages_digest: str
    target: str
    seed: int
    ledger: Mapping[str, float | None]
    scores: Mapping[str, float]
    scores_digest: str


def read_training(folder: Path) -> Training:
    """Read a model folder's `training.json`.

    Raises:
        InputError: the file is missing, is not JSON, or lacks a field.
    """
    path = folder / TRAINING_FILE
    fix = "run the training stage again"
    row = read_object(path, fix=fix)
    with shaped("not a training record", where=str(path), fix=fix):
        return Training(row["settings"], row["seed"], row["parent"], row["inputs"], row["curve"])


def file_digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file of a folder by its name in it; empty when there is no folder."""
    return {p.relative_to(folder).as_posix(): digest_file(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def render_tree(checkpoint: Checkpoint, root: Path) -> str:
    """The checkpoint, its parents and the stages behind them, down to the questions; each stage is told once."""
    now = {out.path: out.md5 for facts in read_stages(root).values() for out in facts.outs}
    printer = _Printer(root, now)
    printer.add_checkpoint(checkpoint, "", "")
    return "\n".join(printer.lines)


def shorten(digest: str) -> str:
    """The first digits of a digest, enough for a person to compare."""
    return digest[:12]


def show_number(value: float | None) -> str:
    """A ledger number for a person; what is not known is "unknown", never 0."""
    return "unknown" if value is None else f"{value:,.6g}"


class _Printer:
    """Collects a tree's lines.

    Attributes:
        root: The project's folder.
        now: DVC digest of every stage output today, by path.
        told: Names of the stages that have been printed.
    """

    def __init__(self, root: Path, now: Mapping[str, str]) -> None:
        self.root, self.now = root, now
        self.lines: list[str] = []
        self.told: set[str] = set()

    def add_checkpoint(self, checkpoint: Checkpoint, lead: str, below: str) -> None:
        """A checkpoint and all it was made from; `below` starts every line under its first."""
        self.told.add(checkpoint.stage)
        aliases = f"  [{', '.join(checkpoint.aliases)}]" if checkpoint.aliases else ""
        self.lines.append(f"{lead}{checkpoint.method}/{checkpoint.phase}  {checkpoint.model_id}{aliases}")
        sources = _longest_first(checkpoint.stages[checkpoint.stage], checkpoint.stages)
        base = checkpoint.parent is None and bool(checkpoint.parent_digest)
        bar = below + ("│  " if sources or base else "   ")
        self.lines.extend(f"{bar}{label:9} {text}" for label, text in self._facts(checkpoint))
        for index, source in enumerate(sources):
            self._add_stage(source, checkpoint, below, last=index == len(sources) - 1 and not base)
        if base:
            self.lines.append(f"{below}└─ base model  sha256 {shorten(checkpoint.parent_digest)}")

    def _add_stage(self, stage: StageFacts, checkpoint: Checkpoint, below: str, *, last: bool) -> None:
        lead, deeper = (below + "└─ ", below + "   ") if last else (below + "├─ ", below + "│  ")
        if stage.name in self.told:
            self.lines.append(f"{lead}{stage.name}  (told above)")
            return
        if checkpoint.parent is not None and checkpoint.parent.stage == stage.name:
            self.add_checkpoint(checkpoint.parent, lead, deeper)
            return
        self.told.add(stage.name)
        self.lines.append(f"{lead}{stage.name}")
        sources = _longest_first(stage, checkpoint.stages)
        bar = deeper + ("│  " if sources else "   ")
        for out in stage.outs:
            rows = _show_rows(out.rows)
            now = self.now.get(out.path, out.md5)
            since = "" if now == out.md5 else f" (today {shorten(now)})"
            self.lines.append(f"{bar}{out.path}  {rows}{out.bytes:,} bytes, md5 {shorten(out.md5)}{since}")
        for index, source in enumerate(sources):
            self._add_stage(source, checkpoint, deeper, last=index == len(sources) - 1)

    def _facts(self, checkpoint: Checkpoint) -> list[tuple[str, str]]:
        folder = self.root / checkpoint.path
        disk = "not on disk"
        if folder.is_dir():
            disk = "same on disk" if digest_folder(folder) == checkpoint.digest else "another on disk today"
        state = f"dirty: {', '.join(checkpoint.changed)}" if checkpoint.changed else "clean"
        settings = f"params {shorten(checkpoint.params_digest)}, packages {shorten(checkpoint.packages_digest)}"
        facts = [
            ("files", f"{checkpoint.path}  sha256 {shorten(checkpoint.digest)} ({disk})"),
            ("code", f"commit {checkpoint.commit[:12]} ({state})"),
            ("settings", settings),
            ("seed", str(checkpoint.seed)),
            ("target", checkpoint.target),
            ("spent", ", ".join(f"{name} {show_number(value)}" for name, value in sorted(checkpoint.ledger.items()))),
            ("scores", ", ".join(f"{name} {value:.4g}" for name, value in sorted(checkpoint.scores.items()))),
        ]
        return [(label, text) for label, text in facts if text]


def _show_rows(rows: Mapping[str, int]) -> str:
    if len(rows) < 2:
        return "".join(f"{count:,} rows, " for count in rows.values())
    return ", ".join(f"{name} {count:,}" for name, count in sorted(rows.items())) + " rows, "


def _longest_first(stage: StageFacts, stages: Mapping[str, StageFacts]) -> list[StageFacts]:
    """What a stage was made from, the longest history first, so that the tree reads down to the questions."""
    return sorted(parents(stage, stages), key=lambda source: (-len(upstream(source, stages)), source.name))
