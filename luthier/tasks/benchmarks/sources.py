"""Reading the published forms of benchmarks: JSON, JSON Lines, CSV, TSV, Parquet, or a hub id.

Nothing here writes: benchmark data, and the canary strings in it, stay where they are.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from luthier.errors import InputError
from luthier.question import Split
from luthier.reading import parse_json, parse_object, read_text
from luthier.tasks.splits import named_split

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(?::[\w.-]+)?")
_DATA_SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".parquet", ".gz")


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One row as the source has it.

    Attributes:
        where: File and line (or row), for messages.
        group: Name of the file or hub configuration without its split ("navigate", "anatomy").
        row: Its fields. split: The split that the source names, if any.
    """

    where: str
    group: str
    row: Mapping[str, Any]
    split: Split | None = None

    def text(self, *names: str) -> str:
        """The first of these fields, which must be a text that is not blank.

        Raises:
            InputError: no such field, or its value is not a text or is blank.
        """
        for name in names:
            if name in self.row:
                value = self.row[name]
                if isinstance(value, str) and value.strip():
                    return value
                raise self.error(f"field {name}: {value!r} is not a text or is empty", f'write "{name}": "..."')
        raise self.error(f"field {names[0]}: missing", f"add it; the row has {', '.join(sorted(map(str, self.row)))}")

    def error(self, problem: str, fix: str) -> InputError:
        """An error that names this row."""
        return InputError(problem, where=self.where, fix=fix)


@dataclass(frozen=True, slots=True)
class Form:
    """How a benchmark is published.

    Attributes:
        name: Of the form, as `luthier.tasks.benchmarks.recognition.published_forms` has it.
        suffixes: File name endings to read from a folder.
        hub_config: Default configuration on the hub ("" for none).
        columns: Names of the columns of a CSV or TSV file without a header line.
        split_of: File, folder or hub split name -> split.
        short_answers: Whether a reference is a final answer in one line, never a worked solution.
    """

    name: str
    suffixes: tuple[str, ...]
    hub_config: str = ""
    columns: tuple[str, ...] = ()
    split_of: Callable[[str], Split | None] = named_split
    short_answers: bool = True


def read_records(source: str, form: Form) -> list[SourceRow]:
    """Every row of a local file or folder, or of a hub data set ("owner/name" or "owner/name:config").

    Raises:
        InputError: the source is missing, empty, of an unknown form, or broken at a line.
    """
    path = Path(source)
    if not path.exists():
        if _HUB_ID.fullmatch(source) and not source.endswith(_DATA_SUFFIXES) and not source.startswith("."):
            return read_hub(source, form)
        raise InputError(
            "no such file or folder", where=source, fix="correct the path, or give a hub id such as owner/name"
        )
    records: list[SourceRow] = []
    for file in [path] if path.is_file() else _files(path, form):
        relative = file.name if path.is_file() else file.relative_to(path).as_posix()
        split = form.split_of(relative) or _exact_split(path if path.is_dir() else path.parent, form)
        group = _group(relative, form)
        records += [SourceRow(where, group, row, split) for where, row in _rows(file, form)]
    if not records:
        raise InputError("no rows", where=source, fix="restore the file; it should hold at least one row")
    return records


def _exact_split(folder: Path, form: Form) -> Split | None:
    """The split of a folder given as `.../test`: an exact name only, since the path above is the user's."""
    return form.split_of(folder.name) if folder.name.isalpha() else None


def _files(folder: Path, form: Form) -> list[Path]:
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name.endswith(form.suffixes))
    if not files:
        raise InputError(
            "the folder holds no data file", where=str(folder), fix=f"give one with {' or '.join(form.suffixes)} files"
        )
    return files


def _group(relative: str, form: Form) -> str:
    """The file's stem without the words that name its split; the folder's name when nothing is left."""
    parts = Path(relative).with_suffix("").parts
    for part in reversed(parts):
        words = [word for word in part.removesuffix(".jsonl").split("_") if form.split_of(word) is None]
        if "".join(words) and not "".join(words).isdigit():
            return "_".join(words)
    return ""


