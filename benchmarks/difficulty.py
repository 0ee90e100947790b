"""Do instructions and demonstrations matter? Scores of random harnesses on `twohop` and `explained`, embedded target.

Each draw is a harness of one fixed form with a random instruction, style and set of demonstrations; a task is worth
searching on when the draws differ and good ones are well above none. Recorded for each task:

* `<task>_spread`: best minus worst draw. Part of it is chance; the next figure is not.
* `<task>_demonstrations`: the best draw with demonstrations minus the best without, both chosen on one half of the
  questions and compared on the other half, paired, with a 95 % interval.

Demonstrations come from training questions and, for the second query of `twohop`, from `metadata["_gold"]`: this
measures what demonstrations could do, it is no optimizer.

    python -m benchmarks.difficulty       # a few minutes on two cores
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks.record import record
from benchmarks.workspace import ROOT
from luthier.context import spec_of
from luthier.evaluation.statistics import paired_difference
from luthier.executors.execute import Job, execute
from luthier.harness import Harness
from luthier.harnesses import parse
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.store import Store
from luthier.question import Question
from luthier.settings.load import load_params
from luthier.target import Target
from luthier.targets import open_target
from luthier.task import Task
from luthier.tasks import open_task
from luthier.tasks.generated.corpora import open_corpus
from luthier.tools.retrieval import render_hits

_STYLES = ("chat", "raw")
_HITS = 1
_LABEL = (
    "",
    "Read the ticket and name its queue.",
    "You sort support tickets. Answer with one word, the queue.",
    "Look at what the customer complains about and at what the customer wants. Name the queue.",
    "Ignore troubles that are denied or that belong to others. Name the queue.",
)
_QUERY = (
    "",
    "Write the name to look up next.",
    "Find the name in the passages that leads to the answer. Write that name only.",
    "The answer is one step away. Which person or town do you need to know more about?",
)
_READ = (
    "",
    "Answer with a name from the passages.",
    "Use the passages. Write the answer only, no sentence.",
    "Copy the exact name that answers the question.",
)


@dataclass(frozen=True, slots=True)
class Draw:
    """One random harness: how many demonstrations it shows, and itself."""

    demonstrations: int
    harness: Harness


Drawer = Callable[[Random, Sequence[Question], int], Harness]
"""(source of choices, training questions, number of demonstrations) -> harness."""


def draw_explained(rng: Random, train: Sequence[Question], demonstrations: int) -> Harness:
    """One call that names the queue."""
    shots = [{"question": q.text, "out": q.reference} for q in rng.sample(train, demonstrations)]
    block = _block("classify", ("question",), rng, _LABEL, "{question}\nQueue:", shots)
    return parse("graph", f"answer = classify(question)\n{block}")


def draw_twohop(rng: Random, train: Sequence[Question], demonstrations: int) -> Harness:
    """Search, ask for the second query, search, read the answer."""
    queries, readings = [], []
    for question in rng.sample(train, demonstrations):
        corpus, bridge = open_corpus(question.corpus), question.metadata["_gold"]["bridge"]
        first, second = (render_hits(corpus.search(query, _HITS)) for query in (question.text, bridge))
        queries.append({"question": question.text, "passages": first, "out": bridge})
        readings.append({"question": question.text, "passages": second, "out": question.reference})
    ask, reads = "Passages:\n{passages}\nQuestion: {question}\n", ("question", "passages")
    blocks = [
        _block("next_query", reads, rng, _QUERY, f"{ask}Look up:", queries),
        _block("read_answer", reads, rng, _READ, f"{ask}Answer:", readings),
    ]
    nodes = (
        f"first = retrieve(question, {_HITS})\nquery = next_query(question, first)\n"
        f"second = retrieve(query, {_HITS})\nanswer = read_answer(question, second)\n"
    )
    return parse("graph", nodes + "\n".join(blocks))


def _block(
    name: str,
    reads: Sequence[str],
    rng: Random,
    instructions: Sequence[str],
    ask: str,
    shots: Sequence[Mapping[str, str]],
) -> str:
    """An impl block with a random style and instruction; JSON is YAML, so every text is quoted safely."""
    fields: dict[str, object] = {"style": rng.choice(_STYLES), "reads": list(reads)}
    if instruction := rng.choice(instructions):
        fields["role"] = instruction
    fields["ask"] = ask
    if shots:
        fields["shots"] = list(shots)
    fields["max_tokens"] = "16"
    lines = [f"  {field}: {json.dumps(value, ensure_ascii=False)}" for field, value in fields.items()]
    return "\n".join([f"impl {name}:", *lines])


DRAWERS: Mapping[str, tuple[Drawer, tuple[int, ...]]] = {
    "twohop": (draw_twohop, (0, 3, 6)),
    "explained": (draw_explained, (0, 4, 8, 12)),
}
"""Task -> how to draw, and the numbers of demonstrations (as many as the length limit of a harness allows)."""


def draw_all(name: str, train: Sequence[Question], draws: int, seed: int) -> list[Draw]:
    """`draws` harnesses for each number of demonstrations."""
    drawer, sizes = DRAWERS[name]
    return [
        Draw(size, drawer(Random(f"{name}:{seed}:{size}:{number}"), train, size))
        for size in sizes
        for number in range(draws)
    ]


def measure(task: Task, draws: Sequence[Draw], questions: Sequence[Question], target: Target) -> list[dict[str, float]]:
    """Question id -> score, for each draw."""
    jobs = [Job(draw.harness, question) for draw in draws for question in questions]
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "store.sqlite")
        ledger = Ledger(store, run="difficulty")
        meter = Meter(target, store, ledger, role="target", account="data", method="", phase="difficulty")
        rows = execute(jobs, task.score, meter)
        store.close()
    width = len(questions)
    return [{row.question: row.score or 0.0 for row in rows[n * width :][:width]} for n in range(len(draws))]


def demonstrations_gain(
    draws: Sequence[Draw], scores: Sequence[Mapping[str, float]], questions: Sequence[Question]
) -> tuple[dict[str, float], dict[str, float]]:
    """Scores on the second half of the questions of the draws, with and without demonstrations, best on the first."""
    half = len(questions) // 2
    chosen, held = [q.id for q in questions[:half]], [q.id for q in questions[half:]]
    best: dict[bool, dict[str, float]] = {}
    for shown in (True, False):
        tables = [table for draw, table in zip(draws, scores, strict=True) if (draw.demonstrations > 0) == shown]
        winner = max(tables, key=lambda table: sum(table[question] for question in chosen))
        best[shown] = {question: winner[question] for question in held}
    return best[True], best[False]


def report(
    name: str, draws: Sequence[Draw], scores: Sequence[Mapping[str, float]], questions: Sequence[Question]
) -> None:
    """Record the two figures and print a line for each number of demonstrations."""
    means = [100 * statistics.fmean(table.values()) for table in scores]
    for size in dict.fromkeys(draw.demonstrations for draw in draws):
        own = sorted(mean for mean, draw in zip(means, draws, strict=True) if draw.demonstrations == size)
        print(
            f"{name} {size:2} demonstrations: {own[0]:.1f} / {statistics.median(own):.1f} / {own[-1]:.1f}",
            file=sys.stderr,
        )
    record(
        f"{name}_spread",
        round(max(means) - min(means), 2),
        unit="points between the best and the worst random harness",
        n=len(questions),
        ours=round(max(means), 2),
        peer=round(min(means), 2),
    )
    shown, bare = demonstrations_gain(draws, scores, questions)
    interval = paired_difference(shown, bare, resamples=10_000).interval
    record(
        f"{name}_demonstrations",
        round(100 * interval.mean, 2),
        unit="points of accuracy",
        n=interval.n,
        ours=round(100 * statistics.fmean(shown.values()), 2),
        peer=round(100 * statistics.fmean(bare.values()), 2),
        interval=(round(100 * interval.low, 2), round(100 * interval.high, 2)),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Draw, run and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=list(DRAWERS), choices=list(DRAWERS))
    parser.add_argument("--draws", type=int, default=6, help="harnesses for each number of demonstrations")
    parser.add_argument("--questions", type=int, default=80, help="validation questions")
    parser.add_argument("--seed", type=int, default=0, help="of questions and draws")
    parser.add_argument("--families", default="", help="families to keep, separated by commas")
    arguments = parser.parse_args(argv)
    target = open_target(spec_of(load_params(ROOT).profile.target))
    for name in arguments.tasks:
        task = open_task(name, arguments.families)
        questions = task.questions("validation", arguments.questions, arguments.seed)
        draws = draw_all(name, task.questions("train", 200, arguments.seed), arguments.draws, arguments.seed)
        report(name, draws, measure(task, draws, questions, target), questions)
    target.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
