"""Stage `compare`: learned methods and searches at equal total budgets, over seeds, on the same test questions.

A learned method stands under a budget with the last checkpoint that the budget paid for, a search with the best
program that it had proved by then. What is trained, searched and frozen is printed beside every number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from luthier.context import StageContext
from luthier.errors import InputError
from luthier.evaluation.compare import compare
from luthier.evaluation.evaluate import Result, parsed
from luthier.evaluation.method_run import (
    BudgetResult,
    MethodKind,
    MethodRun,
    Point,
    Spend,
    TotalBudget,
    Unit,
    before_use,
    unit_label,
    write_contender,
)
from luthier.evaluation.spending import read_bill
from luthier.execution import Execution
from luthier.executors.execute import Job
from luthier.files import read_rows_as, write_atomically, write_json
from luthier.harnesses.pool.task_programs import program_for
from luthier.ledger.budget import Amount
from luthier.methods import card
from luthier.question import read_questions
from luthier.reading import read_json
from luthier.report.comparison.page import render_comparison
from luthier.report.comparison.summary import lines, table
from luthier.report.html.tables import contender_label
from luthier.settings.target import TargetParams
from luthier.target import Target, Usage
from stages.entry import Options, run_stage
from stages.places import COMPARE as OUT
from stages.places import QUESTIONS, SEARCH
from stages.questions import read_held_out

PAGE = Path("reports/comparison.html")
REPLICAS = Path("data/replicas")
PAID = Path("reports/paid/replicas")
"""Read to be shown where it is there, and no dependency: what was paid differs between equal builds."""
BASELINE = "target_alone"
FIXED = ("target_alone", "best_fixed")
START = "program"
"""The hand-written program that searches start from, as it stands."""
SCOPE = (
    "texts of a harness over the same tools, limits and questions; learns from scores, feedback and traces of training"
    " questions, from scores alone of validation questions, from nothing of test questions"
)
"""What everyone may edit and read: searches edit the task's program, learned methods write a graph for a question."""


def work(context: StageContext, options: Options) -> None:
    """Write data/compare/{contenders, table.json} and reports/comparison.html."""
    asked, settings = context.params.ask, context.params.profile.compare
    print(
        f"compare: {', '.join([*asked.methods, *asked.searches])}; seeds {', '.join(map(str, settings.seeds))};"
        f" budgets {', '.join(f'{budget:g}' for budget in settings.budgets)} {settings.unit}"
    )
    if options.dry_run:
        return
    stage = Stage(context)
    contenders = [*stage.fixed(), *([stage.start()] if asked.searches else [])]
    for method in asked.methods:
        for seed in settings.seeds:
            contenders += stage.learned(method, seed)
    for search in asked.searches:
        for seed in settings.seeds:
            contenders += stage.searched(search, seed)
    if settings.second_target is not None:
        contenders += stage.transferred(contenders, settings.second_target)
    for contender in contenders:
        write_contender(OUT / "contenders", contender)
    unit: Unit = "price" if settings.unit == "price" else "tokens"
    comparison = compare(contenders, BASELINE, unit=unit, resamples=settings.resamples)
    write_json(OUT / "table.json", table(comparison))
    write_atomically(PAGE, render_comparison(comparison, contenders, stage.questions))
    print("\n".join(lines(comparison)))


