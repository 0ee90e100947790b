"""Our bootstrap and MIPROv2 beside DSPy 3.4.1's own, on one program, target and set of questions, in one process.

Both sides search `benchmarks.dspy_letters`, a program of two modules and a tool for the family letter_counting, on the
embedded target; ours (`benchmarks.letters`) is made from it. Demonstrations matter there: without any it answers a
quarter of the questions, with two or four bootstrapped ones between a third and nine tenths. Same training, validation
and held-out questions, same number of demonstration sets, instructions and trials, and through `benchmarks.dspy_engine`
the very same prompts. Each side pays through a meter over an empty store of its own, so neither pays a call twice.
Ours gives the engine what can run together, DSPy asks one call at a time.

The engine reads equal beginnings of prompts once, for both sides (`target.share_prefixes`). With
`--no-share-prefixes` it does not; most of the time then goes into reading, which is as slow in a batch as alone.

Instructions: a model of 135M writes poor ones, so neither side has a model write them. The offline grammar makes a list
for each module before the clock starts, and both sides are served that list: ours through a proposer, DSPy through the
engine of its `prompt_model`, which answers the other calls of DSPy's proposer (summaries, descriptions) with a dash.
So the figures compare searches, not proposers, and DSPy's proposal costs next to nothing here.

MIPROv2 runs once for each seed (DSPy ignores seed 0); its demonstration sets are drawn alike on both sides. Bootstrap
with random search has one fixed series of sets in DSPy, which is our seed 0: the two must find the same. Recorded for
each: `<name>_vs_dspy`, wall time ours / peer (wanted: 0.5 or less), and `<name>_vs_dspy_score`, the held-out difference
with its interval over questions and seeds; `_unshared` stands behind the names where prefixes were not shared.

    python -m benchmarks.dspy_peers              # twenty minutes on two cores
    python -m benchmarks.dspy_peers --train 8 --validation 8 --test 20 --sets 3 --trials 3 --seeds 1 --print-only
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

try:
    import dspy
except ImportError as error:
    raise SystemExit("benchmarks.dspy_peers needs the extra dspy: pip install 'luthier[dspy]'") from error

from benchmarks.dspy_engine import ListedEngine, MeterEngine, ModuleAdapter, examples
from benchmarks.dspy_letters import Program
from benchmarks.letters import PROGRAM
from benchmarks.record import record
from benchmarks.workspace import ROOT
from luthier.context import spec_of
from luthier.evaluation.statistics import seeded_difference, spread
from luthier.executors.execute import Job, execute
from luthier.harnesses.program.dspy_bridge import with_dspy_state
from luthier.harnesses.program.harness import ProgramHarness
from luthier.ledger.ledger import Account, Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.store import Store
from luthier.methods import bootstrap, mipro
from luthier.methods.bootstrap import BootstrapParams
from luthier.methods.mipro import MiproParams
from luthier.question import Question
from luthier.search.candidate import Candidate
from luthier.search.contracts import Evidence, Scope, TextDraft
from luthier.search.evaluator import Executed
from luthier.search.log import SearchLog
from luthier.search.parts import Parts
from luthier.search.programs import ProgramBinding
from luthier.search.proposers.grammar import GrammarProposer
from luthier.search.session import Search, Session, run
from luthier.settings.load import load_params
from luthier.target import Request, Target
from luthier.targets import open_target
from luthier.task import Task
from luthier.tasks import open_task

DEMONSTRATIONS = 4
"""Most bootstrapped demonstrations, the default of both. None are labelled: what should be copied is secret."""
Texts = dict[str, list[str]]
"""New instructions by module."""


class Listed:
    """A proposer that serves a list (for one search)."""

    name = "listed (grammar, ours, offline)"

    def __init__(self, texts: Texts) -> None:
        self._left = {name: iter(items) for name, items in texts.items()}

    def propose(
        self, parent: Candidate, component: str, evidence: Sequence[Evidence], *, rng: Random, purpose: str
    ) -> TextDraft:
        """The next text of the component."""
        return TextDraft(next(self._left[component]))


@dataclass(frozen=True)
class Setup:
    """What both sides share.

    Attributes:
        task, target: Scorer and model.
        train, validation, test: Questions.
        sets, trials: Demonstration sets (and instructions) a module; TPE trials.
        folder: For stores and logs.
    """

    task: Task
    target: Target
    train: list[Question]
    validation: list[Question]
    test: list[Question]
    sets: int
    trials: int
    folder: Path


@dataclass(frozen=True)
class Side:
    """One finished search: seconds, calls of the target, and the best program's score on each held-out question."""

    seconds: float
    calls: int
    held_out: dict[str, float]


