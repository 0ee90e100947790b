"""Our GEPA beside the bare `gepa` package: one program, target, proposer, number of rollouts and set of seeds.

The program has two modules and a tool for the family letter_counting; worked cases in its instructions matter to it.
The proposer is the offline grammar, and the engine reads equal beginnings of prompts once for both sides.

Both sides run the package's algorithm with its defaults and merge. Theirs is an adapter as its documentation has it:
one call at a time, nothing kept. Ours is `luthier.methods.gepa` with ledger, log and store on disk; it batches, and an
execution that it has seen is counted like any other but not run again. Each seed starts with an empty store; the side
that goes first changes from seed to seed. What the two find is scored on the same held-out questions. Recorded:

* `gepa_vs_gepa`: wall time of our search over theirs, the mean of the seeds' ratios with its 95 % interval; below 1 is
  faster.
* `gepa_vs_gepa_score`: points of accuracy of our end minus theirs on held-out questions, means over seeds, with an
  interval over questions and seeds; each seed's scores are printed, too.

The package may pass its limit (it looks once an iteration), ours may not; both counts are printed.

    python -m benchmarks.gepa_vs_gepa       # some minutes on two cores
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

try:
    import gepa
    from gepa.core.adapter import EvaluationBatch
except ImportError as error:
    raise SystemExit("benchmarks.gepa_vs_gepa needs the extra search: pip install 'luthier[search]'") from error

from benchmarks.letters import PROGRAM
from benchmarks.record import record
from benchmarks.workspace import ROOT
from luthier.context import spec_of
from luthier.evaluation.statistics import mean_interval, seeded_difference, spread
from luthier.execution import Execution, Limits
from luthier.executor import RunResult
from luthier.executors import executor_for
from luthier.executors.execute import Job, execute
from luthier.harnesses.program.harness import ProgramHarness
from luthier.ledger.budget import Budget
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.store import Store
from luthier.methods.gepa import GepaParams, build
from luthier.question import Question
from luthier.search.candidate import Candidate
from luthier.search.contracts import Evaluation, Scope
from luthier.search.credit import OutcomeCredit
from luthier.search.evaluator import Executed
from luthier.search.log import SearchLog
from luthier.search.parts import Parts
from luthier.search.programs import ProgramBinding
from luthier.search.proposers.grammar import GrammarProposer
from luthier.search.session import Session, run
from luthier.settings.load import load_params
from luthier.target import Completion, Target
from luthier.targets import open_target
from luthier.task import Task
from luthier.tasks import open_task

BINDING = ProgramBinding(PROGRAM)
PROPOSER = GrammarProposer(case=BINDING.worked_case)
CREDIT = OutcomeCredit(steps=BINDING.steps)


@dataclass(frozen=True)
class Setting:
    """What both sides are given.

    Attributes:
        task: Scores. target: Answers. train, validation: Questions. rollouts: Budget.
    """

    task: Task
    target: Target
    train: Sequence[Question]
    validation: Sequence[Question]
    rollouts: int


@dataclass(frozen=True)
class End:
    """How a side ended: its program, wall seconds and rollouts."""

    best: ProgramHarness
    seconds: float
    rollouts: int


def built(texts: Mapping[str, str]) -> ProgramHarness:
    """The program with these instructions."""
    return BINDING.build(BINDING.candidate().with_texts(texts))


def ours(setting: Setting, seed: int) -> End:
    """`luthier.methods.gepa` with its defaults over a fresh store."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.perf_counter()
        store = Store(folder / "store.sqlite")
        ledger = Ledger(store, Budget(rollouts=setting.rollouts), run="search", counts="alone")

        def meters(phase: str, split: str) -> Meter:
            return Meter(
                setting.target, store, ledger, role="target", account="search", method="gepa", phase=phase, split=split
            )

        candidate = BINDING.candidate()
        session = Session(
            candidate,
            Scope(candidate.components, feedback="trace"),
            setting.train,
            setting.validation,
            Executed(BINDING.build, setting.task.score, meters),
            ledger,
            SearchLog(folder / "log.jsonl"),
            seed=seed,
        )
        result = run(build(GepaParams(), Parts(BINDING, PROPOSER)), session)
        seconds = time.perf_counter() - start
        rollouts = ledger.spent("alone").rollouts
        store.close()
    return End(BINDING.build(result.best), seconds, rollouts)


