"""Bring a DSPy program in, and take the result home (DSPy 3.4; Khattab et al., arXiv 2310.03714).

What travels: the predictors' signatures (names, descriptions), instructions and demonstrations. What a DSPy
program's `forward` does is Python that nobody can read back, so the user states it as a wiring::

    names = module_names(theirs)                       # {"cot.predict": "cot", "judge": "judge"}
    program = from_dspy(theirs, "why, answer = cot(question)")
    ... optimize ...
    better = update_dspy(searched, theirs)             # a copy of their program with the new texts

Not covered, and refused by name: parts that are more than a prediction (ReAct, CodeAct, ...), subclasses of
Predict, fields that are no `str`, language models, adapters and decision criteria that the program holds, frozen
parts, other settings of calls than `max_tokens` and `temperature`, demonstrations that lack a field. Field prefixes
are left out, because no adapter of DSPy 3.4 shows them. The prompt is ours (`luthier.harnesses.program.module`), not
that of a DSPy adapter, so scores inside and outside Luthier may differ. `luthier.harnesses.program.dspy_export` writes
programs that were not born in DSPy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from luthier.errors import InputError
from luthier.harnesses.program.harness import ProgramHarness
from luthier.harnesses.program.module import Demo, Module

_PLAIN_PARTS = ("Predict", "ChainOfThought", "Module")
_CALL_SETTINGS = ("max_tokens", "temperature")


def module_names(program: Any) -> dict[str, str]:
    """Module names for the predictors of a DSPy program, by predictor path, in DSPy's order.

    A path becomes a name with `_` for other signs, without the `.predict` of a ChainOfThought:
    `steps[0].predict` is `steps_0`.

    Args:
        program: A `dspy.Module`.

    Raises:
        InputError: no DSPy program, no predictor, or two paths with one name.
    """
    dspy = _dspy()
    if not isinstance(program, dspy.Module):
        raise InputError(f"{type(program).__name__} is no DSPy program", fix="give an instance of dspy.Module")
    names: dict[str, str] = {}
    for path, _ in program.named_predictors():
        name = re.sub(r"[^A-Za-z0-9]+", "_", path.removesuffix(".predict")).strip("_")
        if name in names.values():
            raise InputError(f"predictor {path!r} would be a second module {name!r}", fix="rename its attribute")
        names[path] = name
    if not names:
        raise InputError("the DSPy program has no predictor", fix="give one that holds a dspy.Predict")
    return names


def from_dspy(
    program: Any, wiring: str, *, style: str = "chat", max_tokens: int = 256, drop_incomplete_demos: bool = False
) -> ProgramHarness:
    """A program with the modules of a DSPy program.

    Args:
        program: A `dspy.Module`.
        wiring: What its `forward` does, as a graph over `module_names(program)`.
        style: chat or raw, for all modules.
        max_tokens: For modules that state none.
        drop_incomplete_demos: Leave out demonstrations that lack a field (labelled examples have no `reasoning`)
            instead of refusing them.

    Raises:
        InputError: DSPy is not installed, or the program has a part that is not supported; the part is named.
        HarnessError: the wiring or a module breaks a rule of programs.
    """
    names = module_names(program)
    _check_parts(program)
    _check_calls(program)
    modules = []
    for path, predictor in program.named_predictors():
        signature = predictor.signature
        _check_fields(path, signature)
        fields = (*signature.input_fields, *signature.output_fields)
        modules.append(
            Module(
                name=names[path],
                inputs=tuple(signature.input_fields),
                outputs=tuple(signature.output_fields),
                instruction=signature.instructions,
                demos=_demos(path, predictor.demos, fields, drop_incomplete_demos),
                descriptions=_descriptions(signature),
                style=style,
                max_tokens=_setting(path, predictor, "max_tokens", max_tokens),
                temperature=_setting(path, predictor, "temperature", 0),
            )
        )
    return ProgramHarness.of(modules, wiring)


def update_dspy(program: ProgramHarness, theirs: Any) -> Any:
    """A copy of a DSPy program with the instructions and demonstrations of ours; nothing else of it changes.

    Args:
        program: One that came from `from_dspy`, or has the same modules.
        theirs: The `dspy.Module`; it stays as it is.

    Raises:
        InputError: the modules of the two do not fit; the first difference is named.
    """
    dspy = _dspy()
    names = module_names(theirs)
    if sorted(names.values()) != sorted(program.modules):
        problem = f"the DSPy program has the modules {sorted(names.values())}, ours {sorted(program.modules)}"
        raise InputError(problem, fix="give the DSPy program that was imported")
    copy = theirs.deepcopy()
    for path, predictor in copy.named_predictors():
        module = program.modules[names[path]]
        fields = (*predictor.signature.input_fields, *predictor.signature.output_fields)
        if fields != module.fields:
            problem = f"predictor {path!r} has the fields {list(fields)}, module {module.name} {list(module.fields)}"
            raise InputError(problem, fix="give the DSPy program that was imported")
        predictor.signature = predictor.signature.with_instructions(module.instruction)
        predictor.demos = [dspy.Example(**demo).with_inputs(*module.inputs) for demo in module.demos]
    return copy


def with_dspy_state(program: ProgramHarness, state: Mapping[str, Any]) -> ProgramHarness:
    """The program with instructions and demonstrations from a state that DSPy saved (`module.save("x.json")`).

    Needs no DSPy.

    Args:
        program: One with a module for every predictor of the state.
        state: The content of the file; keys are module names (as `to_dspy` writes) or predictor paths.

    Raises:
        InputError: the state's predictors or demonstrations do not fit; field and fix are named.
    """
    if not isinstance(state, Mapping) or not all(isinstance(key, str) for key in state):
        raise InputError("not a JSON object of predictors", where="DSPy state", fix="save it with DSPy 3.4")
    rows = {key: row for key, row in state.items() if key != "metadata"}
    by_name = {re.sub(r"[^A-Za-z0-9]+", "_", key.removesuffix(".predict")).strip("_"): key for key in rows}
    keys = {name: name if name in rows else by_name.get(name) for name in program.modules}
    missing = [name for name, key in keys.items() if key is None]
    if missing or len(rows) != len(keys):
        problem = f"the state has the predictors {sorted(rows)}, the program the modules {sorted(program.modules)}"
        raise InputError(problem, where="DSPy state", fix="give a state of the same program")
    for name, key in keys.items():
        row = rows[str(key)]
        try:
            instruction, demos = row["signature"]["instructions"], row["demos"]
        except (KeyError, TypeError) as error:
            problem = f"predictor {key!r} has no signature.instructions or demos"
            raise InputError(problem, where="DSPy state", fix="save it with DSPy 3.4") from error
        if not isinstance(instruction, str):
            problem = f"predictor {key!r}, field signature.instructions is no text"
            raise InputError(problem, where="DSPy state", fix="save it with DSPy 3.4")
        fields = program.modules[name].fields
        program = program.with_instruction(name, instruction)
        program = program.with_demos(name, _demos(str(key), demos, fields, drop_incomplete=False))
    return program


def _dspy() -> Any:
    try:
        import dspy
    except ImportError as error:
        raise InputError(f"DSPy cannot be imported ({error})", fix="pip install 'luthier[dspy]'") from error
    return dspy


def _check_parts(program: Any) -> None:
    """Refuse parts whose behaviour a wiring and a signature cannot say."""
    dspy = _dspy()
    known = {id(predictor) for _, predictor in program.named_predictors()}
    for path, part in program.named_sub_modules():
        place = path.removeprefix("self.")
        if type(part).__module__.split(".")[0] == "dspy" and type(part).__name__ not in _PLAIN_PARTS:
            fix = "replace it by Predict or ChainOfThought; loops and tools belong to the wiring"
            raise InputError(f"part {place!r} is a dspy.{type(part).__name__}", where="DSPy program", fix=fix)
        if isinstance(part, dspy.Predict) and type(part) is not dspy.Predict:
            problem = f"part {place!r} is a {type(part).__name__}, a predictor with behaviour of its own"
            raise InputError(problem, where="DSPy program", fix="use dspy.Predict")
        if isinstance(part, dspy.Predict) and id(part) not in known:
            problem = f"predictor {place!r} is frozen (its parent is compiled) or nested where DSPy does not look"
            raise InputError(problem, where="DSPy program", fix="set `_compiled = False`, or make it an attribute")
        for name, value in sorted(vars(part).items()):
            if isinstance(value, dspy.Adapter):
                problem = f"{place}.{name} is an adapter ({type(value).__name__})"
                raise InputError(problem, where="DSPy program", fix="remove it; Luthier writes the prompts")


def _check_calls(program: Any) -> None:
    """Refuse what predictors do besides asking the target with a signature."""
    for path, predictor in program.named_predictors():
        if predictor.lm is not None:
            fix = "set lm = None; the target of the run answers"
            raise InputError(f"predictor {path!r} has a language model of its own", where="DSPy program", fix=fix)
        if getattr(predictor, "fields", None):
            fix = "remove them"
            raise InputError(f"predictor {path!r} has decision criteria", where="DSPy program", fix=fix)
        for name in sorted(predictor.config):
            if name not in _CALL_SETTINGS:
                problem = f"predictor {path!r} sets {name!r} for its calls"
                fix = f"keep only {' and '.join(_CALL_SETTINGS)}"
                raise InputError(problem, where="DSPy program", fix=fix)


def _setting(path: str, predictor: Any, name: str, default: int) -> Any:
    """A number that a predictor sets for its calls; `check_module` says which are allowed."""
    value = predictor.config.get(name) or default
    if isinstance(value, bool) or not isinstance(value, int | float):
        problem = f"predictor {path!r} sets {name!r} to {value!r}"
        raise InputError(problem, where="DSPy program", fix="set a number")
    return value


def _check_fields(path: str, signature: Any) -> None:
    for name, field in signature.fields.items():
        if field.annotation is not str:
            kind = getattr(field.annotation, "__name__", str(field.annotation))
            problem = f"predictor {path!r}, field {name!r} has the type {kind}"
            raise InputError(problem, where="DSPy program", fix="declare it as str; tools can read numbers and lists")


def _descriptions(signature: Any) -> dict[str, str]:
    """Descriptions that somebody wrote; DSPy fills in `${name}` where nobody did."""
    texts = {name: (field.json_schema_extra or {}).get("desc", "") for name, field in signature.fields.items()}
    return {name: text for name, text in texts.items() if text and text != f"${{{name}}}"}


def _demos(path: str, rows: Any, fields: tuple[str, ...], drop_incomplete: bool) -> tuple[Demo, ...]:
    """The signature's part of each demonstration; DSPy's marks (`augmented`, `dspy_uuid`) are left out."""
    if not isinstance(rows, list | tuple) or not all(hasattr(row, "items") for row in rows):
        problem = f"predictor {path!r}, field demos is no list of demonstrations"
        raise InputError(problem, where="DSPy program", fix="write a list, [] for none")
    demos: list[Demo] = []
    for number, row in enumerate(rows, start=1):
        values = dict(row.items())
        demo = {name: values[name] for name in fields if values.get(name) is not None}
        where = f"predictor {path!r}, demonstration {number}"
        if missing := [name for name in fields if name not in demo]:
            if drop_incomplete:
                continue
            fix = "complete it, or pass drop_incomplete_demos=True"
            raise InputError(f"{where} lacks {', '.join(missing)}", where="DSPy program", fix=fix)
        if wrong := [name for name in fields if not isinstance(demo[name], str)]:
            fix = "write it as a text"
            raise InputError(f"{where}, field {wrong[0]!r} is no str", where="DSPy program", fix=fix)
        demos.append(demo)
    return tuple(demos)
