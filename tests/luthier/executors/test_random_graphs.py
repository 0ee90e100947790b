"""300 random valid graphs: canonical text, JSON form, bounds and termination, whatever the answers are."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from luthier.execution import Limits
from luthier.executors.graph import calls_bound, llm_calls_min
from luthier.harnesses.graph.harness import GraphHarness
from luthier.harnesses.graph.json_form import from_json, to_json
from luthier.harnesses.pool.random_graph import random_graph
from luthier.target import Request

GRAPHS = 300
ANSWERS = ("7", "pear, fig, apple", "correct", "wrong", "2024-05-17", "word", "", "12 and 18", '{"a": 1}', "yes\nno")


def test_random_graphs_are_fixed_points_of_text_and_json() -> None:
    for seed in range(GRAPHS):
        graph = random_graph(random.Random(seed))
        assert GraphHarness.parse(graph.text).text == graph.text
        assert from_json(json.loads(json.dumps(to_json(graph)))).text == graph.text


def test_random_graphs_run_within_their_bounds_and_end(run: Callable[..., Any]) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(GRAPHS):
        rng = random.Random(seed)
        graph = random_graph(rng)

        def answer(request: Request, rng: random.Random = rng) -> str:
            return rng.choice(request.choices or ANSWERS)

        result, batches = run("graph", graph.text, answer, seed=seed)
        calls = sum(map(len, batches))
        outcomes[result.outcome] += 1
        assert calls <= calls_bound(graph)
        assert result.outcome in ("ok", "noop", "incomplete")
        assert len(result.trace) <= Limits().steps
        if result.outcome == "ok":
            assert calls >= llm_calls_min(graph)
            assert result.answer
        else:
            assert result.error
    assert outcomes["ok"] > GRAPHS / 3
    assert outcomes["noop"] > 0


def test_random_graphs_are_seeded_and_varied() -> None:
    texts = [random_graph(random.Random(seed)).text for seed in range(40)]
    assert texts == [random_graph(random.Random(seed)).text for seed in range(40)]
    assert len(set(texts)) > 30
