"""Stage `search`: look for one harness from outside, once per seed, within the largest budget of the comparison.

Where the search stood at each smaller budget is read from its log. Every call counts as if the store were empty, so
that a warm store gives nobody more steps; what was paid is in the ledger beside it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from luthier.context import CACHE, StageContext
from luthier.errors import InputError
from luthier.files import digest_text, locked, write_atomically, write_json, write_rows
from luthier.harnesses.pool.task_programs import program_for
from luthier.ledger.budget import Amount, Budget, show
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import Meter
from luthier.method import Searches
from luthier.methods import having
from luthier.question import Question, read_questions
from luthier.search.best_at_budget import BestAtBudget, best_at_budget
from luthier.search.contracts import LogRow, Proposer, Scope, SearchResult
from luthier.search.evaluator import Executed
from luthier.search.labels import label_for
from luthier.search.log import SearchLog
from luthier.search.parts import Parts
from luthier.search.programs import ProgramBinding
from luthier.search.proposers.grammar import GrammarProposer
from luthier.search.proposers.llm_proposer import ModelProposer
from luthier.search.session import Session, run
from luthier.settings.search import ProposingParams
from luthier.target import Role
from stages.entry import Options, run_stage
from stages.places import QUESTIONS
from stages.places import SEARCH as OUT

LOGS = CACHE / "searches"
_VERSION = 2
"""Raise it when equal settings search otherwise: a log of the version before cannot be continued."""


@dataclass(frozen=True)
class Ground:
    """What every search of a comparison starts from."""

    binding: ProgramBinding
    scope: Scope
    train: Sequence[Question]
    validation: Sequence[Question]
    budget: Budget
    unit: str


def work(context: StageContext, options: Options) -> None:
    """Write data/search/<method>/<seed>/{log.jsonl, result.json, program.txt}."""
    ground = _ground(context)
    seeds = context.params.profile.compare.seeds
    print(f"search: {context.method}, seeds {', '.join(map(str, seeds))}; {ground.scope.render()}")
    if options.dry_run:
        _forecast(context, ground, len(seeds))
        return
    for seed in seeds:
        _write(context, ground, seed, *_search(context, ground, seed))


def _ground(context: StageContext) -> Ground:
    settings, compare = context.params.profile.search, context.params.profile.compare
    if not compare.budgets:
        raise InputError(
            "field compare.budgets: empty, so a search has no end",
            where=f"profiles/{context.params.ask.profile}.yaml",
            fix=f"name total budgets in the unit {compare.unit}, the largest ends a search",
        )
    binding = ProgramBinding(program_for(context.params.ask.task.name))
    scope = Scope(tuple(binding.program.modules), **settings.scope.model_dump())
    whole = compare.unit != "price"
    limit = max(compare.budgets)
    limits: dict[str, float] = {compare.unit: int(limit) if whole else limit}
    return Ground(
        binding,
        scope,
        read_questions(QUESTIONS / "train.jsonl")[: settings.train],
        read_questions(QUESTIONS / "validation.jsonl")[: settings.validation],
        Budget.parse(limits, f"profiles/{context.params.ask.profile}.yaml, field compare"),
        compare.unit,
    )


def _search(context: StageContext, ground: Ground, seed: int) -> tuple[Session, SearchResult, Ledger]:
    name = _run_name(context, ground, seed)
    log = context.root / LOGS / f"{digest_text(name)[:16]}.jsonl"
    ledger = context.ledger_alone(name, ground.budget)
    with locked(log.with_suffix(".lock"), _wait):
        session = Session(
            ground.binding.candidate(),
            ground.scope,
            ground.train,
            ground.validation,
            _evaluate(context, ground, ledger, seed),
            ledger,
            SearchLog(log),
            seed=seed,
            watch=_progress(context.method, seed, ground),
        )
        method = having(context.method, Searches)
        settings = _settings(context)
        parts = Parts(
            ground.binding,
            _proposer(context, ground, ledger, seed),
            _model_meter(context, ledger, seed, "critic") if settings.proposer == "model" else None,
            label_for(context.params.ask.task.name),
        )
        result = run(method.search(settings, parts), session)
    return session, result, ledger


def _settings(context: StageContext) -> ProposingParams:
    """The search's own section; every one of them says who proposes."""
    kind = having(context.method, Searches).section
    settings = context.params.section(context.method, kind)
    assert isinstance(settings, ProposingParams), f"{kind.__name__} says nothing of a proposer"
    return settings


def _wait(holder: str) -> None:
    print(f"search: process {holder} runs this search; waiting for it, then reading what it found")


def _run_name(context: StageContext, ground: Ground, seed: int) -> str:
    """Equal for equal searches: what is asked of other stages does not start this one anew.

    Another budget does, because a log and a ledger cannot go back; the store then has the answers of the one before.
    """
    identity = {
        "version": _VERSION,
        "settings": _settings(context).model_dump(),
        "proposer": context.params.profile.proposer and context.params.profile.proposer.model_dump(),
        "target": context.target.fingerprint,
        "limits": asdict(context.limits),
        "program": ground.binding.program.digest,
        "scope": asdict(ground.scope),
        "questions": [question.id for question in (*ground.train, *ground.validation)],
        "tariff": context.tariff,
        "budget": asdict(ground.budget),
    }
    digest = digest_text(json.dumps(identity, sort_keys=True))[:12]
    return f"search@{context.method}/{seed}/{digest}"


