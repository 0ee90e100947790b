"""A whole project folder as the pipeline leaves it, made in a second: real questions, harnesses, executor, ledger
and summaries on a scripted target; only the two trained generators are tables, and their curves are written down."""

import math
import random
import re
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from luthier.context import StageContext
from luthier.evaluation.evaluate import (
    compositions,
    difference,
    evaluate,
    grid_jobs,
    grid_summary,
    novel,
    oracle_scores,
    scores_of,
    standing,
)
from luthier.evaluation.statistics import mean_interval
from luthier.executors.execute import execute
from luthier.executors.job import Job
from luthier.files import digest_file, digest_folder, write_json, write_rows
from luthier.generator import ConstantGenerator, Proposal, RandomGenerator
from luthier.harnesses.pool.configurations import select
from luthier.harnesses.pool.random_graph import random_graph
from luthier.ledger.entries import Context
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.store import Store
from luthier.methods import mas_architect
from luthier.question import Question, read_questions, write_questions
from luthier.settings.load import load_params
from luthier.target import Usage
from luthier.targets.scripted import ScriptedTarget, prompt_text
from luthier.task import Score
from luthier.teaching.filters import filter_candidates
from luthier.teaching.rows import TeacherCandidate
from luthier.training.bill import LedgerBill

REPOSITORY = Path(__file__).resolve().parents[3]
METHOD = "mas_architect"
RESAMPLES = 200
HOSTILE = "<script>alert('owned')</script> & \"quotes\""
"""Stands in the text of one test question."""
KINDS = {
    "word_sorting": "one_step",
    "gcd": "one_step",
    "sort_first": "two_step",
    "gcd_squared": "two_step",
    "sort_first_length": "three_step",
    "sort_first_reversed": "three_step",
    "syllogism": "no_tool",
    "weekday": "unshown",
}
HELD_BACK = ("gcd_squared", "sort_first_length", "sort_first_reversed", "weekday")
SOLVERS = {
    "word_sorting": "a = words(question)\nanswer = sort(a)",
    "gcd": "a = numbers(question)\nanswer = gcd(a)",
    "sort_first": "a = words(question)\nb = sort(a)\nanswer = first(b)",
    "gcd_squared": "a = numbers(question)\nb = gcd(a)\nanswer = square(b)",
    "sort_first_length": "a = words(question)\nb = sort(a)\nc = first(b)\nanswer = length(c)",
    "sort_first_reversed": "a = words(question)\nb = sort(a)\nc = first(b)\nanswer = reverse(c)",
    "syllogism": "answer = yes_no(question)",
    "weekday": "answer = direct(question)",
}
IMITATED = SOLVERS | {
    "gcd_squared": SOLVERS["gcd"],
    "sort_first_length": SOLVERS["sort_first"],
    "sort_first_reversed": "a = words(question\nb = sort(a)",
    "weekday": SOLVERS["word_sorting"],
}
"""What the imitating generator writes: right where the teacher showed the way, else something taught or broken."""
_WORDS = [
    "amber",
    "birch",
    "cedar",
    "dune",
    "elm",
    "fern",
    "grove",
    "heath",
    "iris",
    "juniper",
    "kelp",
    "larch",
    "maple",
    "nettle",
    "oak",
    "pine",
]


@dataclass(frozen=True)
class TableGenerator:
    """A generator that looks its harness up by family: what a checkpoint is to the evaluation."""

    name: str
    texts: dict[str, str]
    kind: str = "graph"

    def propose(self, requests):
        texts = [self.texts[request.questions[0].family] for request in requests]
        return [Proposal(text, Usage(1, 40, len(text.split()))) for text in texts]


def build(root: Path) -> Path:
    """Write everything that the report reads under `root`, and return it."""
    shutil.copytree(REPOSITORY / "profiles", root / "profiles")
    shutil.copy(REPOSITORY / "pipeline.yaml", root)
    text = (REPOSITORY / "params.yaml").read_text(encoding="utf-8")
    (root / "params.yaml").write_text(re.sub("profile: .*", "profile: smoke", text), encoding="utf-8")
    params = load_params(root)
    pool = select(params.profile.grid.configurations)
    questions = {split: draw(split, count) for split, count in (("train", 3), ("validation", 2), ("test", 4))}
    for split, rows in questions.items():
        write_questions(root / f"data/questions/{split}.jsonl", rows)
    runner = Runner(root, params)
    rows = grid(runner, questions, pool)
    write_json(root / "data/grid/summary.json", grid_summary(rows))
    write_rows(root / "data/grid/executions.jsonl", rows)
    taught = teach(runner, root, questions["train"], pool)
    train(runner, root)
    contend(runner, root, questions, pool, taught)
    runner.close()
    return root


