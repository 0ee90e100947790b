"""`ProgramHarness`: harness kind `program`, named modules connected by a graph.

A module has a signature, an instruction and demonstrations (`luthier.harnesses.program.module`); the wiring is a graph
in the language of `luthier.harnesses.graph.harness` whose llm nodes are the modules, so tools, guards, loops, `vote`
and `merge` work, and every check of graphs applies (a cycle without a bound is `unguarded-cycle`)::

    wiring: |
      draft = solve(question)
      verdict, why = judge(question, draft)
        if verdict == "wrong" and visits.n2 < 3 -> fix else done
      fix: draft = mend(draft, why)
        -> n2
      done: answer = copy(draft)
    modules:
      solve:
        inputs: [question]
        outputs: [answer]
        instruction: Solve the question.
        demos:
          - question: What is 2 + 3?
            answer: "5"
      judge:
        inputs: [question, draft]
        outputs: [verdict, why]
        descriptions:
          verdict: right or wrong
        max_tokens: 80
      mend: ...

A node passes inputs by position and writes as many state fields as the module has outputs. Presets and impl blocks
are not available: what a program asks is in its text. A module may have a preset's name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from luthier.errors import HarnessError, InputError
from luthier.execution import Limits
from luthier.files import digest_text
from luthier.harnesses.graph.document import Document
from luthier.harnesses.graph.harness import GraphHarness
from luthier.harnesses.graph.parser import parse_document
from luthier.harnesses.graph.texts import own_texts
from luthier.harnesses.program.module import Demo, Lines, Module, check_module, implementation_of
from luthier.harnesses.program.parser import check_size, print_program, read_program

Part = Literal["instruction", "demos"]
Scope = Literal["instructions", "demos", "instructions+demos"]
MAX_MODULES = 32
_PARTS: Mapping[str, tuple[Part, ...]] = {
    "instructions": ("instruction",),
    "demos": ("demos",),
    "instructions+demos": ("instruction", "demos"),
}


@dataclass(frozen=True, slots=True)
class Editable:
    """A place that an optimizer may change: one part of one module."""

    module: str
    part: Part


@dataclass(frozen=True, eq=False)
class ProgramHarness:
    """A valid program. Equal texts are equal programs.

    Attributes:
        text: Canonical text.
        modules: By name, in text order.
        graph: The wiring with the modules as its llm nodes; its own text is the wiring alone.
    """

    text: str
    modules: Mapping[str, Module] = field(repr=False)
    graph: GraphHarness = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> ProgramHarness:
        """Parse and validate.

        Raises:
            HarnessError: the text breaks a rule; rule, line, field and fix are named.
        """
        source = read_program(text)
        return cls._build(source.modules, source.wiring, source.lines, source.wiring_line)

    @classmethod
    def of(cls, modules: Sequence[Module], wiring: str) -> ProgramHarness:
        """Build from parts.

        Args:
            modules: Their order is kept.
            wiring: A graph text over their names.

        Raises:
            HarnessError: as `parse`; lines are those of the wiring.
        """
        return cls._build(modules, wiring, {}, 0)

    @classmethod
    def _build(cls, modules: Sequence[Module], wiring: str, lines: Lines, wiring_line: int) -> ProgramHarness:
        if len(modules) > MAX_MODULES:
            problem = f"{len(modules)} modules, at most {MAX_MODULES} are allowed"
            raise HarnessError(problem, rule="too-long", field="modules", fix="write a smaller program")
        by_name: dict[str, Module] = {}
        for module in modules:
            if module.name in by_name:
                where = f"module {module.name}"
                raise HarnessError(f"{where} stands twice", rule="name-clash", field=where, fix="rename one of the two")
            by_name[module.name] = check_module(module, lines)
        try:
            graph = _compile(by_name, wiring)
        except HarnessError as error:
            raise _placed(error, by_name, lines, wiring_line) from error
        text = print_program(list(by_name.values()), graph.text)
        check_size(text)
        return cls(text, by_name, graph)

    @property
    def kind(self) -> Literal["program"]:
        """Which executor runs it."""
        return "program"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of kind and canonical text, 64 hex digits."""
        return digest_text(f"program\n{self.text}")

    @property
    def wiring(self) -> str:
        """Canonical text of the wiring."""
        return self.graph.text

    def module(self, name: str) -> Module:
        """The module of this name.

        Raises:
            InputError: there is none; near names are listed.
        """
        if name not in self.modules:
            near = difflib.get_close_matches(name, list(self.modules), n=3) or list(self.modules)
            raise InputError(f"the program has no module {name!r}", fix=f"use one of {', '.join(near)}")
        return self.modules[name]

    def editable(self, scope: Scope = "instructions+demos") -> tuple[Editable, ...]:
        """What an optimizer may change in a scope, modules in text order. Wiring and signatures stay as they are.

        Raises:
            InputError: the scope is unknown.
        """
        if scope not in _PARTS:
            raise InputError(f"scope {scope!r} is unknown", fix=f"use one of {', '.join(_PARTS)}")
        return tuple(Editable(name, part) for name in self.modules for part in _PARTS[scope])

    def with_instruction(self, name: str, text: str) -> ProgramHarness:
        """The program with another instruction in one module.

        Raises:
            InputError: there is no such module.
            HarnessError: the text makes the program invalid (too long, half a character).
        """
        return self._with(replace(self.module(name), instruction=text))

    def with_demos(self, name: str, demos: Sequence[Demo]) -> ProgramHarness:
        """The program with other demonstrations in one module; each needs all of its fields.

        Raises:
            InputError: there is no such module.
            HarnessError: a demonstration does not fit the signature, or the program becomes too long.
        """
        return self._with(replace(self.module(name), demos=tuple(demos)))

    def _with(self, module: Module) -> ProgramHarness:
        return ProgramHarness.of([module if m.name == module.name else m for m in self.modules.values()], self.wiring)

    def texts(self) -> Iterator[str]:
        """The constants of the wiring, and the texts of every module."""
        return own_texts(self.graph.document, self.graph.implementations)

    def calls_bound(self, limits: Limits) -> int:
        """That of its graph."""
        return self.graph.calls_bound(limits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProgramHarness) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


