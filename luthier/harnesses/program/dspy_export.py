"""Write a program as a DSPy program: Python source that needs DSPy alone, and a state for its `load`.

Only a straight wiring can be written as `forward` without our executor: one module call after the other, `copy`,
literals and initial values. Everything else (edges, samples, tools, `vote`, `merge`, typed state) is refused by name;
its texts still travel with `dspy_state`, or with `luthier.harnesses.program.dspy_bridge.update_dspy`.
"""

from __future__ import annotations

import json
import keyword
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from luthier.errors import InputError
from luthier.harnesses.graph.document import Const, Node
from luthier.harnesses.graph.lexer import normal_number
from luthier.harnesses.program.harness import ProgramHarness
from luthier.harnesses.program.module import Module, label
from luthier.tools.values import render

_MODULE_WORDS = frozenset(
    {
        "acall",
        "aforward",
        "batch",
        "callbacks",
        "deepcopy",
        "dump_state",
        "forward",
        "get_lm",
        "history",
        "inspect_history",
        "load",
        "load_state",
        "map_named_predictors",
        "named_parameters",
        "named_predictors",
        "named_sub_modules",
        "parameters",
        "predictors",
        "reset_copy",
        "save",
        "set_lm",
    }
)
"""Attributes of `dspy.Module` that a predictor's name would hide."""
_FIELD_WORDS = frozenset(("config", "demos", "lm", "new_signature", "signature"))
"""Keywords of a predictor's call that an input's name would take."""
_LOCAL_WORDS = frozenset(("_result", "dspy", "self"))


@dataclass(frozen=True, slots=True)
class DspyExport:
    """A program as DSPy has it.

    Attributes:
        source: Python text with a class `Program`.
        state: What `Program().load_state(state)` takes; as a JSON file, what `Program().load("x.json")` takes.
    """

    source: str
    state: dict[str, Any]

    @property
    def state_text(self) -> str:
        """The JSON file."""
        return json.dumps(self.state, ensure_ascii=False, indent=2) + "\n"


def to_dspy(program: ProgramHarness) -> DspyExport:
    """Write a program as DSPy source and state. Needs no DSPy.

    Raises:
        InputError: the wiring has a part that plain Python without our executor cannot do, or a name is taken in
            Python or DSPy; the part is named.
    """
    _check_names(program)
    lines = ['"""A DSPy program, written by Luthier."""', "", "import dspy", "", "", "class Program(dspy.Module):"]
    lines += ["    def __init__(self):", "        super().__init__()"]
    for module in program.modules.values():
        lines += [f"        {line}" for line in _predictor(module)]
    lines += ["", "    def forward(self, question):"]
    lines += [f"        {line}" for line in _forward(program)]
    return DspyExport("\n".join(lines) + "\n", dspy_state(program))


def dspy_state(program: ProgramHarness, paths: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Instructions and demonstrations in the form of DSPy's `dump_state`, with the `metadata` that `load` reads.

    Args:
        program: Any program, whatever its wiring.
        paths: Predictor path by module name, where they differ.

    Raises:
        InputError: a module is called `metadata`, a key that DSPy's files use otherwise.
    """
    paths = paths or {}
    if "metadata" in {paths.get(name, name) for name in program.modules}:
        _refuse("module metadata", "has a name that DSPy's state uses", "rename the module")
    state: dict[str, Any] = {}
    for name, module in program.modules.items():
        state[paths.get(name, name)] = {
            "traces": [],
            "train": [],
            "demos": [dict(demo) for demo in module.demos],
            "signature": {
                "instructions": module.instruction,
                "fields": [
                    {"prefix": f"{label(field)}:", "description": module.descriptions.get(field, f"${{{field}}}")}
                    for field in module.fields
                ],
            },
            "lm": None,
        }
    return {**state, "metadata": {"dependency_versions": {}}}


def _check_names(program: ProgramHarness) -> None:
    for module in program.modules.values():
        if keyword.iskeyword(module.name) or module.name in _MODULE_WORDS:
            _refuse(f"module {module.name}", "has a name that Python or DSPy uses", "rename the module")
        for field in module.fields:
            if keyword.iskeyword(field) or field in _FIELD_WORDS:
                _refuse(f"module {module.name}, field {field}", "has a name that Python or DSPy uses", "rename it")
    for name in program.graph.states:
        if keyword.iskeyword(name) or name in _LOCAL_WORDS:
            _refuse(f"state {name}", "has a name that Python or the program uses", "rename it")


def _predictor(module: Module) -> list[str]:
    lines = [f"self.{module.name} = dspy.Predict(", "    dspy.Signature(", "        {"]
    for name in module.fields:
        side = "InputField" if name in module.inputs else "OutputField"
        about = f"desc={module.descriptions[name]!r}" if name in module.descriptions else ""
        lines.append(f"            {name!r}: (str, dspy.{side}({about})),")
    lines += ["        },", f"        {module.instruction!r},", "    ),"]
    lines += [f"    max_tokens={module.max_tokens},", f"    temperature={normal_number(module.temperature)},", ")"]
    return lines


def _forward(program: ProgramHarness) -> list[str]:
    lines = []
    for name, state in sorted(program.graph.document.states.items()):
        if state.type != "str" or state.reducer != "overwrite":
            _refuse(f"state {name}", f"is a {state.type} {state.reducer}", "use plain text fields")
        if state.initial is not None:
            lines.append(f"{name} = {state.initial!r}")
    nodes = program.graph.nodes
    for index, node in enumerate(nodes):
        after = (nodes[index + 1].id,) if index + 1 < len(nodes) else ()
        if len(node.branches) > 1 or node.branches[0].targets != after:
            _refuse(f"node {node.id}", "has edges", "write nodes in a straight line")
        lines += _node_lines(program, node)
    return [*lines, "return dspy.Prediction(answer=answer)"]


def _node_lines(program: ProgramHarness, node: Node) -> list[str]:
    values = [repr(render(arg.value)) if isinstance(arg, Const) else arg.name for arg in node.args]
    if node.name not in program.modules:
        if node.name != "copy":
            _refuse(f"node {node.id}", f"runs {node.name}, which is no module", "move the step into a module")
        return [f"{node.writes[0]} = {values[0]}"]
    module, options = program.modules[node.name], dict(node.options)
    if options.pop("n", 1) != 1:
        _refuse(f"node {node.id}", "takes several samples", "remove the option n")
    given = [f"{name}={value}" for name, value in zip(module.inputs, values, strict=True)]
    if options:
        given.append(f"config={options!r}")
    call = f"self.{module.name}({', '.join(given)})"
    if len(module.outputs) == 1:
        return [f"{node.writes[0]} = {call}[{module.outputs[0]!r}]"]
    return [
        f"_result = {call}",
        *(f"{state} = _result[{output!r}]" for state, output in zip(node.writes, module.outputs, strict=True)),
    ]


def _refuse(part: str, problem: str, fix: str) -> NoReturn:
    raise InputError(f"{part} {problem}: it cannot be written as a DSPy program", where="program", fix=fix)
