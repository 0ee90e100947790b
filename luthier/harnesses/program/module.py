"""`Module`: one named call of a program, with its signature, instruction and demonstrations.

The vocabulary (module, signature, instruction, demonstration) is DSPy's (Khattab et al., arXiv 2310.03714). The
rendering is ours and short, so that a small model can follow it. A field's label is its name in words
(`final_answer` is "Final Answer"). A chat module with one output asks::

    system     Add the numbers.
    user       Question: 1 and 1
               Answer:
    assistant  2                          <- a demonstration is a turn
    user       Question: 2 and 3
               Answer:

With several outputs the system text lists them, the question ends after the inputs, and the answer is read by its
labels (`luthier.executors.llm_calls.read_labelled`)::

    system     Judge the draft.

               Wanted, each on a line that begins with its name:
               Verdict: right or wrong    <- the field's description, or three dots
               Why: ...

A raw module is the same as one text that ends with the label of the first output; it stops at the end of the line,
with several outputs at an empty line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from luthier.errors import HarnessError
from luthier.harnesses.graph.document import BUILTINS, RESERVED
from luthier.harnesses.graph.implementation import (
    MAX_TOKENS_CEILING,
    STYLES,
    TEMPERATURE_CEILING,
    Implementation,
    Shot,
    tidy,
)
from luthier.tools.registry import ALL_TOOLS

MAX_FIELDS = 16
MAX_DEMOS = 32
DEFAULT_MAX_TOKENS = 64
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

Demo = Mapping[str, str]
"""A demonstration: a text for every input and output."""
Lines = Mapping[tuple[str, str], int]
"""Line of a module's field in the program's text, by (module, field); the field "" is the module itself."""


@dataclass(frozen=True, slots=True)
class Module:
    """A module of a program. `check_module` says what is valid.

    Attributes:
        name: What the wiring calls it.
        inputs: Field names by position in the wiring. outputs: Field names, in the order in which they are written.
        instruction: What to do; "" leaves it to the fields' names.
        demos: Worked examples, each with all fields.
        descriptions: Of fields, for the model; may be empty.
        style: chat or raw.
        max_tokens: Most new tokens of a call. temperature: 0 is greedy.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    instruction: str = ""
    demos: tuple[Demo, ...] = ()
    descriptions: Mapping[str, str] = field(default_factory=dict)
    style: str = "chat"
    max_tokens: int = DEFAULT_MAX_TOKENS
    temperature: float = 0.0

    @property
    def fields(self) -> tuple[str, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)


def label(name: str) -> str:
    """A field name in words: `final_answer` is "Final Answer", `SQL_query` is "SQL Query"."""
    return " ".join(word if word.isupper() else word.capitalize() for word in name.split("_") if word)


def check_module(module: Module, lines: Lines | None = None) -> Module:
    """The module with tidy texts (no outer space, no spaces at line ends), if it is valid.

    Args:
        module: The module.
        lines: Lines of its fields, for messages.

    Raises:
        HarnessError: rules name-clash, bad-signature, bad-option, bad-demo or syntax (half a character).
    """
    return _Checker(module, lines or {}).check()


