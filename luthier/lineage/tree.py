"""A checkpoint's pedigree: a text tree for a person, JSON for a machine."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from luthier.files import digest_folder
from luthier.lineage.checkpoint import Checkpoint, shorten
from luthier.lineage.figures import family_lines, score_lines, spending_lines
from luthier.lineage.sources import StageFacts, parents, read_stages, upstream

_LABEL = 10


def render_tree(checkpoint: Checkpoint, root: Path, *, width: int = 100) -> str:
    """The checkpoint, its parents and the stages behind them, down to the questions; each stage is told once.

    Args:
        checkpoint: Whose pedigree.
        root: The project's folder, to tell whether the files on disk are still these.
        width: Characters of a line; what is longer goes on below.
    """
    printer = _Printer(root, width)
    printer.add_checkpoint(checkpoint, "", "")
    return "\n".join(printer.lines)


def pedigree_json(checkpoint: Checkpoint) -> str:
    """Everything that a checkpoint holds, its parents within, as indented JSON; digests are whole."""
    return json.dumps(asdict(checkpoint), ensure_ascii=False, indent=2, sort_keys=True)


class _Printer:
    """Collects a tree's lines.

    Attributes:
        root: The project's folder.
        width: Characters of a line.
        now: DVC digest of every stage output today, by path.
        told: Names of the stages that have been printed.
    """

    def __init__(self, root: Path, width: int) -> None:
        self.root, self.width = root, width
        self.now = {out.path: out.md5 for facts in read_stages(root).values() for out in facts.outs}
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
        for label, texts in self._facts(checkpoint):
            self._add_fact(bar, label, texts)
        for index, source in enumerate(sources):
            self._add_stage(source, checkpoint, below, last=index == len(sources) - 1 and not base)
        if base:
            self.lines.append(f"{below}└─ base model  sha256 {shorten(checkpoint.parent_digest)}")

    def _add_fact(self, bar: str, label: str, texts: Sequence[str]) -> None:
        indent = _LABEL if label else 0
        room = max(self.width - len(bar) - indent, 30)
        for text in texts:
            for line in textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False):
                self.lines.append(f"{bar}{label:{indent}}{line}")
                label = ""

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
            self._add_fact(bar, "", [f"{out.path}  {rows}{out.bytes:,} bytes, md5 {shorten(out.md5)}{since}"])
        for index, source in enumerate(sources):
            self._add_stage(source, checkpoint, deeper, last=index == len(sources) - 1)

    def _facts(self, checkpoint: Checkpoint) -> list[tuple[str, list[str]]]:
        folder = self.root / checkpoint.path
        disk = "not on disk"
        if folder.is_dir():
            disk = "same on disk" if digest_folder(folder) == checkpoint.digest else "another on disk today"
        state = f"dirty: {', '.join(checkpoint.changed)}" if checkpoint.changed else "clean"
        if checkpoint.imported:
            state = "imported; the first whose dvc.lock holds it"
        settings = f"params {shorten(checkpoint.params_digest)}, packages {shorten(checkpoint.packages_digest)}"
        return [
            ("files", [f"{checkpoint.path}  sha256 {shorten(checkpoint.digest)} ({disk})"]),
            ("code", [f"commit {checkpoint.commit[:12]} ({state})"]),
            ("settings", [settings]),
            ("seed", [str(checkpoint.seed)]),
            ("target", [checkpoint.target]),
            ("spent", spending_lines(checkpoint.ledger)),
            ("scores", score_lines(checkpoint.scores)),
            ("families", family_lines(checkpoint.scores)),
        ]


def _show_rows(rows: Mapping[str, int]) -> str:
    if len(rows) < 2:
        return "".join(f"{count:,} rows, " for count in rows.values())
    return ", ".join(f"{name} {count:,}" for name, count in sorted(rows.items())) + " rows, "


def _longest_first(stage: StageFacts, stages: Mapping[str, StageFacts]) -> list[StageFacts]:
    """What a stage was made from, the longest history first, so that the tree reads down to the questions."""
    return sorted(parents(stage, stages), key=lambda source: (-len(upstream(source, stages)), source.name))
