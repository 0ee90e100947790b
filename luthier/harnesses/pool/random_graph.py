"""Seeded random valid graphs over the shipped presets and tools: a baseline of search, and food for property tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from luthier.errors import HarnessError
from luthier.harnesses.graph.harness import GraphHarness
from luthier.harnesses.graph.presets import presets
from luthier.tools.registry import TOOLS

_MAX_DRAWS = 500


def random_graph(rng: random.Random) -> GraphHarness:
    """A valid graph of one of five shapes (chain, samples, fan-out, guarded loop, conditional), drawn with `rng`.

    Drafts that break a rule (a tool fed with what it cannot read) are drawn again, so every valid draft of a
    shape stays equally likely.

    Raises:
        RuntimeError: no valid draft in 500 draws: the presets leave nothing to draw from.
    """
    for _ in range(_MAX_DRAWS):
        shape = rng.choice(_SHAPES)
        try:
            return GraphHarness.parse(shape(rng))
        except HarnessError:
            continue
    raise RuntimeError("no valid graph in 500 draws; check luthier/harnesses/graph/presets.yaml")


def _first(rng: random.Random) -> str:
    """An llm step on the question alone."""
    return rng.choice([name for name, item in presets().items() if len(item.reads) == 1])


def _second(rng: random.Random, count: int) -> str:
    """An llm step on the question and `count - 1` earlier results."""
    return rng.choice([name for name, item in presets().items() if len(item.reads) == count] or [_first(rng)])


def _tool(rng: random.Random) -> str:
    return rng.choice([name for name, tool in TOOLS.items() if tool.min_args == 1])


def _tail(rng: random.Random, source: str, *, most: int = 2) -> list[str]:
    """Up to `most` tools, the last result in `answer`."""
    names = [_tool(rng) for _ in range(rng.randint(0, most))] or ["copy"]
    states = [f"t{position}" for position in range(1, len(names))] + ["answer"]
    return [f"{w} = {n}({r})" for w, n, r in zip(states, names, [source, *states[:-1]], strict=True)]


def _chain(rng: random.Random) -> str:
    lines = [f"a = {_first(rng)}(question){_sampling(rng)}"]
    if rng.random() < 0.4:
        lines.append(f"b = {_second(rng, 2)}(question, a)")
    return "\n".join([*lines, *_tail(rng, "b" if len(lines) > 1 else "a", most=3)])


def _samples(rng: random.Random) -> str:
    lines = [f"drafts = {_first(rng)}(question) n={rng.randint(2, 5)} temperature={rng.choice((0.5, 0.7, 1))}"]
    pick = "best = vote(drafts)" if rng.random() < 0.6 else f"best = {_second(rng, 2)}(question, drafts)"
    return "\n".join([*lines, pick, *_tail(rng, "best")])


def _fan_out(rng: random.Random) -> str:
    branches = [f"b{position}" for position in range(1, rng.randint(2, 4) + 1)]
    lines = [f"start: note = {_first(rng)}(question)", f"  -> {', '.join(branches)}"]
    for name in branches:
        lines.append(f"{name}: r_{name} = {_second(rng, 2)}(question, note){_sampling(rng)}")
        lines.append("  -> join")
    lines.append(f"join: both = {rng.choice(('merge', 'vote'))}({', '.join(f'r_{name}' for name in branches)})")
    return "\n".join([*lines, *_tail(rng, "both")])


def _loop(rng: random.Random) -> str:
    guard = rng.choice(('verdict != "correct"', "len(verdict) > 2", 'not (verdict in ["yes", "correct"])'))
    return "\n".join(
        [
            f"limits visits={rng.randint(2, 5)}",
            f"draft = {_first(rng)}(question)",
            f"check: verdict = {_second(rng, 2)}(question, draft)",
            f"  if {guard} and visits.check < {rng.randint(2, 4)} -> fix else done",
            f"fix: draft = {_second(rng, 2)}(question, draft){_sampling(rng)}",
            "  -> check",
            "done: " + _tail(rng, "draft", most=1)[0],
        ]
    )


def _conditional(rng: random.Random) -> str:
    guard = rng.choice(('"a" in kind', "len(kind) < 8", 'kind == "yes" or kind == "no"'))
    return "\n".join(
        [
            f"kind = {_first(rng)}(question)",
            f"  if {guard} -> left else right",
            f"left: a = {_first(rng)}(question)",
            "  -> done",
            f"right: a = {_second(rng, 2)}(question, kind)",
            "done: " + _tail(rng, "a", most=1)[0],
        ]
    )


def _sampling(rng: random.Random) -> str:
    return f" temperature={rng.choice((0.3, 0.7, 1))}" if rng.random() < 0.3 else ""


_SHAPES: Sequence[Callable[[random.Random], str]] = (_chain, _samples, _fan_out, _loop, _conditional)
