"""`presets()`: the llm implementations that every graph may use by name, from `presets.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from luthier.errors import HarnessError, InputError
from luthier.files import digest_text
from luthier.harnesses.graph.document import BUILTINS
from luthier.harnesses.graph.implementation import Implementation, load_yaml, read_implementation
from luthier.reading import read_text
from luthier.tools.registry import ALL_TOOLS

_PATH = Path(__file__).with_name("presets.yaml")


@cache
def presets() -> Mapping[str, Implementation]:
    """The shipped presets by name, sorted; read once.

    Raises:
        InputError: a broken entry; file, entry, field and fix are named.
    """
    return read_presets(_PATH)


@cache
def presets_digest() -> str:
    """First 12 hex digits of the SHA-256 of the shipped presets: part of what makes two executions equal."""
    return digest_text(repr(sorted(presets().items())))[:12]


def read_presets(path: Path) -> Mapping[str, Implementation]:
    """Read a file of presets.

    Raises:
        InputError: missing or broken file, an entry without `reads`, or a name that a tool or builtin has.
    """
    text = read_text(path, fix="reinstall luthier")
    try:
        rows = load_yaml(text, field="presets")
    except HarnessError as error:
        raise InputError(error.problem, where=f"{path}:{error.line}", fix="correct the YAML") from error
    if not isinstance(rows, dict):
        raise InputError("not a mapping of names to fields", where=str(path), fix="write `name:` and indented fields")
    found: dict[str, Implementation] = {}
    for name in sorted(rows):
        if name in ALL_TOOLS or name in BUILTINS:
            raise InputError(f"preset {name!r} has the name of a tool or builtin", where=str(path), fix="rename it")
        if not isinstance(rows[name], dict) or not rows[name].get("reads"):
            raise InputError(f"preset {name!r}, field reads: missing", where=str(path), fix="add reads: [question]")
        try:
            found[name] = read_implementation(name, rows[name], reads=())
        except HarnessError as error:
            raise InputError(error.problem, where=f"{path}, {name}, field {error.field}", fix="correct it") from error
    return MappingProxyType(found)
