"""Text of a program: reading it into modules and wiring, and the one canonical spelling.

YAML in which every scalar is a text (`luthier.harnesses.graph.implementation.load_yaml`): `no` stays "no". Meaning is
checked in `module` and `program`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from luthier.errors import HarnessError
from luthier.harnesses.graph.implementation import load_yaml
from luthier.harnesses.graph.lexer import FORBIDDEN, normal_number
from luthier.harnesses.graph.printer import json_text, text_lines
from luthier.harnesses.program.module import DEFAULT_MAX_TOKENS, Demo, Lines, Module

MAX_CHARACTERS = 40_000
"""Longest program text (ours): room for 32 demonstrations of 1,000 characters."""
MODULE_FIELDS = ("inputs", "outputs", "style", "instruction", "descriptions", "demos", "max_tokens", "temperature")
"""Fields of a module, in the order in which they are printed."""
_KEY = re.compile(r"( *)([A-Za-z_][A-Za-z0-9_]*) *:")
_FIX = "write `wiring: |` with the graph's lines under it, then `modules:` with one block per module"


@dataclass(frozen=True, slots=True)
class ProgramSource:
    """A program as read, not yet checked.

    Attributes:
        modules: In text order. wiring: The graph text.
        lines: Lines of the modules' fields. wiring_line: Lines before the wiring's first.
    """

    modules: tuple[Module, ...]
    wiring: str
    lines: Lines
    wiring_line: int


def read_program(text: str) -> ProgramSource:
    """Read a program text.

    Raises:
        HarnessError: rules too-long, syntax, missing-field, unknown-field, bad-option or bad-demo.
    """
    text = text.replace("\r\n", "\n")
    check_size(text)
    if found := FORBIDDEN.search(text):
        line = text.count("\n", 0, found.start()) + 1
        problem = f"character U+{ord(found.group()):04X} is not allowed"
        _fail("syntax", problem, line, "text", "remove it or escape it in double quotes")
    lines = _lines(text)
    rows = load_yaml(text, field="program")
    if not isinstance(rows, dict):
        _fail("syntax", "the program is no mapping", 1, "program", _FIX)
    for name in sorted(rows):
        if name not in ("wiring", "modules"):
            _fail("unknown-field", f"{name!r} is no part of a program", lines.get((name, ""), 0), str(name)[:40], _FIX)
    wiring, modules = rows.get("wiring"), rows.get("modules")
    if not isinstance(wiring, str) or not wiring.strip():
        _fail("missing-field", "there is no wiring", lines.get(("wiring", ""), 0), "wiring", _FIX)
    if not isinstance(modules, dict) or not modules:
        _fail("missing-field", "there is no module", lines.get(("modules", ""), 0), "modules", _FIX)
    block = re.search(r"^wiring *: *\|", text, re.MULTILINE)
    return ProgramSource(
        modules=tuple(_module(name, row, lines) for name, row in modules.items()),
        wiring=wiring,
        lines=lines,
        wiring_line=text.count("\n", 0, block.start()) + 1 if block else 0,
    )


def check_size(text: str) -> None:
    """Refuse a text of more than 40,000 characters (rule too-long)."""
    if len(text) > MAX_CHARACTERS:
        problem = f"the text has {len(text)} characters, at most {MAX_CHARACTERS} are allowed"
        _fail("too-long", problem, text.count("\n", 0, MAX_CHARACTERS) + 1, "text", "keep fewer demonstrations")


def print_program(modules: Sequence[Module], wiring: str) -> str:
    """Canonical text of valid modules and a canonical wiring, without a line break at the end."""
    lines = ["wiring: |", *(f"  {line}" for line in wiring.split("\n")), "modules:"]
    for module in modules:
        lines.append(f"  {module.name}:")
        lines.extend(f"    {line}".rstrip() for line in _module_lines(module))
    return "\n".join(lines)


def _module_lines(module: Module) -> Iterator[str]:
    yield f"inputs: [{', '.join(module.inputs)}]"
    yield f"outputs: [{', '.join(module.outputs)}]"
    if module.style != "chat":
        yield f"style: {module.style}"
    if module.instruction:
        yield from text_lines("instruction", module.instruction, 0)
    if module.descriptions:
        yield "descriptions:"
        for name, text in module.descriptions.items():
            yield from text_lines(name, text, 2)
    if module.demos:
        yield "demos:"
        for demo in module.demos:
            first, *rest = [line for name in module.fields for line in text_lines(name, demo[name], 4)]
            yield f"  - {first.lstrip()}"
            yield from rest
    if module.max_tokens != DEFAULT_MAX_TOKENS:
        yield f"max_tokens: {module.max_tokens}"
    if module.temperature:
        yield f"temperature: {json_text(normal_number(module.temperature))}"


def _fail(rule: str, problem: str, line: int, field: str, fix: str) -> NoReturn:
    raise HarnessError(problem, rule=rule, line=line, field=field, fix=fix)


def _lines(text: str) -> dict[tuple[str, str], int]:
    """Lines of the keys: top level (name, ""), modules (name, "") and their fields (module, field)."""
    found: dict[tuple[str, str], int] = {}
    top, module, indents = "", "", [0, 0]
    for number, line in enumerate(text.split("\n"), start=1):
        match = _KEY.match(line)
        if match is None:
            continue
        indent, name = len(match.group(1)), match.group(2)
        if indent == 0:
            top, module, indents = name, "", [0, 0]
            found.setdefault((name, ""), number)
        elif top == "modules" and (not module or indent == indents[0]):
            module, indents = name, [indent, 0]
            found[name, ""] = number
        elif module and (not indents[1] or indent == indents[1]):
            indents[1] = indent
            found.setdefault((module, name), number)
    return found


def _module(name: str, row: Any, lines: Lines) -> Module:
    def fail(field: str, problem: str, fix: str, rule: str = "bad-option") -> NoReturn:
        line = lines.get((name, field), lines.get((name, ""), 0))
        _fail(rule, problem, line, f"module {name}, {field}" if field else f"module {name}", fix)

    if not isinstance(row, dict):
        fail("", "has no fields", "indent `inputs: [question]` and `outputs: [answer]` under it", "missing-field")
    for field in sorted(row):
        if field not in MODULE_FIELDS:
            fail(field, f"{field!r} is no field of a module", f"use {', '.join(MODULE_FIELDS)}", "unknown-field")
    for field in ("inputs", "outputs"):
        if field not in row:
            fail(field, "is missing", f"add {field}: [...]", "missing-field")
        if not isinstance(row[field], list) or not all(isinstance(item, str) for item in row[field]):
            fail(field, "is no list of names", f"write {field}: [question, draft]", "bad-signature")
    for field in ("style", "instruction", "max_tokens", "temperature"):
        if not isinstance(row.get(field, ""), str):
            fail(field, "is not one value", f"write `{field}: ...` on one line")
    if not isinstance(row.get("descriptions", {}), dict):
        fail("descriptions", "is no mapping of fields to texts", "indent `question: ...` lines under it")
    demos: list[Demo] = row.get("demos", [])
    if not isinstance(demos, list) or not all(isinstance(demo, dict) for demo in demos):
        fail("demos", "is no list of demonstrations", "write `- question: ...` items", "bad-demo")
    max_tokens, temperature = row.get("max_tokens", str(DEFAULT_MAX_TOKENS)), row.get("temperature", "0")
    if not re.fullmatch(r"[0-9]{1,6}", max_tokens):
        fail("max_tokens", f"{max_tokens[:40]!r} is no whole number", f"write max_tokens: {DEFAULT_MAX_TOKENS}")
    if not re.fullmatch(r"[0-9](\.[0-9]{1,6})?", temperature):
        fail("temperature", f"{temperature[:40]!r} is no number with at most 6 decimals", "write temperature: 0.7")
    return Module(
        name=name,
        inputs=tuple(row["inputs"]),
        outputs=tuple(row["outputs"]),
        instruction=row.get("instruction", ""),
        demos=tuple(demos),
        descriptions=row.get("descriptions", {}),
        style=row.get("style", "chat"),
        max_tokens=int(max_tokens),
        temperature=float(temperature),
    )