def theirs(setting: Setting, seed: int) -> End:
    """The package as its users call it."""
    start = time.perf_counter()
    adapter: Any = PlainAdapter(setting)
    found: Any = gepa.optimize(
        seed_candidate=dict(BINDING.candidate().texts),
        trainset=list(setting.train),
        valset=list(setting.validation),
        adapter=adapter,
        custom_candidate_proposer=PlainProposer(seed),
        use_merge=True,
        max_metric_calls=setting.rollouts,
        logger=_Quiet(),
        seed=seed,
    )
    seconds = time.perf_counter() - start
    return End(built(found.best_candidate), seconds, found.total_metric_calls)


class PlainAdapter:
    """Runs a candidate question by question, call by call."""

    propose_new_texts = None

    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    def evaluate(
        self, batch: list[Question], candidate: dict[str, str], capture_traces: bool = False
    ) -> EvaluationBatch[tuple[Question, Execution], str]:
        """Answers, scores and executions, in order."""
        harness = built(candidate)
        rows = [self._execution(harness, question) for question in batch]
        traces = list(zip(batch, rows, strict=True))
        return EvaluationBatch([row.answer for row in rows], [row.score or 0.0 for row in rows], traces)

    def make_reflective_dataset(
        self,
        candidate: dict[str, str],
        eval_batch: EvaluationBatch[tuple[Question, Execution], str],
        components_to_update: list[str],
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """What each component did."""
        questions, rows = zip(*(eval_batch.trajectories or ()), strict=True)
        seen = Evaluation(built(candidate).digest, rows)
        return {
            name: [{"evidence": item} for item in CREDIT.assign(name, seen, questions, "trace")]
            for name in components_to_update
        }

    def _execution(self, harness: ProgramHarness, question: Question) -> Execution:
        ran = run_alone(harness, question, self._setting.target)
        given = self._setting.task.score(question, ran.answer)
        row = Execution(question.id, harness.digest, harness.kind, self._setting.target.fingerprint, 0, ran.outcome)
        return replace(row, answer=ran.answer, score=given.value, feedback=given.feedback, trace=ran.trace)


class PlainProposer:
    """`PROPOSER` as the package calls it."""

    def __init__(self, seed: int) -> None:
        self._seed, self._calls = seed, 0

    def __call__(
        self,
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        """A new text for each component."""
        texts = {}
        for name in components_to_update:
            self._calls += 1
            evidence = [item["evidence"] for item in reflective_dataset[name]]
            rng = Random(f"{self._seed}:{self._calls}")
            texts[name] = PROPOSER.propose(Candidate.make(candidate), name, evidence, rng=rng, purpose="").text
        return texts


class _Quiet:
    """No log."""

    def log(self, message: str) -> None:
        """Drop the message."""


def run_alone(harness: ProgramHarness, question: Question, target: Target) -> RunResult:
    """Run a program on a question, one call at a time.

    Raises:
        TargetError: the target fails.
    """
    steps = executor_for(harness.kind).start(harness, question, Limits(), 0)
    requests = next(steps)
    while True:
        answers: list[Completion] = []
        for request in requests:
            (reply,) = target.complete([request])
            if not isinstance(reply, Completion):
                raise reply.error
            answers.append(reply)
        try:
            requests = steps.send(answers)
        except StopIteration as end:
            result: RunResult = end.value
            return result


def score_on(harnesses: Sequence[ProgramHarness], questions: Sequence[Question], setting: Setting) -> list[list[float]]:
    """Score of each program on each question."""
    with tempfile.TemporaryDirectory() as name:
        store = Store(Path(name) / "store.sqlite")
        meter = Meter(
            setting.target, store, Ledger(store, run="held"), role="target", account="test", method="", phase="held"
        )
        jobs = [Job(harness, question) for harness in harnesses for question in questions]
        rows = execute(jobs, setting.task.score, meter)
        store.close()
    scores = [row.score or 0.0 for row in rows]
    width = len(questions)
    return [scores[place : place + width] for place in range(0, len(scores), width)]


def measure(setting: Setting, seeds: Sequence[int], held: Sequence[Question], keep: bool = True) -> None:
    """Run both sides for each seed and report the two figures; `keep` says whether they are recorded."""
    ends: list[tuple[End, End]] = []
    for turn, seed in enumerate(seeds):
        if turn % 2:
            their = theirs(setting, seed)
            our = ours(setting, seed)
        else:
            our = ours(setting, seed)
            their = theirs(setting, seed)
        ends.append((our, their))
        print(
            f"seed {seed}: ours {our.seconds:.1f} s, {our.rollouts} rollouts; theirs {their.seconds:.1f} s,"
            f" {their.rollouts} rollouts; {setting.rollouts} allowed",
            file=sys.stderr,
        )
    ratios = mean_interval([our.seconds / their.seconds for our, their in ends])
    record(
        "gepa_vs_gepa",
        round(ratios.mean, 3),
        unit="wall time, ours / gepa 0.1.4",
        n=setting.rollouts,
        ours=round(statistics.fmean(our.seconds for our, _ in ends), 2),
        peer=round(statistics.fmean(their.seconds for _, their in ends), 2),
        seeds=seeds,
        interval=(round(ratios.low, 3), round(ratios.high, 3)),
        keep=keep,
    )
    tables = score_on([end.best for pair in ends for end in pair], held, setting)
    our_tables, their_tables = (
        [{q.id: score for q, score in zip(held, table, strict=True)} for table in tables[side::2]] for side in (0, 1)
    )
    our_points, their_points = ([100 * mean for mean in spread(side).means] for side in (our_tables, their_tables))
    shown = [", ".join(f"{point:.1f}" for point in points) for points in (our_points, their_points)]
    print(f"held-out accuracy by seed: ours [{shown[0]}], theirs [{shown[1]}]", file=sys.stderr)
    gap = seeded_difference(our_tables, their_tables, resamples=10_000)
    record(
        "gepa_vs_gepa_score",
        round(100 * gap.mean, 2),
        unit="points of accuracy on held-out questions, ours - gepa 0.1.4",
        n=gap.n,
        ours=round(statistics.fmean(our_points), 2),
        peer=round(statistics.fmean(their_points), 2),
        seeds=seeds,
        interval=(round(100 * gap.low, 2), round(100 * gap.high, 2)),
        keep=keep,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Open the target, run and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=300, help="of one search")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--train", type=int, default=48, help="training questions")
    parser.add_argument("--validation", type=int, default=24, help="validation questions")
    parser.add_argument("--held", type=int, default=120, help="held-out questions")
    parser.add_argument("--questions-seed", type=int, default=7)
    parser.add_argument("--print-only", action="store_true", help="record nothing")
    arguments = parser.parse_args(argv)
    task = open_task("mixed", "letter_counting")
    target = open_target(replace(spec_of(load_params(ROOT).profile.target), share_prefixes=True))
    seed = arguments.questions_seed
    train = task.questions("train", arguments.train, seed)
    validation = task.questions("validation", arguments.validation, seed)
    setting = Setting(task, target, train, validation, arguments.rollouts)
    run_alone(BINDING.program, train[0], target)
    measure(setting, arguments.seeds, task.questions("test", arguments.held, seed), not arguments.print_only)
    target.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