def instructions(count: int) -> Texts:
    """Distinct new instructions of each module, composed by the offline grammar."""
    start, proposer, texts = ProgramBinding(PROGRAM).candidate(), GrammarProposer(), Texts()
    for name in PROGRAM.modules:
        found: dict[str, None] = {}
        parent, rng = start, Random(f"instructions of {name}")
        while len(found) < count:
            text = proposer.propose(parent, name, [], rng=rng, purpose="list").text
            parent = start.with_texts({name: text})
            if text != start.text(name):
                found.setdefault(text)
        texts[name] = list(found)
    return texts


def our_search(setup: Setup, name: str, search: Search, seed: int) -> Side:
    """Run one of our searches and its best program."""
    store = Store(setup.folder / f"{name}.db")
    ledger = Ledger(store, run=name, counts="alone")
    binding = ProgramBinding(PROGRAM)

    def meter(phase: str, split: str) -> Meter:
        return _meter(setup.target, store, ledger, "search", phase, split)

    session = Session(
        binding.candidate(),
        Scope(tuple(PROGRAM.modules), demonstrations=True, feedback="trace"),
        setup.train,
        setup.validation,
        Executed(binding.build, setup.task.score, meter),
        ledger,
        SearchLog(setup.folder / f"{name}.jsonl"),
        seed=seed,
    )
    started = time.perf_counter()
    result = run(search, session)
    seconds = time.perf_counter() - started
    side = Side(seconds, ledger.spent("alone").calls, held_out(setup, binding.build(result.best), store, ledger))
    store.close()
    return side


def their_search(setup: Setup, name: str, compile_: Callable[[Any, Any, list[Any], list[Any]], Any]) -> Side:
    """Run one of DSPy's optimizers on the same program, one call at a time, and its best program.

    Args:
        setup: What both sides share.
        name: Of store and run.
        compile_: Metric, program, training and validation examples -> the optimized program.
    """
    store = Store(setup.folder / f"{name}.db")
    ledger = Ledger(store, run=name, counts="alone")
    engine = MeterEngine(_meter(setup.target, store, ledger, "search", "dspy", "train"), raw=True)
    lm = dspy.LM("luthier/embedded", engine=engine, cache=False, num_retries=0, temperature=0.0)
    asked = {question.text: question for question in (*setup.train, *setup.validation)}

    def metric(example: Any, made: Any, trace: Any = None) -> float:
        return setup.task.score(asked[example.question], made.answer).value

    started = time.perf_counter()
    with dspy.context(lm=lm, adapter=ModuleAdapter("raw")), contextlib.redirect_stdout(sys.stderr):
        best = compile_(metric, Program(), examples(setup.train), examples(setup.validation))
    seconds = time.perf_counter() - started
    calls = ledger.spent("alone").calls
    side = Side(seconds, calls, held_out(setup, with_dspy_state(PROGRAM, best.dump_state()), store, ledger))
    store.close()
    return side


def held_out(setup: Setup, program: ProgramHarness, store: Store, ledger: Ledger) -> dict[str, float]:
    """Score of each held-out question; both sides' programs run in the same executor."""
    rows = execute(
        [Job(program, question, 0) for question in setup.test],
        setup.task.score,
        _meter(setup.target, store, ledger, "test", "test", "test"),
    )
    return {row.question: row.score or 0.0 for row in rows}


def mipro_sides(setup: Setup, seed: int) -> tuple[Side, Side]:
    """Ours and DSPy's MIPROv2, every trial a full validation on both sides up to 50 questions."""
    texts = instructions(setup.sets - 1)
    settings = MiproParams(
        instructions=setup.sets,
        sets=setup.sets,
        trials=setup.trials,
        max_bootstrapped=DEMONSTRATIONS,
        max_labelled=0,
    )
    parts = Parts(ProgramBinding(PROGRAM), Listed(texts))
    ours = our_search(setup, f"our mipro {seed}", mipro.build(settings, parts), seed)

    def compile_(metric: Any, program: Any, train: list[Any], validation: list[Any]) -> Any:
        optimizer = dspy.MIPROv2(
            metric=metric,
            prompt_model=dspy.LM("luthier/list", engine=ListedEngine(PROGRAM, texts), cache=False, num_retries=0),
            task_model=dspy.settings.lm,
            auto=None,
            num_candidates=setup.sets,
            max_bootstrapped_demos=settings.max_bootstrapped,
            max_labeled_demos=settings.max_labelled,
            num_threads=1,
            seed=seed,
        )
        return optimizer.compile(
            program,
            trainset=train,
            valset=validation,
            num_trials=setup.trials,
            minibatch=len(validation) > 50,
            minibatch_size=settings.minibatch,
            minibatch_full_eval_steps=settings.full_every,
        )

    return ours, their_search(setup, f"their mipro {seed}", compile_)


