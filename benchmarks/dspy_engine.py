"""DSPy 3.4.1 on a target of ours: its calls go one by one through a meter, and its prompts are those of our modules.

The engine is DSPy's own extension point (`dspy.LM(engine=...)`, dspy 3.4.1): one attempt a call, no cache, no
retries, so every call passes here. The adapter writes the prompt that `luthier.harnesses.program.module` writes and
reads the answer as our executor does; so a DSPy program and ours with equal texts ask the model the same thing, and
what differs between two runs is the optimizer. Demonstrations that lack a field are left out, because our modules have
none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dspy
from dspy.lm15 import Message as DspyMessage
from dspy.lm15 import Response, TextPart
from dspy.lm15 import Usage as DspyUsage

from luthier.errors import BudgetExhausted
from luthier.executors.llm_calls import build_prompt, read_answer
from luthier.harnesses.program.harness import ProgramHarness
from luthier.harnesses.program.module import Module, implementation_of
from luthier.ledger.meter import Meter
from luthier.question import Question
from luthier.target import Completion, Message, Request


class MeterEngine:
    """A DSPy engine over a meter.

    Args:
        meter: Pays for each call. A limit that is reached raises `BudgetExhausted`, which DSPy does not swallow; from
            then on every call is refused.
        raw: The one message is the raw prompt of a module with one output.
    """

    def __init__(self, meter: Meter, *, raw: bool = False) -> None:
        self._meter, self._raw = meter, raw
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
        prompt, stop = (messages[0].content, ("\n",)) if self._raw else (messages, tuple(config.stop or ()))
        asked = Request(prompt, config.max_tokens or 256, config.temperature or 0.0, stop=stop)
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
    """Writes and reads like a module of ours.

    Args:
        style: chat, or raw: then the prompt is one message, for an engine that is raw, too.
    """

    def __init__(self, style: str = "chat") -> None:
        super().__init__()
        self._style = style

    def format(self, signature: Any, demos: list[Any], inputs: dict[str, Any]) -> list[dict[str, Any]]:
        """Messages of the module that this signature, these demonstrations and inputs make."""
        module = _module(signature, demos, self._style)
        prompt = build_prompt(implementation_of(module), [str(inputs.get(name, "")) for name in module.inputs])
        messages = (Message("user", prompt),) if isinstance(prompt, str) else prompt
        return [{"role": message.role, "content": message.content} for message in messages]

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """Output fields; "" for those that cannot be read."""
        module = _module(signature, [], self._style)
        value = read_answer(implementation_of(module), completion)
        texts = value if isinstance(value, list) else [value]
        return dict(zip(module.outputs, texts, strict=True))


def examples(questions: list[Question]) -> list[dspy.Example]:
    """Questions as DSPy has them: input `question`, label `answer`."""
    return [dspy.Example(question=q.text, answer=q.reference).with_inputs("question") for q in questions]


def _module(signature: Any, demos: list[Any], style: str) -> Module:
    inputs, outputs = tuple(signature.input_fields), tuple(signature.output_fields)
    fields = (*inputs, *outputs)
    rows = [dict(demo.items()) for demo in demos]
    whole = [
        {name: str(row[name]) for name in fields} for row in rows if all(row.get(name) is not None for name in fields)
    ]
    texts = {name: (field.json_schema_extra or {}).get("desc", "") for name, field in signature.fields.items()}
    described = {name: text for name, text in texts.items() if text and text != f"${{{name}}}"}
    return Module("module", inputs, outputs, signature.instructions, tuple(whole), described, style=style)