def graph_of(harness: object) -> GraphHarness | None:
    """The graph that runs when the harness runs; None for kinds that are none."""
    if isinstance(harness, ProgramHarness):
        return harness.graph
    return harness if isinstance(harness, GraphHarness) else None


def _compile(modules: Mapping[str, Module], wiring: str) -> GraphHarness:
    document = parse_document(wiring)
    if document.impls:
        name, block = next(iter(document.impls.items()))
        fix = "make it a module"
        raise HarnessError("a wiring has no impl blocks", rule="impl-block", line=block.line, field=name, fix=fix)
    _check_outputs(document, modules)
    graph = GraphHarness.of(document, {name: implementation_of(module) for name, module in modules.items()})
    for name in modules:
        if name not in graph.implementations:
            fix = "remove the module or call it in the wiring"
            raise HarnessError(f"no node runs module {name}", rule="unused-module", field=f"module {name}", fix=fix)
    return graph


def _check_outputs(document: Document, modules: Mapping[str, Module]) -> None:
    """A node writes as many fields as its module has outputs; several outputs come from one sample."""
    for node in document.nodes:
        outputs = modules[node.name].outputs if node.name in modules else node.writes
        if len(outputs) != len(node.writes):
            problem = f"{node.name} gives {', '.join(outputs)}, but {len(node.writes)} fields are written"
            fix = f"write {', '.join(outputs)} = {node.name}(...)"
            raise HarnessError(problem, rule="arity", line=node.line, field="writes", fix=fix)
        if node.name in modules and len(outputs) > 1 and node.option("n", 1) != 1:
            problem = f"{node.name} has several outputs and cannot be sampled several times in one node"
            raise HarnessError(problem, rule="arity", line=node.line, field="n", fix="remove the option n")


def _placed(error: HarnessError, modules: Mapping[str, Module], lines: Lines, wiring_line: int) -> HarnessError:
    """The complaint of a wiring with its line in the program's text, in words of programs."""
    problem, fix, place = error.problem, error.fix, f"wiring, {error.field}"
    line = error.line + wiring_line if error.line else 0
    if error.rule in ("unknown-name", "missing-impl"):
        problem = f"there is no module, tool or builtin {error.field}"
        near = difflib.get_close_matches(error.field, list(modules), n=3)
        fix = f"did you mean {', '.join(near)}?" if near else f"add a module {error.field}, or use a tool"
    if error.rule == "unused-module":
        place = error.field
        line = lines.get((error.field.removeprefix("module "), ""), 0)
    return HarnessError(problem, rule=error.rule, line=line, field=place, fix=fix)