class _Checker:
    """Every complaint names the module, the field and, where known, the line."""

    def __init__(self, module: Module, lines: Lines) -> None:
        self._module, self._lines = module, lines

    def check(self) -> Module:
        module = self._module
        self._check_name()
        self._check_signature()
        if module.style not in STYLES:
            raise self._error("style", f"{module.style!r} is unknown", f"use one of {', '.join(STYLES)}")
        if not isinstance(module.max_tokens, int) or not 1 <= module.max_tokens <= MAX_TOKENS_CEILING:
            problem = f"{module.max_tokens!r} is not a whole number from 1 to {MAX_TOKENS_CEILING}"
            raise self._error("max_tokens", problem, f"write max_tokens: {DEFAULT_MAX_TOKENS}")
        if not isinstance(module.temperature, int | float) or not 0 <= module.temperature <= TEMPERATURE_CEILING:
            problem = f"{module.temperature!r} is not a number from 0 to {TEMPERATURE_CEILING:g}"
            raise self._error("temperature", problem, "write temperature: 0.7")
        for name in module.descriptions:
            if name not in module.fields:
                raise self._error("descriptions", f"{name!r} is no field", f"use {', '.join(module.fields)}")
        described = {name: self._tidy("descriptions", module.descriptions.get(name, "")) for name in module.fields}
        return replace(
            module,
            instruction=self._tidy("instruction", module.instruction),
            descriptions={name: text for name, text in described.items() if text},
            demos=self._demos(module.demos),
            temperature=float(module.temperature),
        )

    def _check_name(self) -> None:
        name = self._module.name
        if not _NAME.fullmatch(name):
            raise self._error("", f"{name!r} is no name", "use letters, digits and _, a letter first", "bad-signature")
        if name in ALL_TOOLS or name in BUILTINS or name in RESERVED:
            owner = "word of the language" if name in RESERVED else "tool"
            raise self._error("", f"{name} is already a {owner}", "rename the module and its nodes", "name-clash")

    def _check_signature(self) -> None:
        for side, names in (("inputs", self._module.inputs), ("outputs", self._module.outputs)):
            if not names or len(names) > MAX_FIELDS:
                fix = f"write {side}: [{'question' if side == 'inputs' else 'answer'}]"
                raise self._error(side, f"has {len(names)} names, not 1 to {MAX_FIELDS}", fix, "bad-signature")
            for name in names:
                if not _NAME.fullmatch(name):
                    fix = "use letters, digits and _, a letter first"
                    raise self._error(side, f"{name!r} is no name", fix, "bad-signature")
        seen: dict[str, str] = {}
        for name in self._module.fields:
            key = label(name).casefold()
            if key in seen:
                side = "outputs" if name in self._module.outputs else "inputs"
                problem = f"{name} and {seen[key]} have the same label {label(name)!r}"
                raise self._error(side, problem, "rename one of the two", "bad-signature")
            seen[key] = name

    def _demos(self, demos: Sequence[Demo]) -> tuple[Demo, ...]:
        if len(demos) > MAX_DEMOS:
            problem = f"{len(demos)} demonstrations, at most {MAX_DEMOS} are allowed"
            raise self._error("demos", problem, "keep fewer", "bad-demo")
        fields = self._module.fields
        for number, demo in enumerate(demos, start=1):
            if not isinstance(demo, Mapping):
                problem = f"demonstration {number} is {demo!r:.60}, no mapping of fields to texts"
                raise self._error("demos", problem, f"give exactly {', '.join(fields)}", "bad-demo")
            missing, extra = [n for n in fields if n not in demo], sorted(set(demo) - set(fields))
            if missing or extra:
                what = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(extra)}, which is no field"
                fix = f"give exactly {', '.join(fields)}"
                raise self._error("demos", f"demonstration {number} {what}", fix, "bad-demo")
        return tuple({name: self._tidy("demos", demo[name]) for name in fields} for demo in demos)

    def _tidy(self, where: str, text: str) -> str:
        if not isinstance(text, str):
            rule = "bad-demo" if where == "demos" else "bad-option"
            raise self._error(where, f"{text!r} is not a text", "write a text", rule)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise self._error(where, "holds half a character", "remove the broken escape", "syntax") from error
        return tidy(text)

    def _error(self, where: str, problem: str, fix: str, rule: str = "bad-option") -> HarnessError:
        name = self._module.name
        line = self._lines.get((name, where), self._lines.get((name, ""), 0))
        place = f"module {name}, {where}" if where else f"module {name}"
        return HarnessError(problem, rule=rule, line=line, field=place, fix=fix)


def worked_case(module: Module, demo: Demo) -> str:
    """A demonstration as a paragraph of text: each field on a line that begins with its label."""
    return "\n".join(f"{label(name)}: {demo[name]}" for name in module.fields)


def implementation_of(module: Module) -> Implementation:
    """How a valid module asks and reads, in the terms of a graph's llm node."""
    labels = tuple(label(name) for name in module.outputs)
    several = len(labels) > 1
    raw = module.style == "raw"
    given = "\n".join(f"{label(name)}: {{{name}}}" for name in module.inputs)
    return Implementation(
        name=module.name,
        reads=module.inputs,
        ask=given if several and not raw else f"{given}\n{labels[0]}:",
        style=module.style,
        role=_role(module),
        shots=tuple(Shot(tuple((n, demo[n]) for n in module.inputs), _worked(module, demo)) for demo in module.demos),
        stop=(("\n\n",) if several else ("\n",)) if raw else (),
        parse="list" if several else "text",
        max_tokens=module.max_tokens,
        temperature=module.temperature,
        labels=labels,
    )


def _role(module: Module) -> str:
    """The instruction, then what the fields are, where that is not clear from their names."""
    several = len(module.outputs) > 1
    parts = [module.instruction]
    if given := [f"{label(n)}: {module.descriptions[n]}" for n in module.inputs if n in module.descriptions]:
        parts.append("\n".join(["Given:", *given]))
    if several or module.outputs[0] in module.descriptions:
        head = "Wanted, each on a line that begins with its name:" if several else "Wanted:"
        parts.append("\n".join([head, *(f"{label(n)}: {module.descriptions.get(n, '...')}" for n in module.outputs)]))
    return "\n\n".join(part for part in parts if part)


def _worked(module: Module, demo: Demo) -> str:
    """The outputs of a demonstration, as the model is to write them."""
    if len(module.outputs) == 1:
        return demo[module.outputs[0]]
    lines = [f"{label(name)}: {demo[name]}" for name in module.outputs]
    return "\n".join([demo[module.outputs[0]], *lines[1:]] if module.style == "raw" else lines)
