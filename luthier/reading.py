"""Reading of files and texts that somebody else wrote: whatever is wrong, one `InputError` names place and fix.

Python's own readers raise many kinds of exception for text that is damaged or hostile (a byte that is no UTF-8, an
integer of 5,000 digits, 3,000 nested brackets, a date that the calendar lacks). They are caught here and nowhere else.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from luthier.errors import InputError, LuthierError

HALF_CHARACTER = re.compile("[\ud800-\udfff]")
"""A lone surrogate, which UTF-8 cannot hold."""
MAX_DEPTH = 64
"""Lists and objects within each other, in data that somebody gives (ours)."""
_SHAPES = (LookupError, ArithmeticError, AttributeError, TypeError, ValueError, RecursionError)


def read_text(path: Path, *, fix: str, what: str = "the file", encoding: str = "utf-8") -> str:
    """A file's text; a name that ends in `.gz` is unpacked.

    Args:
        path: The file.
        fix: What to do when it cannot be read.
        what: What it is to the reader.
        encoding: UTF-8, or `utf-8-sig` to leave out a mark at its beginning.

    Raises:
        InputError: it is missing, may not be read, is damaged, or is no UTF-8.
    """
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode(encoding)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        problem = "no such file" if isinstance(error, FileNotFoundError) else error
        raise InputError(f"cannot read {what} ({problem})", where=str(path), fix=fix) from error


def parse_json(text: str, *, where: str, fix: str, strict: bool = False) -> Any:
    """The value of a JSON text.

    Args:
        text: The text.
        where: Its place, for the error.
        fix: What to do about a broken one.
        strict: Refuse what other readers and writers choke on, too: NaN and infinite numbers, half characters
            (lone surrogates), and more than `MAX_DEPTH` lists and objects within each other.

    Raises:
        InputError: it is not JSON, or (with `strict`) holds such a value.
    """
    return _parse_json(text, "JSON", where, fix, strict)


def parse_object(text: str, *, where: str, fix: str, strict: bool = False) -> dict[str, Any]:
    """The value of a JSON text that must be an object; see `parse_json`."""
    value = _parse_json(text, "a JSON object", where, fix, strict)
    if not isinstance(value, dict):
        raise InputError("not a JSON object", where=where, fix=fix)
    return value


def read_json(path: Path, *, fix: str, what: str = "the file") -> Any:
    """The JSON value that a file holds.

    Raises:
        InputError: it is missing or broken.
    """
    return parse_json(read_text(path, fix=fix, what=what), where=str(path), fix=fix)


def read_object(path: Path, *, fix: str) -> dict[str, Any]:
    """The JSON object that a file holds.

    Raises:
        InputError: it is missing or broken, or holds something else.
    """
    return parse_object(read_text(path, fix=fix), where=str(path), fix=fix)


@contextmanager
def shaped(problem: str, *, where: str, fix: str) -> Iterator[None]:
    """For the lines that take a value apart: whatever does not fit is an `InputError`.

    Args:
        problem: What is wrong then, in short ("no row of a search log").
        where: Its place, for the error.
        fix: What to do.
    """
    try:
        yield
    except LuthierError:
        raise
    except _SHAPES as error:
        cause = f"field {error} is missing" if isinstance(error, KeyError) else error
        raise InputError(f"{problem} ({cause})", where=where, fix=fix) from error


class PlacedLoader(yaml.SafeLoader):
    """PyYAML's safe loader; a scalar that it cannot read is an error of YAML with its line, not a traceback."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except yaml.YAMLError:
            raise
        except _SHAPES as error:
            if isinstance(error, RecursionError) or not isinstance(node, yaml.ScalarNode):
                raise
            kind = node.tag.rpartition(":")[2]
            problem = f"{str(node.value)[:60]!r} is no {kind}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


def parse_yaml(text: str, *, where: str, fix: str, loader: type[yaml.SafeLoader] = PlacedLoader) -> Any:
    """The value of a YAML text.

    Raises:
        InputError: it is not YAML, or is nested too deep; the line is named where it is known.
    """
    try:
        return yaml.load(text, loader)
    except (yaml.YAMLError, *_SHAPES) as error:
        problem = "it is nested too deep" if isinstance(error, RecursionError) else error
        raise InputError(f"not valid YAML ({problem})", where=where, fix=fix) from error


def _parse_json(text: str, kind: str, where: str, fix: str, strict: bool) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and "\n" in text.strip():
            where = f"{where}:{error.lineno}"
        problem = "it is nested too deep" if isinstance(error, RecursionError) else error
        raise InputError(f"not {kind} ({problem})", where=where, fix=fix) from error
    fields = value.items() if isinstance(value, dict) else [("", value)]
    for name, item in fields if strict else ():
        if flaw := _flaw(name) or _flaw(item):
            raise InputError(f"field {name:.60}: {flaw}" if name else flaw, where=where, fix=fix)
    return value


def _flaw(value: Any) -> str:
    """What other readers and writers choke on, "" for nothing; without recursion, since depth itself is checked."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += [*item.keys(), *item.values()]
            elif isinstance(item, list):
                below += item
            elif isinstance(item, str) and HALF_CHARACTER.search(item):
                return "holds half a character (a lone surrogate)"
            elif isinstance(item, float) and not math.isfinite(item):
                return f"holds {item}, which is no number"
        if not below:
            return ""
        level = below
    return f"holds more than {MAX_DEPTH} lists and objects within each other"