class Stage:
    """Builds contenders out of the files of the stages before, and runs what has not run yet.

    Args:
        context: Of the stage.
    """

    def __init__(self, context: StageContext) -> None:
        self._bench, self._settings = context, context.params.profile.compare
        if not self._settings.budgets:
            raise InputError(
                "field compare.budgets: empty, so there is no equal total budget",
                where=f"profiles/{context.params.ask.profile}.yaml",
                fix=f"name total budgets in the unit {self._settings.unit}",
            )
        self.questions = read_questions(QUESTIONS / "test.jsonl") + read_held_out(context)
        self._families = {question.id: question.family for question in self.questions}
        self._trained = {question.family for question in read_questions(QUESTIONS / "train.jsonl")}
        self._home = context.target.fingerprint
        tags = context.price_tags()
        self._target_price = tags["target"].price

    def fixed(self) -> list[MethodRun]:
        """The target alone and the best single configuration, as a replica evaluated them."""
        rows = self._rows(REPLICAS / self._bench.params.ask.methods[0] / str(self._settings.seeds[0]))
        return [self._unmoved(name, self._trials(rows[name])) for name in FIXED]

    def start(self) -> MethodRun:
        """The program that every search starts from: what a search has gained is its distance from this."""
        text = program_for(self._bench.params.ask.task.name).text
        return self._unmoved(START, self._tried(START, text, self._settings.seeds[0]))

    def learned(self, method: str, seed: int) -> list[MethodRun]:
        """A learned method under every budget, with one of its seeds.

        Raises:
            InputError: no checkpoint was done within a budget.
        """
        folder, about = REPLICAS / method / str(seed), card(method)
        rows, scores = self._rows(folder), _json(folder / "scores.json")
        bill = read_bill(folder / "spending.json", PAID / method / f"{seed}.json")
        done = [(item.stage, item.spent) for item in bill]
        curve = [
            Point(before_use(spent), scores["validation"][stage]["pooled"]["mean"], stage, trained=_trained(spent))
            for stage, spent in done
        ]
        contenders = []
        for allowance in self._allowances():
            within = [number for number, point in enumerate(curve) if allowance.allows(point.spent, point.trained)]
            if not within:
                least = allowance.used(curve[0].spent, curve[0].trained)
                raise InputError(
                    f"field compare.budgets: {allowance.limit:g} {allowance.unit} pays for no checkpoint of {method}"
                    f" with seed {seed}, the first one takes {least:g}",
                    where=f"profiles/{self._bench.params.ask.profile}.yaml",
                    fix="raise the budget, or make the method's data and training smaller",
                )
            stage, spent = done[within[-1]]
            contenders.append(
                self._contender(
                    method,
                    about.title,
                    "learned",
                    seed,
                    allowance,
                    trained=about.trained,
                    frozen=about.frozen,
                    spent=spent,
                    curve=tuple(curve[: within[-1] + 1]),
                    trials=self._trials(rows[stage]),
                    generator=method,
                )
            )
        return contenders

    def searched(self, method: str, seed: int) -> list[MethodRun]:
        """A search under every budget, with one of its seeds; its programs run on the test questions now.

        Raises:
            InputError: it was searched under other budgets, or could spend nothing within one.
        """
        path, about = SEARCH / method / str(seed) / "result.json", card(method)
        result = _json(path)
        self._check_budgets(path, method, result)
        contenders = []
        trials: dict[str, tuple[BudgetResult, ...]] = {}  # a search may stand with one program under several budgets
        for allowance, stand in zip(self._allowances(), result["stands"], strict=True):
            if not allowance.used(Amount(**stand["spent"])):
                raise InputError(
                    f"field compare.budgets: {allowance.limit:g} {allowance.unit} pays for no step of {method}"
                    f" with seed {seed}",
                    where=f"profiles/{self._bench.params.ask.profile}.yaml",
                    fix=f"raise the budget: `python -m stages.search --dry-run --method {method}` says what one takes",
                )
            if stand["program"] not in trials:
                trials[stand["program"]] = self._tried(method, stand["program"], seed)
            # Of a smaller budget only the sum is known, and nothing of what a warm store had saved by then.
            spent = Spend("search", result["roles"], Amount(**stand["spent"]), None)
            points = [Point(Amount(**p["spent"]), p["score"], f"step {p['step']}") for p in result["curve"]]
            contenders.append(
                self._contender(
                    method,
                    about.title,
                    "searched",
                    seed,
                    allowance,
                    trained=about.trained,
                    frozen=about.frozen,
                    spent=(spent,),
                    curve=tuple(point for point in points if allowance.allows(point.spent)),
                    trials=trials[stand["program"]],
                )
            )
        return contenders

    def transferred(self, contenders: Sequence[MethodRun], settings: TargetParams) -> list[MethodRun]:
        """The harness texts of the largest budget, and the hand-written program, on a second target: the other axis."""
        largest = self._allowances()[-1]
        target = self._bench.opened(settings)
        questions = {question.id: question for question in self.questions}
        moved = []
        for item in contenders:
            if item.budget != largest and item.method != START:
                continue
            jobs = [
                Job(parsed(trial.execution.kind, trial.harness), questions[trial.question], item.seed)
                for trial in item.trials
            ]
            executions = self._run(jobs, f"{item.method}, second target", target)
            trials = tuple(replace(t, execution=e) for t, e in zip(item.trials, executions, strict=True))
            moved.append(replace(item, target=target.fingerprint, trials=trials))
        return moved

    def _check_budgets(self, path: Path, method: str, result: Mapping[str, Any]) -> None:
        """A stand belongs to the budget that it was read at."""
        asked = (self._settings.unit, sorted(self._settings.budgets))
        found = (result["unit"], [stand["budget"] for stand in result["stands"]])
        if found != asked:
            raise InputError(
                f"field stands: searched under {found[1]} {found[0]}, compared under {asked[1]} {asked[0]}",
                where=str(path),
                fix=f"run `dvc repro search@{method}`",
            )

    def _allowances(self) -> list[TotalBudget]:
        budgets, unit = sorted(self._settings.budgets), self._settings.unit
        shown = [f"{budget:g} {unit_label(unit)}" for budget in budgets]
        # Numbered, because the page orders budgets by name.
        return [
            TotalBudget(f"{number}: {name}", unit, budget)
            for number, (budget, name) in enumerate(zip(budgets, shown, strict=True), start=1)
        ]

    def _unmoved(self, name: str, trials: tuple[BudgetResult, ...]) -> MethodRun:
        return self._contender(
            name,
            contender_label(name),
            "fixed",
            self._settings.seeds[0],
            None,
            trained="nothing",
            frozen="everything",
            spent=(),
            curve=(),
            trials=trials,
        )

    def _contender(
        self,
        method: str,
        label: str,
        kind: MethodKind,
        seed: int,
        budget: TotalBudget | None,
        *,
        generator: str = "",
        **parts: Any,
    ) -> MethodRun:
        price = self._bench.price_tags(generator)["generator"].price if generator else None
        return MethodRun(
            method=method,
            label=label,
            kind=kind,
            task=self._bench.params.ask.task.name,
            target=self._home,
            home=self._home,
            seed=seed,
            budget=budget,
            scope="nothing" if kind == "fixed" else SCOPE,
            target_price=self._target_price,
            generator_price=price,
            **parts,
        )

    def _rows(self, folder: Path) -> dict[str, list[Result]]:
        rows: dict[str, list[Result]] = {}
        for name in ("executions.jsonl", "held_out.jsonl"):
            for row in read_rows_as(folder / name, Result.from_row):
                rows.setdefault(row.contender, []).append(row)
        return rows

    def _tried(self, method: str, program: str, seed: int) -> tuple[BudgetResult, ...]:
        """A searched program on all test questions."""
        jobs = [Job(parsed("program", program), question, seed) for question in self.questions]
        return tuple(self._trial(program, Usage(), execution) for execution in self._run(jobs, method))

    def _trials(self, rows: Iterable[Result]) -> tuple[BudgetResult, ...]:
        return tuple(self._trial(row.text, row.proposal, row.execution) for row in rows)

    def _trial(self, text: str, generator: Usage, execution: Execution) -> BudgetResult:
        family = self._families[execution.question]
        return BudgetResult(execution.question, family, family not in self._trained, text, generator, execution)

    def _run(self, jobs: Sequence[Job], label: str, target: Target | None = None) -> list[Execution]:
        meter = self._bench.meter("target", "test", split="test", target=target)
        print(f"compare: {len(jobs)} executions of {label}", flush=True)
        return self._bench.execute(jobs, meter, f"compare {label}", quiet=True)


def _trained(spent: Sequence[Spend]) -> Amount:
    return before_use(item for item in spent if item.trained)


def _json(path: Path) -> Any:
    return read_json(path, what="what an earlier stage wrote", fix="run `dvc repro compare`")


if __name__ == "__main__":
    raise SystemExit(run_stage("compare", work))