def _evaluate(context: StageContext, ground: Ground, ledger: Ledger, seed: int) -> Executed:
    def meter(phase: str, split: str) -> Meter:
        return context.meter("target", "search", split=split, phase=phase, ledger=ledger, seed=seed)

    return Executed(
        ground.binding.build,
        context.task.score,
        meter,
        seed=seed,
        limits=context.limits,
        width=context.params.profile.grid.width,
        stop=context.stop,
    )


def _proposer(context: StageContext, ground: Ground, ledger: Ledger, seed: int) -> Proposer:
    if _settings(context).proposer == "grammar":
        traced = ground.scope.feedback == "trace"  # else a proposer may not see what a module wrote
        case = ground.binding.worked_case if traced else None
        return GrammarProposer(case=case, max_characters=ground.scope.max_characters)
    return ModelProposer(_model_meter(context, ledger, seed, "proposer"))


def _model_meter(context: StageContext, ledger: Ledger, seed: int, role: Role) -> Meter:
    """The model behind proposer and critic; offline there is none, and no other one may take its place unseen."""
    server = context.params.profile.proposer
    if server is None:
        raise InputError(
            f"field search.{context.method}.proposer: 'model', but no model is named",
            where=f"profiles/{context.params.ask.profile}.yaml",
            fix="add a section `proposer` with the server, or write `proposer: grammar`",
        )
    target = context.opened(server)
    return context.meter(role, "search", split="train", target=target, ledger=ledger, seed=seed)


def _progress(method: str, seed: int, ground: Ground) -> Callable[[LogRow], None]:
    limit = getattr(ground.budget, ground.unit)

    def watch(row: LogRow) -> None:
        if row.event == "stop" or (row.event == "evaluate" and row.detail["full"]):
            best = "none" if row.best is None else f"{row.best:.1%}"
            spent = show(row.spent.get(ground.unit), ground.unit)
            print(f"search: {method} {seed} step {row.step} best {best} spent {spent} of {limit:g} {row.outcome}")

    return watch


def _forecast(context: StageContext, ground: Ground, seeds: int) -> None:
    ledger = context.ledger_alone(f"forecast {context.method}", ground.budget)
    evaluate = _evaluate(context, ground, ledger, context.params.ask.seed)
    one = evaluate.worst_case(ground.binding.candidate(), ground.validation, "validation")
    limit = getattr(ground.budget, ground.unit)
    need = one.get(ground.unit)
    print(f"  one validation pass needs up to {show(need, ground.unit)} {ground.unit}, {one.calls:,} calls")
    print(f"  {seeds} searches of at most {limit:g} {ground.unit} each")
    if need is not None and need > limit:
        print("  the budget is smaller than one validation pass: the search would end where it starts")


def _write(
    context: StageContext, ground: Ground, seed: int, session: Session, result: SearchResult, ledger: Ledger
) -> None:
    folder = OUT / context.method / str(seed)
    rows = [replace(row, spent=_countable(row.spent)) for row in result.rows]
    compare = context.params.profile.compare
    stands = [
        best_at_budget(rows, session.validated, session.start, ground.unit, budget)
        for budget in sorted(compare.budgets)
    ]
    write_rows(folder / "log.jsonl", [row.to_row() for row in rows])
    write_json(
        folder / "result.json",
        {
            "method": context.method,
            "seed": seed,
            "scope": ground.scope.render(),
            "roles": ", ".join(sorted({line.role for line in ledger.totals()})),
            "reason": result.reason,
            "score": result.score,
            "outcomes": dict(result.outcomes),
            "criticisms": dict(result.criticisms),
            "unit": ground.unit,
            "curve": [
                {"step": row.step, "score": best, "spent": asdict(_countable(row.spent))}
                for row, best in result.improvements()
            ],
            "stands": [_stand(ground, stand) for stand in stands],
        },
    )
    write_atomically(folder / "program.txt", ground.binding.build(result.best).text)
    score = "unvalidated" if result.score is None else f"{result.score:.1%}"
    print(f"search: {context.method} {seed} ended ({result.reason}) with {score} on validation")


def _stand(ground: Ground, stand: BestAtBudget) -> dict[str, object]:
    return {
        "budget": stand.budget,
        "score": stand.score,
        "spent": asdict(stand.spent),
        "steps": stand.steps,
        "validations": stand.validations,
        "program": ground.binding.build(stand.candidate).text,
    }


def _countable(amount: Amount) -> Amount:
    """Without seconds: they differ between runs, and equal searches shall give equal files."""
    return replace(amount, seconds=None)


if __name__ == "__main__":
    raise SystemExit(run_stage("search", work, per_method=True, searches=True))
