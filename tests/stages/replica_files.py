"""Replicas as the flow would collect them, small enough to sum up by hand: 6 test questions and 2 held-out ones."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from luthier.evaluation.evaluate import Result
from luthier.evaluation.method_run import Spend
from luthier.evaluation.spending import Milestone
from luthier.execution import Execution
from luthier.files import write_json, write_rows
from luthier.ledger.budget import Amount
from luthier.question import Question, read_questions
from luthier.target import Usage

METHOD = "mas_architect"
SEEDS = (17, 18)
RIGHT = {
    17: {
        "target_alone": {0},
        "best_fixed": {0, 1},
        "sft": {0, 1},
        "reinforce_1": {0, 1, 2},
        "reinforce": {0, 1, 2, 3},
    },
    18: {
        "target_alone": {0},
        "best_fixed": {0, 1},
        "sft": {0},
        "reinforce_1": {0, 1, 2, 6},
        "reinforce": {0, 1, 2, 3, 4, 5},
    },
}
"""Places of the questions that a contender answers right, by seed."""
GRAPH, BROKEN = "answer = gcd(question)", "answer = nothing("
TARGET_USE, GENERATOR_USE = Usage(1, 20, 2), Usage(1, 30, 3)
CALLS = {"sft": 16, "reinforce_1": 26, "reinforce": 46}
TOKENS = {"sft": 1100 + 220 + 3 * 330, "reinforce_1": 1100 + 220 + 3 * 330 + 550, "reinforce": 3960}
"""Spent until a checkpoint with seed 17; with seed 18 twice the tokens for the same calls. Trained tokens count 3."""


def write_replicas(root: Path, seeds: tuple[int, ...] = SEEDS) -> None:
    """Write data/replicas/mas_architect/<seed>/ for the questions of a project."""
    test = read_questions(root / "data" / "questions" / "test.jsonl")
    held_out = read_questions(root / "data" / "questions" / "held_out.jsonl")
    for seed in seeds:
        folder = root / "data" / "replicas" / METHOD / str(seed)
        for name, questions, first in (("executions", test, 0), ("held_out", held_out, len(test))):
            rows = [
                result(contender, question, place, place in right).to_row()
                for contender, right in RIGHT[seed].items()
                for place, question in enumerate(questions, start=first)
            ]
            write_rows(folder / f"{name}.jsonl", rows)
        scores = {name: {"pooled": {"mean": 0.1 * rank}} for rank, name in enumerate(CALLS, start=1)}
        write_json(folder / "scores.json", {"validation": scores})
        bill = [Milestone(stage, spent(stage, 1 if seed == 17 else 2)) for stage in CALLS]
        write_json(folder / "spending.json", [json.loads(json.dumps(asdict(item.repeatable()))) for item in bill])
        paid = root / "reports" / "paid" / "replicas" / METHOD / f"{seed}.json"
        write_json(paid, [json.loads(json.dumps(asdict(item))) for item in bill])


def result(contender: str, question: Question, place: int, right: bool) -> Result:
    """A row of the evaluation; the last question's harness of every checkpoint does not parse."""
    learned = contender in CALLS
    text = BROKEN if learned and place == 7 else GRAPH
    execution = Execution(
        question.id,
        "d" * 64,
        "graph",
        "scripted",
        17,
        "ok",
        "x",
        float(right),
        usage=TARGET_USE if learned else Usage(1),
    )
    return Result(contender, question.id, question.family, text, GENERATOR_USE if learned else Usage(), execution)


def spent(stage: str, factor: int) -> tuple[Spend, ...]:
    """What was spent until a checkpoint was done."""
    explored = {"sft": (0, 0, 0), "reinforce_1": (10, 500, 50), "reinforce": (30, 1500, 150)}[stage]
    parts = (
        ("data", "target", (10, 1000, 100), False),
        ("train", "generator", (2, 200, 20), False),
        ("train", "generator", (4, 300, 30), True),
        ("train", "target", explored, False),
    )
    amounts = [
        (account, role, Amount(0, calls, factor * prompt, factor * completion, 1.0, None), trained)
        for account, role, (calls, prompt, completion), trained in parts
    ]
    return tuple(Spend(account, role, amount, amount, trained) for account, role, amount, trained in amounts)
