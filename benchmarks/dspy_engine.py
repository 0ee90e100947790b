"""DSPy 3.4.1 on a target of ours: its calls go one by one through a meter, and its prompts are those of our modules.

The engine is DSPy's own extension point (`dspy.LM(engine=...)`, optimizers.md 12.2): one attempt a call, no cache, no
retries, so every call passes here. The adapter writes the prompt that `luthier.harnesses.module` writes and reads the
answer as our executor does; so a DSPy program and ours with equal texts ask the model the same thing, and what differs
between two runs is the optimizer. Demonstrations that lack a field are left out, because our modules have none.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy
from dspy.lm15 import Message as DspyMessage
from dspy.lm15 import Response, TextPart
from dspy.lm15 import Usage as DspyUsage

from luthier.errors import BudgetExhausted
from luthier.executors.calls import build_prompt, read_answer
from luthier.harnesses.dspy_export import to_dspy
from luthier.harnesses.module import Module, implementation_of
from luthier.harnesses.program import ProgramHarness
from luthier.meter import Meter
from luthier.question import Question
from luthier.target import Completion, Message, Request


class MeterEngine:
    """A DSPy engine over a meter.

    Args:
        meter: Pays for each call. A limit that is reached raises `BudgetExhausted`, which DSPy does not swallow; from
            then on every call is refused.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._refused: BudgetExhausted | None = None

    def complete(self, request: Any) -> Response:
        """One call. An empty answer becomes a space, which DSPy does not take for a failure.

        Raises:
            BudgetExhausted: the budget does not reach.
            RuntimeError: the machine failed; DSPy counts it against the item.
        """
        if self._refused is not None:
            raise self._refused
        system = [Message("system", str(request.system))] if request.system else []
        messages = (*system, *(Message(message.role, message.text) for message in request.messages))
        config = request.config
        asked = Request(messages, config.max_tokens or 256, config.temperature or 0.0, stop=tuple(config.stop or ()))
        try:
            answer = self._meter.complete([asked])[0]
        except BudgetExhausted as reason:
            self._refused = reason
            raise
        if not isinstance(answer, Completion):
            raise RuntimeError(str(answer.error))
        return respond(answer.text, answer.usage.prompt_tokens, answer.usage.completion_tokens)

    def stream(self, request: Any) -> Any:
        """Not offered."""
        raise RuntimeError("this engine answers whole requests only; call DSPy without streaming")

    def close(self) -> None:
        """The target is closed by its owner."""


def respond(text: str, read: int = 0, written: int = 0) -> Response:
    """A response as DSPy's engines give it."""
    usage = DspyUsage(input_tokens=read, output_tokens=written, total_tokens=read + written)
    message = DspyMessage.assistant([TextPart(text or " ")])
    return Response(id=None, model="luthier", message=message, finish_reason="stop", usage=usage)


class ListedEngine:
    """DSPy's `prompt_model`, serving a list of instructions for each module.

    Args:
        program: Its modules' instructions tell them apart.
        texts: Instructions by module. DSPy's proposer drops the first that it gets, so a dash comes before them.
    """

    def __init__(self, program: ProgramHarness, texts: Mapping[str, Sequence[str]]) -> None:
        self._left = {program.modules[name].instruction: iter(["-", *items]) for name, items in texts.items()}

    def complete(self, request: Any) -> Any:
        """An instruction where one is asked for, else a dash."""
        asked = request.messages[-1].text
        if not asked.endswith("Proposed Instruction:"):
            return respond("-")
        served = [left for seed, left in self._left.items() if f"Basic Instruction: {seed}" in asked]
        return respond(next(served[0]))

    def stream(self, request: Any) -> Any:
        """Not offered."""
        raise RuntimeError("this engine answers whole requests only; call DSPy without streaming")

    def close(self) -> None:
        """Nothing to give back."""


class ModuleAdapter(dspy.Adapter):
    """Writes and reads like a module of ours."""

    def format(self, signature: Any, demos: list[Any], inputs: dict[str, Any]) -> list[dict[str, Any]]:
        """Chat messages of the module that this signature, these demonstrations and inputs make."""
        module = _module(signature, demos)
        prompt = build_prompt(implementation_of(module), [str(inputs.get(name, "")) for name in module.inputs])
        return [
            {"role": message.role, "content": message.content} for message in prompt if isinstance(message, Message)
        ]

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """Output fields; "" for those that cannot be read."""
        module = _module(signature, [])
        value = read_answer(implementation_of(module), completion)
        texts = value if isinstance(value, list) else [value]
        return dict(zip(module.outputs, texts, strict=True))


def examples(questions: list[Question]) -> list[dspy.Example]:
    """Questions as DSPy has them: input `question`, label `answer`."""
    return [dspy.Example(question=q.text, answer=q.reference).with_inputs("question") for q in questions]


def dspy_program(program: ProgramHarness, folder: Path) -> Any:
    """A straight program as DSPy has it, imported from a file, because DSPy's proposer reads its source."""
    path = folder / "dspy_program.py"
    path.write_text(to_dspy(program).source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("dspy_program", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"cannot import {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.Program()


def _module(signature: Any, demos: list[Any]) -> Module:
    inputs, outputs = tuple(signature.input_fields), tuple(signature.output_fields)
    fields = (*inputs, *outputs)
    rows = [dict(demo.items()) for demo in demos]
    whole = [
        {name: str(row[name]) for name in fields} for row in rows if all(row.get(name) is not None for name in fields)
    ]
    texts = {name: (field.json_schema_extra or {}).get("desc", "") for name, field in signature.fields.items()}
    described = {name: text for name, text in texts.items() if text and text != f"${{{name}}}"}
    return Module("module", inputs, outputs, signature.instructions, tuple(whole), described)