def bootstrap_sides(setup: Setup, seed: int) -> tuple[Side, Side]:
    """Ours and DSPy's bootstrap with random search; `sets` shuffled ones beside the special ones."""
    settings = BootstrapParams(candidates=setup.sets, max_bootstrapped=DEMONSTRATIONS, max_labelled=0)
    search = bootstrap.build(settings, Parts(ProgramBinding(PROGRAM)))
    ours = our_search(setup, f"our bootstrap {seed}", search, seed)

    def compile_(metric: Any, program: Any, train: list[Any], validation: list[Any]) -> Any:
        optimizer = dspy.BootstrapFewShotWithRandomSearch(
            metric=metric,
            max_bootstrapped_demos=settings.max_bootstrapped,
            max_labeled_demos=settings.max_labelled,
            num_candidate_programs=settings.candidates,
            num_threads=1,
        )
        return optimizer.compile(program, trainset=train, valset=validation)

    return ours, their_search(setup, f"their bootstrap {seed}", compile_)


def report(name: str, suffix: str, pairs: Sequence[tuple[Side, Side]], seeds: Sequence[int], keep: bool) -> None:
    """Record the two figures of one method, or print them alone."""
    seconds = [sum(pair[side].seconds for pair in pairs) for side in (0, 1)]
    calls = [sum(pair[side].calls for pair in pairs) for side in (0, 1)]
    tables = [[pair[side].held_out for pair in pairs] for side in (0, 1)]
    gap = seeded_difference(*tables, resamples=10_000)
    points = [[100 * mean for mean in spread(side).means] for side in tables]
    means = [statistics.fmean(side) for side in points]
    low, high = 100 * gap.low, 100 * gap.high
    print(
        f"{name}: {seconds[0]:.1f} s and {calls[0]} calls, DSPy {seconds[1]:.1f} s and {calls[1]} calls; held out "
        f"{means[0]:.1f} and {means[1]:.1f} %, difference {100 * gap.mean:.1f} [{low:.1f}, {high:.1f}]; by seed "
        f"{' '.join(f'{ours:.1f}/{theirs:.1f}' for ours, theirs in zip(*points, strict=True))}",
        file=sys.stderr,
    )
    if not keep:
        return
    record(
        f"{name}_vs_dspy{suffix}",
        round(seconds[0] / seconds[1], 3),
        unit="wall time, ratio",
        n=calls[0],
        ours=round(seconds[0], 1),
        peer=round(seconds[1], 1),
        seeds=seeds,
    )
    record(
        f"{name}_vs_dspy{suffix}_score",
        round(100 * gap.mean, 2),
        unit="points of accuracy",
        n=gap.n,
        ours=round(means[0], 2),
        peer=round(means[1], 2),
        seeds=seeds,
        interval=(round(low, 2), round(high, 2)),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run both methods on both sides."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, count in (("train", 24), ("validation", 24), ("test", 200), ("sets", 6), ("trials", 20)):
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5, 6], help="of MIPROv2, from 1")
    parser.add_argument(
        "--share-prefixes", action=argparse.BooleanOptionalAction, default=True, help="the engine reads beginnings once"
    )
    parser.add_argument("--print-only", action="store_true", help="record nothing")
    arguments = parser.parse_args(argv)
    if min(arguments.seeds) < 1:
        parser.error("DSPy's MIPROv2 ignores seed 0: give seeds from 1")
    logging.getLogger("dspy").setLevel(logging.WARNING)
    task = open_task("mixed", "letter_counting")
    train, validation, test = (
        task.questions(split, getattr(arguments, split), 991) for split in ("train", "validation", "test")
    )
    spec = replace(spec_of(load_params(ROOT).profile.target), share_prefixes=arguments.share_prefixes)
    target = open_target(spec)
    target.complete([Request("warm up", 2)])
    with tempfile.TemporaryDirectory() as folder:
        setup = Setup(task, target, train, validation, test, arguments.sets, arguments.trials, Path(folder))
        suffix, keep = "" if arguments.share_prefixes else "_unshared", not arguments.print_only
        report("mipro", suffix, [mipro_sides(setup, seed) for seed in arguments.seeds], arguments.seeds, keep)
        report("bootstrap", suffix, [bootstrap_sides(setup, 0)], [0], keep)
    target.close()
    return 0


def _meter(target: Target, store: Store, ledger: Ledger, account: Account, phase: str, split: str) -> Meter:
    return Meter(target, store, ledger, role="target", account=account, method="peers", phase=phase, split=split)


if __name__ == "__main__":
    raise SystemExit(main())
