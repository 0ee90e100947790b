"""A question's way through the harness that was written for it, as text and as JSON: harness, trace, answer, cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from luthier.evaluation.evaluate import Result, parsed
from luthier.execution import Step
from luthier.executors.job import InvalidHarness
from luthier.harnesses.graph.text_picture import to_text
from luthier.ledger.budget import PICO, Tariff
from luthier.ledger.prices import PriceTag
from luthier.target import Usage

_LONGEST_VALUE, _LONGEST_HARNESS = 160, 24


def transcript(
    question: str, result: Result, prices: Mapping[Tariff, PriceTag], *, scored: bool, reference: str = ""
) -> str:
    """What happened to one question, for a person.

    Args:
        question: Its text.
        result: Harness and execution.
        prices: Of the roles `target` and `generator`.
        scored: Whether the score means something: the question had a reference.
        reference: Shown beside a wrong answer.
    """
    execution = result.execution
    harness = parsed(execution.kind, result.text)
    lines = [f"question  {question}", ""]
    if isinstance(harness, InvalidHarness):
        lines += [f"harness   no valid {execution.kind}; what was written:", *_indented(_cut_lines(result.text))]
    else:
        lines += [f"harness   {execution.kind}, calls of the model in brackets", *_indented(to_text(harness))]
        if execution.kind == "graph" and harness.text.count("\n") < _LONGEST_HARNESS:
            lines += ["", *_indented(harness.text)]
    lines += ["", "trace"] if execution.trace else []
    lines += [f"  {number:2}  {_step(step)}" for number, step in enumerate(execution.trace, start=1)]
    lines += ["", f"answer    {execution.answer}" if execution.outcome == "ok" else f"no answer ({execution.outcome})"]
    if execution.error:
        lines.append(f"          {_cut(execution.error)}")
    if scored:
        right = execution.score == 1.0
        lines.append(
            "score     right" if right else f"score     {execution.score:g}, the reference is {_cut(reference)}"
        )
    return "\n".join([*lines, f"cost      {_cost(result, prices)}"])


def transcript_row(question: str, result: Result, prices: Mapping[Tariff, PriceTag], *, scored: bool) -> dict[str, Any]:
    """The same for a machine; `usd` is None where a price is unknown, `score` where there was no reference."""
    execution = result.execution
    return {
        "question": question,
        "kind": execution.kind,
        "harness": result.text,
        "outcome": execution.outcome,
        "answer": execution.answer,
        "score": execution.score if scored else None,
        "error": execution.error,
        "trace": [
            {"node": step.node, "kind": step.kind, "inputs": dict(step.inputs), "output": step.output}
            for step in execution.trace
        ],
        "calls": execution.usage.calls,
        "target_tokens": _tokens(execution.usage),
        "generator_tokens": _tokens(result.proposal),
        "usd": _usd(result, prices),
    }


def _step(step: Step) -> str:
    inputs = ", ".join(f"{name}={_value(value)}" for name, value in step.inputs.items())
    tokens = f"  ({_tokens(step.usage)} tokens)" if step.usage.calls else ""
    return f"{step.node}: {_cut(inputs)} → {_value(step.output)}{tokens}"


def _cost(result: Result, prices: Mapping[Tariff, PriceTag]) -> str:
    usage, written = result.execution.usage, result.proposal
    calls = "one call" if usage.calls == 1 else f"{usage.calls} calls"
    parts = [f"{calls} and {_tokens(usage):,} tokens of the target"]
    if written.calls:
        parts.append(f"{_tokens(written):,} tokens of the generator")
    usd = _usd(result, prices)
    return f"{', '.join(parts)}; " + ("price unknown" if usd is None else f"{1000 * usd:.4g} USD for a thousand such")


def _usd(result: Result, prices: Mapping[Tariff, PriceTag]) -> float | None:
    """As if alone: what the store saved is not taken off."""
    usages: dict[Tariff, Usage] = {"target": result.execution.usage, "generator": result.proposal}
    total = 0
    for role, usage in usages.items():
        tag = prices.get(role)
        if usage.calls and (tag is None or tag.price is None):
            return None
        if tag is not None and tag.price is not None:
            total += tag.price.picodollars(usage.prompt_tokens, usage.completion_tokens)
    return total / PICO


def _tokens(usage: Usage) -> int:
    return usage.prompt_tokens + usage.completion_tokens


def _value(value: Any) -> str:
    return _cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_VALUE else f"{line[: _LONGEST_VALUE - 1]}…"


def _cut_lines(text: str) -> str:
    lines = text.splitlines() or ["(empty)"]
    more = [f"… ({len(lines) - _LONGEST_HARNESS} more lines)"] if len(lines) > _LONGEST_HARNESS else []
    return "\n".join([*map(_cut, lines[:_LONGEST_HARNESS]), *more])


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]
