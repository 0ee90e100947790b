"""One llm node's calls: from an implementation and its inputs to requests, and from texts to values."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence

from luthier.harnesses.graph.implementation import Implementation, fill
from luthier.target import Message, Request
from luthier.tools.values import ToolInputError, Value, parse_list, parse_numbers, render

_THINK = 'Think step by step. End with a line "Answer:" and the answer.'
_ANSWER = re.compile(r"answer\s*(?:is\s*:?|:)\s*", re.IGNORECASE)
_LETTER = re.compile(r"(?<![A-Za-z])([A-Z])(?![A-Za-z])")


def build_requests(
    implementation: Implementation,
    inputs: Sequence[Value],
    *,
    samples: int,
    temperature: float,
    max_tokens: int,
    seed: int,
    visit: int,
) -> list[Request]:
    """The requests of one visit of an llm node, one per sample.

    The seed of a sampled call depends on the run seed, the prompt, the sample's index and the visit, and on
    nothing else of the harness, so that equal sampled calls of different harnesses are one call. Greedy calls
    have seed 0.

    Args:
        implementation: How the node asks.
        inputs: Values in the order of `implementation.reads`.
        samples: How many completions.
        temperature: Of this node.
        max_tokens: Of this node.
        seed: The run's seed.
        visit: Earlier executions of the node.
    """
    prompt = build_prompt(implementation, [show(value) for value in inputs])
    return [
        Request(
            prompt=prompt,
            max_tokens=max_tokens,
            temperature=temperature,
            seed=sample_seed(seed, prompt, sample, visit) if temperature > 0 else 0,
            stop=implementation.stop,
            choices=implementation.choices,
        )
        for sample in range(samples)
    ]


def sample_seed(seed: int, prompt: str | tuple[Message, ...], sample: int, visit: int) -> int:
    """Seed of one sampled call, 31 bits."""
    content = prompt if isinstance(prompt, str) else [[message.role, message.content] for message in prompt]
    digest = hashlib.sha256(json.dumps([seed, content, sample, visit], ensure_ascii=False).encode())
    return int.from_bytes(digest.digest()[:4], "big") >> 1


def build_prompt(implementation: Implementation, inputs: Sequence[str]) -> str | tuple[Message, ...]:
    """Chat messages (worked examples as turns) or a raw text that ends right after the question."""
    ask = fill(implementation.ask, dict(zip(implementation.reads, inputs, strict=True)))
    shots = [(fill(implementation.ask, dict(shot.values)), shot.out) for shot in implementation.shots]
    if implementation.style == "raw":
        role = f"{implementation.role}\n\n" if implementation.role else ""
        return role + "".join(f"{question} {out}\n\n" for question, out in shots) + ask
    messages = [Message("system", implementation.role)] if implementation.role else []
    for question, out in shots:
        messages += [Message("user", question), Message("assistant", out)]
    think = f"\n{_THINK}" if implementation.reasoning == "cot" else ""
    return (*messages, Message("user", ask + think))


def show(value: Value) -> str:
    """A value inside a prompt: lists of two items or more as numbered lines, everything else as its text."""
    if isinstance(value, list) and len(value) > 1:
        return "\n".join(f"{number}. {render(item)}" for number, item in enumerate(value, start=1))
    return render(value)


def read_answer(implementation: Implementation, text: str) -> Value:
    """A completion as a value. What cannot be read is empty ("" or []), so that other samples still count.

    With `reasoning: cot` only what follows the last "Answer:" is read, or the last line when there is none.
    """
    text = text.strip()
    if implementation.labels:
        return read_labelled(implementation, text)
    if implementation.reasoning == "cot":
        text = _after_thinking(text, implementation.parse)
    if implementation.parse == "text":
        return text
    if implementation.parse == "line":
        return next((line.strip() for line in text.split("\n") if line.strip()), "")
    if implementation.parse in ("number", "last_number"):
        return _read_number(text, 0 if implementation.parse == "number" else -1)
    if implementation.parse == "letter":
        found = _LETTER.search(text)
        return found.group(1) if found else ""
    if implementation.parse == "choice":
        return _read_choice(text, implementation.choices)
    if implementation.parse == "list":
        try:
            return parse_list(text)
        except ToolInputError:
            return []
    return _read_json(text)


def read_labelled(implementation: Implementation, text: str) -> Value:
    """The outputs of a program's module.

    One output is the whole text without its own label. Several are found by their labels at line starts, in any
    case and with markdown signs around them; a value goes on until the next label. What stands before the first
    label belongs to the first output of a raw module, whose prompt ends with that label, and to none else. Of
    a label that comes again the first text counts; an output that is not found is "".

    Args:
        implementation: One with `labels`.
        text: The completion, stripped.
    """
    labels = implementation.labels
    pattern = _label_line(labels)
    if len(labels) == 1:
        match = pattern.match(text)
        return text[match.end() :].strip() if match else text
    parts: list[tuple[str, list[str]]] = [(labels[0].casefold() if implementation.style == "raw" else "", [])]
    for line in text.split("\n"):
        match = pattern.match(line)
        if match:
            parts.append((match.group(1).casefold(), [line[match.end() :]]))
        else:
            parts[-1][1].append(line)
    found: dict[str, str] = {}
    for label, lines in parts:
        if value := "\n".join(lines).strip():
            found.setdefault(label, value)
    return [found.get(label.casefold(), "") for label in labels]


def _label_line(labels: Sequence[str]) -> re.Pattern[str]:
    names = "|".join(re.escape(label) for label in sorted(labels, key=lambda label: (-len(label), label)))
    return re.compile(rf"[\s*_#>-]*({names})[*_]*\s*:[*_]*[ \t]*", re.IGNORECASE)


def _after_thinking(text: str, parse: str) -> str:
    found = list(_ANSWER.finditer(text))
    if found and text[found[-1].end() :].strip():
        return text[found[-1].end() :].strip()
    return text if parse in ("text", "json", "last_number") else text.rsplit("\n", 1)[-1].strip()


def _read_number(text: str, index: int) -> str:
    try:
        return render(parse_numbers(text)[index])
    except ToolInputError:
        return ""


def _read_choice(text: str, choices: Sequence[str]) -> str:
    """The choice that the text is or begins with, the longest first; without choices the first word, lower case."""
    folded = " ".join(text.casefold().split())
    if not choices:
        words = re.findall(r"\w+", folded)
        return words[0] if words else ""
    for choice in sorted(choices, key=lambda item: (-len(item), item)):
        if folded.startswith(" ".join(choice.casefold().split())):
            return choice
    return ""


def _read_json(text: str) -> Value:
    """The first JSON object or list in a text, "" when there is none."""
    decoder = json.JSONDecoder()
    for match in re.finditer(r"[{\[]", text):
        try:
            value = decoder.raw_decode(text, match.start())[0]
            json.dumps(value, allow_nan=False).encode()
        except (ValueError, RecursionError):
            continue
        return value
    return ""
