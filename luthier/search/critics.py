"""Critics: who says what was wrong with one value of a run. One asks a model, one reads the values (ours, offline).

TextGrad's backward step (textgrad 0.1.8), in our words: what is said of a call's output is turned into
what is said of its instruction and of each of its inputs. No answer ("nothing") means that the value is fine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from luthier.ledger.meter import Meter
from luthier.search.call_graph import Call, CallGraph, Edge
from luthier.search.contracts import TextDraft
from luthier.search.fault_rules import blame
from luthier.target import Failure, Message, Request

_NOTHING = re.compile(r"\W*(nothing|none|no complaint)\b\W*", re.IGNORECASE)
_SYSTEM = """You find out why a program that runs a language model failed. You are shown one of its calls and what \
was wrong with the call's output, and you are asked about one thing that the output was made from. Say in one or \
two sentences what is wrong with that thing and what it would have to be like. Judge that thing alone. Do not write \
a new version of it. When it is fine as it is, reply with the one word: nothing"""
_ASK = """The program ended with: {answer}
What was said of that: {loss}

The call is named {label}. Its instruction:
```
{instruction}
```
Its inputs:
{inputs}
Its output:
{output}

What was wrong with this output: {criticism}

{question}"""


@dataclass(frozen=True, slots=True)
class CriticQuestion:
    """One question to a critic.

    Attributes:
        graph: The whole run. loss: What the task said of it. answer: How it ended.
        call: The call whose output was criticised. criticism: What was said of that output.
        instruction: Of the call's module.
        edge: The input or choice in question; None asks about the instruction.
    """

    graph: CallGraph
    loss: str
    call: Call
    criticism: str
    instruction: str
    edge: Edge | None = None

    @property
    def about(self) -> str:
        """Name of what is asked about, as logs have it."""
        if self.edge is None:
            return "instruction"
        source = self.graph.calls[self.edge.source].node
        return f"{self.edge.role} {self.edge.name} of {source}"


class Critic(Protocol):
    """Says what was wrong."""

    @property
    def name(self) -> str:
        """What logs and reports call it."""
        ...

    def criticise(self, asks: Sequence[CriticQuestion], purposes: Sequence[str]) -> list[TextDraft]:
        """Answers in order, "" for no complaint. Purposes are unique in the run and equal on replay."""
        ...


@dataclass(frozen=True, slots=True)
class OfflineCritic:
    """Rules that locate blame from values alone (ours, offline); see `luthier.search.fault_rules`.

    Where a fault is evident, criticism goes to it and nowhere else; otherwise to all suspects.
    """

    name: str = "offline critic (ours, offline)"

    def criticise(self, asks: Sequence[CriticQuestion], purposes: Sequence[str]) -> list[TextDraft]:
        """See `Critic`; costs nothing and depends on the asks alone."""
        return [
            TextDraft(
                blame(ask.graph, ask.loss).get(ask.call.place, "") if ask.edge is None else _passed(ask, ask.edge)
            )
            for ask in asks
        ]


@dataclass(frozen=True)
class ModelCritic:
    """Asks a model, all questions of a round in one batch.

    Attributes:
        meter: Pays; its role must be `critic` and its ledger that of the search.
        max_tokens: Longest answer. temperature: Of the critic; its seed is that of the meter.
        max_characters: Each value is cut here, so that a prompt cannot grow without bound (ours).

    Raises:
        InputError: the meter has another role.
    """

    meter: Meter = field(repr=False)
    max_tokens: int = 128
    temperature: float = 0.0
    max_characters: int = 1500

    def __post_init__(self) -> None:
        self.meter.require_role("critic", self.name)

    @property
    def name(self) -> str:
        """What logs and reports call it."""
        return f"model {self.meter.target.name}"

    def criticise(self, asks: Sequence[CriticQuestion], purposes: Sequence[str]) -> list[TextDraft]:
        """See `Critic`. A call that the machine failed is a draft with a problem.

        Raises:
            CallsExhausted: the budget does not reach.
            TargetError: the target serves nothing at all.
        """
        requests = [
            Request(
                (Message("system", _SYSTEM), Message("user", question_text(ask, self.max_characters))),
                self.max_tokens,
                self.temperature,
                seed=self.meter.context.seed if self.temperature else 0,
            )
            for ask in asks
        ]
        answers = self.meter.complete(requests, purposes)
        return [
            TextDraft("", str(answer.error)) if isinstance(answer, Failure) else TextDraft(complaint(answer.text))
            for answer in answers
        ]


def question_text(ask: CriticQuestion, max_characters: int) -> str:
    """The prompt of one question."""
    call = ask.call
    fields = {
        "answer": ask.graph.answer or "(no answer)",
        "loss": ask.loss,
        "label": call.label,
        "instruction": ask.instruction,
        "inputs": "\n".join(f"  {name}: {cut(value, max_characters)}" for name, value in call.inputs),
        "output": cut(call.output, max_characters) or "(nothing)",
        "criticism": ask.criticism,
        "question": _question(ask, max_characters),
    }
    # Not str.format, nor one replacement after another: values may hold braces.
    return re.sub(rf"\{{({'|'.join(fields)})\}}", lambda match: fields[match.group(1)], _ASK)


def complaint(text: str) -> str:
    """A critic's answer, "" when it finds nothing wrong."""
    text = text.strip()
    return "" if _NOTHING.fullmatch(text) else text


def cut(text: str, most: int) -> str:
    """A text, at most so many characters of it."""
    return text if len(text) <= most else f"{text[:most]} [cut]"


def _question(ask: CriticQuestion, max_characters: int) -> str:
    if ask.edge is None:
        return "What is wrong with the instruction of this call?"
    source = ask.graph.calls[ask.edge.source]
    value = cut(ask.edge.value, max_characters) or "(nothing)"
    if ask.edge.role == "value":
        return f"Its input {ask.edge.name} was made by {source.label}: {value}\nWhat is wrong with this input?"
    known = f" (it looks for: {', '.join(ask.edge.known)})" if ask.edge.known else ""
    return (
        f"It ran because the program looked at {ask.edge.name}{known}, and {source.label} had written: {value}\n"
        f"What is wrong with what {source.label} wrote?"
    )


def _passed(ask: CriticQuestion, edge: Edge) -> str:
    """What the rules say of an input, or of a choice: nothing when no blame lies in that direction."""
    source = ask.graph.calls[edge.source]
    behind = {source.place, *(call.place for call in ask.graph.upstream(source.place))}
    if not behind & blame(ask.graph, ask.loss).keys():
        return ""
    way = f"as {edge.name}" if edge.role == "value" else f"through the choice by {edge.name}"
    return f"It reached {ask.call.label} {way}, and what followed was wrong: {ask.loss}"