def _rows(file: Path, form: Form) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(where, row) of one file."""
    if file.name.endswith(".parquet"):
        yield from _parquet(file)
        return
    text = _text(file)
    if not text.strip():
        raise InputError("the file is empty", where=str(file), fix="restore it; it should hold at least one row")
    name = file.name.removesuffix(".gz")
    if name.endswith(".jsonl"):
        yield from _json_lines(text, file)
    elif name.endswith(".json"):
        yield from _json_document(text, file)
    elif name.endswith((".csv", ".tsv")):
        yield from _table(text, file, form, delimiter="\t" if name.endswith(".tsv") else ",")
    else:
        raise InputError(
            f"{file.suffix or 'no suffix'} is not a known form", where=str(file), fix=f"use {', '.join(form.suffixes)}"
        )


def _text(file: Path) -> str:
    return read_text(file, fix="restore it from its publisher", encoding="utf-8-sig")


def _json_lines(text: str, file: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    # Not splitlines(): JSON text may hold U+2028 and the like unescaped.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            line = line.removeprefix("\ufeff")  # joined files bring one each
            where = f"{file}:{number}"
            yield where, parse_object(line, where=where, fix="restore the line from its publisher", strict=True)


def _json_document(text: str, file: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A list of rows, {"examples": [rows]}, or a single row."""
    document = parse_json(text, where=str(file), fix="restore the file from its publisher", strict=True)
    rows = document.get("examples", [document]) if isinstance(document, dict) else document
    if not isinstance(rows, list) or not rows:
        raise InputError(
            "field examples: not a list with rows", where=str(file), fix='write a list of rows or {"examples": [...]}'
        )
    for number, row in enumerate(rows, start=1):
        where = f"{file}, row {number}"
        if not isinstance(row, dict):
            raise InputError("not a JSON object", where=where, fix="write one object a row")
        yield where, row


def _table(text: str, file: Path, form: Form, *, delimiter: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Rows of a CSV or TSV file, whose first line may be a header."""
    lines = io.StringIO(text, newline="")
    # Tab-separated benchmark files do not quote: a quotation mark is part of the text.
    tabs = delimiter == "\t"
    reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE) if tabs else csv.reader(lines)
    columns = form.columns
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            where = f"{file}:{reader.line_num}"
            if set(form.columns) <= set(cells):
                columns = tuple(cells)
                continue
            if len(cells) != len(columns):
                raise InputError(
                    f"{len(cells)} columns instead of {len(columns)}",
                    where=where,
                    fix=f"write the columns {', '.join(columns)}",
                )
            yield where, dict(zip(columns, cells, strict=True))
    except csv.Error as error:
        raise InputError(
            f"not a table ({error})", where=f"{file}:{reader.line_num}", fix="restore the file from its publisher"
        ) from error


def _parquet(file: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    import pyarrow.parquet

    try:
        rows = pyarrow.parquet.read_table(file).to_pylist()
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise InputError(f"not a Parquet file ({error})", where=str(file), fix="download it again") from error
    for number, row in enumerate(rows, start=1):
        yield f"{file}, row {number}", row


def read_hub(source: str, form: Form) -> list[SourceRow]:
    """Every row of a data set that `datasets` can load: "owner/name" or "owner/name:config".

    Raises:
        InputError: `datasets` is not installed, or it cannot load this.
    """
    try:
        import datasets
    except ImportError as error:
        raise InputError(
            "a hub id needs the `datasets` package", where=source, fix='pip install "luthier[train]"'
        ) from error
    hub_id, _, config = source.partition(":")
    config = config or form.hub_config
    try:
        loaded = datasets.load_dataset(hub_id, config or None)
    except Exception as error:  # whatever hub, network or data set raise, the user's move is the same
        raise InputError(
            f"cannot load the hub data set ({type(error).__name__}: {error})",
            where=source,
            fix="check the id, its configuration (owner/name:config) and the network, or give a local file or folder",
        ) from error
    records = [
        SourceRow(f"{source}, split {name}, row {number}", config, row, form.split_of(name))
        for name in sorted(loaded)
        for number, row in enumerate(loaded[name], start=1)
    ]
    if not records:
        raise InputError("no rows", where=source, fix="choose another configuration: owner/name:config")
    return records