class Runner:
    """Runs jobs on the scripted target, paid by the ledger runs that the real stages would open."""

    def __init__(self, root, params):
        self.params, self.seed = params, params.ask.seed
        self.store = Store(root / ".cache/store.sqlite")
        self.target = ScriptedTarget(read, name="reader")

    def run(self, stage, account, split, method=METHOD):
        name = StageContext(stage, method, params=self.params).run
        meter = Meter(
            self.target,
            self.store,
            Ledger(self.store, run=name),
            role="target",
            account=account,
            method=method,
            phase=stage,
            split=split,
            seed=self.seed,
        )
        return lambda jobs: execute(jobs, score, meter)

    def bill(self, stage, root):
        name = StageContext(stage, METHOD, params=self.params).run
        context = Context("train", "generator", METHOD, stage, "train", self.seed)
        return LedgerBill(Ledger(self.store, run=name), context, "digest", root / ".cache/training" / stage)

    def close(self):
        self.store.close()


def read(request) -> str:
    """What the scripted target copies out of the last question of a prompt, by the word that the prompt ends in."""
    question = prompt_text(request).rpartition("Question: ")[2]
    wanted = question.rsplit("\n", 1)[-1].strip()
    if wanted == "Words:":
        return question.rpartition("Words: ")[2].split("\n")[0]
    if wanted == "Numbers:":
        return ", ".join(re.findall(r"\d+", question))
    return "Yes"


def score(question, answer) -> Score:
    right = answer.strip().casefold() == question.reference.casefold()
    return Score(float(right), "" if right else f"expected {question.reference!r}")


def draw(split, count) -> list[Question]:
    """`count` questions of each family, round robin; two of `weekday`, so that pooled and equal-weight means differ."""
    chooser = random.Random(split)
    wanted = [(family, number) for number in range(count) for family in KINDS if family != "weekday" or number < 2]
    return [question(family, split, chooser, number) for family, number in wanted]


def question(family, split, chooser, number) -> Question:
    words = chooser.sample(_WORDS, 4)
    a, b = 6 * chooser.randrange(2, 90), 6 * chooser.randrange(2, 90)
    first, listed = min(words), f"Words: {', '.join(words)}"
    drafts = {
        "word_sorting": (f"Sort these words. {listed}", ", ".join(sorted(words))),
        "gcd": (f"Greatest common divisor of {a} and {b}?", str(math.gcd(a, b))),
        "sort_first": (f"Which word comes first? {listed}", first),
        "gcd_squared": (f"Square of the greatest common divisor of {a} and {b}?", str(math.gcd(a, b) ** 2)),
        "sort_first_length": (f"How long is the first word in order? {listed}", str(len(first))),
        "sort_first_reversed": (f"Spell backward the first word in order. {listed}", first[::-1]),
        "syllogism": (f"Does it follow that all {words[0]} are {words[1]}? ({number})", ("Yes", "No")[number % 2]),
        "weekday": (f"Which day of the week was 20{10 + number}-0{1 + chooser.randrange(9)}-11?", "Monday"),
    }
    text, reference = drafts[family]
    if (family, split, number) == ("syllogism", "test", 0):
        text += f" {HOSTILE}"
    return Question.make(
        task="mixed", family=family, text=text, reference=reference, split=split, metadata={"kind": KINDS[family]}
    )


