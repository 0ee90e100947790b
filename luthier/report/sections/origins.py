"""Lineage: from each checkpoint back to the questions, with digests, and whether the files on disk still fit them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from luthier import lineage
from luthier.errors import LuthierError
from luthier.files import digest_file, digest_folder
from luthier.lineage.sources import Output, read_params, read_stages
from luthier.method import TRAINING
from luthier.report.html.markup import Html, element, join
from luthier.report.html.numbers import NONE, count, short
from luthier.report.html.tables import Column, cell, code, folded, note, number, row, section, table
from luthier.report.sections.data import MethodData, TrainingRecord
from luthier.settings.load import PARAMS_FILE

__all__ = ["Link", "links", "origins"]

_ELSEWHERE = defaultdict(str, parent="the base model", target="the frozen model")
_STORE = Path("mlruns/mlflow.db")


@dataclass(frozen=True, slots=True)
class Link:
    """One step back from a checkpoint.

    Attributes:
        what: "parent", "rows", ... as the training recorded it. path: Where it lies today, "" when outside.
        digest: As recorded. fits: Whether the file or folder on disk has that digest, None when there is none.
    """

    what: str
    path: str
    digest: str
    fits: bool | None


def origins(methods: Sequence[MethodData], root: Path) -> Html:
    """Pedigree of every checkpoint, the pipeline's digests, and the settings."""
    return section(
        "lineage",
        "Lineage",
        [_method(method, root) for method in methods],
        element("h3", "Pipeline outputs"),
        _pipeline(root),
        element("h3", "Settings"),
        [folded(f"Settings of {r.phase}, {m.card.title}", _settings(r)) for m in methods for r in m.records],
        folded(f"{PARAMS_FILE} and its profile", code(read_params(root))),
    )


def links(record: TrainingRecord, method: str, root: Path) -> list[Link]:
    """What one training read, nearest first, compared with the disk."""
    earlier = [phase for phase in TRAINING if (root / "models" / phase / method).is_dir()]
    before = earlier[: earlier.index(record.phase)] if record.phase in earlier else []
    places = {
        "rows": f"data/teach/{method}/rows.jsonl",
        "questions": "data/questions/train.jsonl",
        "parent": f"models/{before[-1]}/{method}" if before else "",
    }
    read = {"parent": record.parent} | {k: v for k, v in sorted(record.inputs.items()) if v != record.parent}
    return [
        Link(what, places.get(what, ""), digest, _fits(root, places.get(what, ""), digest))
        for what, digest in read.items()
    ]


def _fits(root: Path, place: str, digest: str) -> bool | None:
    path = root / place
    if not place or not path.exists():
        return None
    return (digest_folder(path) if path.is_dir() else digest_file(path)) == digest


def _method(method: MethodData, root: Path) -> Html:
    name = method.card.name
    steps = [_step(record, name, root) for record in reversed(method.records)]
    return join(
        element("h3", method.card.title),
        element("p", f"Trained: {method.card.trained}. Frozen: {method.card.frozen}."),
        element("ol", steps, class_="chain"),
        [_tree(name, record.phase, root) for record in method.records[-1:]],
    )


def _step(record: TrainingRecord, method: str, root: Path) -> Html:
    rows = [
        row(
            link.what,
            cell(link.path or _ELSEWHERE[link.what]),
            cell(element("code", link.digest if link.what == "target" else short(link.digest))),
            cell({True: "same on disk", False: "another on disk today", None: NONE}[link.fits]),
        )
        for link in links(record, method, root)
    ]
    columns = [Column("made from"), Column("path"), Column("digest"), Column("today")]
    about = f"models/{record.phase}/{method}, seed {record.seed}, {count(record.trainable)} trained weights"
    return element(
        "li", element("b", record.phase), f" {about}", table("Inputs as recorded at training", columns, rows)
    )


def _tree(method: str, phase: str, root: Path) -> Html | None:
    """MLflow's pedigree, where the project has an MLflow store."""
    if not (root / _STORE).is_file():
        return note("No MLflow store here: `luthier lineage` prints the tree once a flow has recorded a checkpoint.")
    try:
        return folded(f"Pedigree of {method}/{phase} in MLflow", code(lineage.tree(f"{method}/{phase}", root=root)))
    except LuthierError as error:
        return note(f"MLflow has no pedigree of this checkpoint: {error}")


def _pipeline(root: Path) -> Html:
    stages = read_stages(root)
    outs = [(name, out) for name, facts in stages.items() for out in facts.outs]
    rows = [
        row(name, cell(out.path), number(_rows(out)), number(count(out.bytes)), cell(element("code", short(out.md5))))
        for name, out in outs
        if (root / out.path).exists()
    ]
    if not outs:
        return note("No dvc.lock here: the stages were not run by DVC.")
    if not rows:
        return note("None of the outputs in dvc.lock is here: another build wrote it.")
    absent = len(outs) - len(rows)
    caption = "What each stage wrote last, from dvc.lock"
    caption += f"; {absent} that it names are not in this folder and left out" if absent else ""
    columns = [
        Column("stage"),
        Column("output"),
        Column("rows", numeric=True),
        Column("bytes", numeric=True),
        Column("md5 (DVC)"),
    ]
    return table(caption, columns, rows)


def _rows(out: Output) -> str:
    return ", ".join(f"{name} {count(number_)}" for name, number_ in sorted(out.rows.items()))


def _settings(record: TrainingRecord) -> Html:
    rows = [row(name, cell(element("code", _shown(value)))) for name, value in sorted(record.settings.items())]
    return table(f"As used in {record.phase}", [Column("setting"), Column("value")], rows)


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