def grid(runner, questions, pool) -> list[dict]:
    rows = []
    for split in ("train", "validation"):
        executions = runner.run("grid", "data", split, method="")(grid_jobs(questions[split], pool, runner.seed))
        for index, execution in enumerate(executions):
            asked, configuration = questions[split][index // len(pool)], pool[index % len(pool)]
            rows.append(
                {"configuration": configuration.name, "split": split, "family": asked.family, **execution.to_row()}
            )
    return rows


def teach(runner, root, train_questions, pool) -> set[str]:
    """Teacher rows from the solvers and the pool on the families that are shown; digests of the rows."""
    shown = [q for q in train_questions if q.family not in HELD_BACK]
    pairs = [(q, mas_architect.as_harness(SOLVERS[q.family]), "variation") for q in shown]
    pairs += [(q, item.harness, f"pool:{item.name}") for q in shown for item in pool]
    executions = runner.run("teach", "data", "train")([Job(h, q, runner.seed) for q, h, _ in pairs])
    candidates = [TeacherCandidate(q, h, source, e) for (q, h, source), e in zip(pairs, executions, strict=True)]
    limits = StageContext("teach", METHOD, params=runner.params).limits
    rows, log = filter_candidates(candidates, score, limits, 1, prompt=mas_architect.generator_prompt)
    write_json(root / f"data/teach/{METHOD}/log.json", asdict(log))
    write_rows(root / f"data/teach/{METHOD}/rows.jsonl", [asdict(row) for row in rows])
    return {row.harness for row in rows}


def train(runner, root) -> None:
    """Two checkpoint folders whose records name each other's digests as the real stages do, and their bills."""
    for stage, steps in (("sft", 8), ("reinforce", 24)):
        bill = runner.bill(stage, root)
        for step in range(steps):
            if stage == "reinforce":
                bill.enter("draw", f"step {step}", Usage(64, 400, 1200, 3.0), [])
            bill.enter("update", f"step {step}", Usage(8, 320, 160, 2.5), [])
    noise = random.Random(5)
    sft_curve = [
        {"epoch": step / 6, "loss": round(2.4 * 0.7**step, 4), "entropy": round(1.5 * 0.75**step, 4), "step": step}
        for step in range(1, 9)
    ]
    rl_curve = [
        {
            "completions/mean_length": round(24 - step / 5 + noise.random(), 3),
            "correct": round(min(1.0, 0.4 + step / 45 + 0.2 * noise.random()), 3),
            "entropy": round(0.4 * 0.97**step, 4),
            "flat_groups": noise.choice([0.5, 0.625, 0.75]),
            "loss": round(noise.uniform(-0.02, 0.02), 4),
            "reward": round(min(1.0, 0.42 + step / 45 + 0.2 * noise.random()), 3),
            "step": step,
            "valid": round(min(1.0, 0.7 + step / 90), 3),
        }
        for step in range(1, 25)
    ]
    shared = {"method": METHOD, "seed": 17, "trainable_parameters": 134_515_008}
    rows = root / f"data/teach/{METHOD}/rows.jsonl"
    inputs = {"rows": digest_file(rows), "base": "ba5e" * 16}
    record = shared | {"phase": "sft", "parent": inputs["base"], "inputs": inputs, "curve": sft_curve}
    _checkpoint(root / f"models/sft/{METHOD}", record | {"rows": 12, "settings": {"learning_rate": 5e-5, "epochs": 2}})
    base = digest_folder(root / f"models/sft/{METHOD}")
    inputs = {"questions": digest_file(root / "data/questions/train.jsonl"), "base": base, "target": "scripted-reader"}
    record = shared | {"phase": "reinforce", "parent": base, "inputs": inputs, "curve": rl_curve}
    settings = {"learning_rate": 1e-5, "steps": 24, "temperature": 1.2}
    _checkpoint(root / f"models/reinforce/{METHOD}", record | {"questions": 24, "settings": settings})


def _checkpoint(folder, record) -> None:
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(record["phase"].encode())
    write_json(folder / "training.json", record)


def contend(runner, root, questions, pool, taught) -> None:
    """What the stage `evaluate` writes, with the same functions."""
    run, test, seed = runner.run("evaluate", "test", "test"), questions["test"], runner.seed
    fixed = {item.name: evaluate(ConstantGenerator(item.name, item.harness), test, run, seed) for item in pool}
    best = grid_summary(read_grid(root))["best_on_validation"]
    results = {
        "target_alone": [replace(r, contender="target_alone") for r in fixed["direct"]],
        "best_fixed": [replace(r, contender="best_fixed") for r in fixed[best]],
        "random_graph": evaluate(RandomGenerator("random_graph", "graph", random_graph, seed), test, run, seed),
        "sft": evaluate(TableGenerator("sft", IMITATED), test, run, seed),
        "reinforce": evaluate(TableGenerator("reinforce", SOLVERS), test, run, seed),
    }
    pairs = (("sft", "target_alone"), ("reinforce", "sft"), ("reinforce", "best_fixed"), ("reinforce", "target_alone"))
    oracle = oracle_scores([row for rows in fixed.values() for row in rows])
    found = {phase: compositions(results[phase], taught) for phase in ("sft", "reinforce")}
    validation = evaluate(TableGenerator("reinforce", SOLVERS), questions["validation"], run, seed)
    scores = {
        "method": METHOD,
        "best_fixed_configuration": best,
        "seed": seed,
        "validation": {"reinforce": asdict(standing("reinforce", validation, RESAMPLES))},
        "test": {name: asdict(standing(name, rows, RESAMPLES)) for name, rows in results.items()},
        "oracle_over_pool": {
            "upper_bound": True,
            "configurations": len(fixed),
            "pooled": asdict(mean_interval([oracle[q] for q in sorted(oracle)], resamples=RESAMPLES)),
        },
        "pool": {name: standing(name, rows, RESAMPLES).pooled["mean"] for name, rows in sorted(fixed.items())},
        "differences": {
            f"{ours}_minus_{theirs}": asdict(difference(results[ours], results[theirs], RESAMPLES))
            for ours, theirs in pairs
        },
        "compositions": {phase: [asdict(item) for item in items] for phase, items in found.items()},
        "novel_compositions": {phase: [asdict(item) for item in novel(items)] for phase, items in found.items()},
        "per_question": {name: scores_of(rows) for name, rows in results.items()},
    }
    out = root / "data/evaluate" / METHOD
    write_rows(out / "executions.jsonl", [row.to_row() for rows in results.values() for row in rows])
    write_json(out / "scores.json", scores)


def read_grid(root) -> list[dict]:
    from luthier.files import read_rows

    return list(read_rows(root / "data/grid/executions.jsonl"))


if __name__ == "__main__":
    import sys

    folder = build(Path(sys.argv[1]))
    print(folder, len(read_questions(folder / "data/questions/test.jsonl")))
