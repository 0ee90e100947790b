"""`MethodRun`: one run of one method on one task, with everything that a comparison must know of it.

Kept as two files in one folder (`data/compare/...`): `<name>.json` says who ran, under which budget and what it
spent; `<name>.jsonl` holds one row for each test question. Spend is uncached (`luthier.ledger.ledger`), so that it
does not depend on what other runs left in the store.

A token of an update pass counts as three read ones, for its forward pass and a backward pass of about twice that
(ours). Amounts stay as the ledger has them; the weight is applied where spend is measured in tokens.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from luthier.errors import InputError
from luthier.execution import Execution
from luthier.files import digest_text, read_rows_as, write_json, write_rows
from luthier.ledger.budget import UNITS, Amount, Price
from luthier.ledger.entries import Line
from luthier.reading import read_object, shaped
from luthier.target import Usage

MethodKind = Literal["learned", "searched", "fixed"]
"""learned: a checkpoint writes a harness for each question. searched: one harness, found from outside. fixed: one
harness that nobody looked for."""
Unit = Literal["tokens", "seconds", "price"]
"""What a comparison counts spend in: prompt plus completion tokens, wall seconds of calls, or USD."""
BEFORE_USE = ("data", "train", "search")
"""Accounts that are paid once, before the first use; `use` and `test` are not part of a budget."""
TRAINED_TOKEN = 3
"""Read tokens that one token of an update pass counts as (ours)."""


def unit_label(unit: str) -> str:
    """A unit of spend as print names it: a price is in USD."""
    return "USD" if unit == "price" else unit.replace("_", " ")


def use_label(unit: str) -> str:
    """What the price of using something is printed in: USD for a thousand uses, tokens and seconds for one."""
    return "USD per thousand uses" if unit == "price" else f"{unit_label(unit)} per use"


def use_scale(unit: str) -> float:
    """What a figure per use is multiplied with to be in `use_label`."""
    return 1000.0 if unit == "price" else 1.0


def measure(amount: Amount, unit: Unit, trained: Amount = Amount()) -> float | None:  # noqa: B008 (frozen)
    """An amount in one unit, None when it is unknown.

    Args:
        amount: All of it.
        unit: Tokens, seconds or USD.
        trained: The part of it that is update passes; seconds and prices know them already.
    """
    if unit == "tokens":
        extra = (TRAINED_TOKEN - 1) * (trained.prompt_tokens + trained.completion_tokens)
        return float(amount.prompt_tokens + amount.completion_tokens + extra)
    return amount.seconds if unit == "seconds" else amount.price


@dataclass(frozen=True, slots=True)
class TotalBudget:
    """The total budget of a run before use: data, training and search together.

    Attributes:
        name: What the report calls it ("small").
        unit: "tokens" (prompt plus completion) or one of `luthier.ledger.budget.UNITS`.
        limit: The most of it, None when nothing limits (then no comparison is possible).
    """

    name: str
    unit: str
    limit: float | None

    def __post_init__(self) -> None:
        if self.unit not in ("tokens", *UNITS):
            raise InputError(
                f"field budget.unit: {self.unit!r} is unknown", fix=f"use one of tokens, {', '.join(UNITS)}"
            )

    def used(self, total: Amount, trained: Amount = Amount()) -> float | None:  # noqa: B008 (frozen)
        """How much of the limit a total takes, in the allowance's own unit; `trained` as in `measure`."""
        return measure(total, "tokens", trained) if self.unit == "tokens" else total.get(self.unit)

    def allows(self, total: Amount, trained: Amount = Amount()) -> bool:  # noqa: B008 (frozen)
        """Whether a total is known and within the limit; `trained` as in `measure`."""
        used = self.used(total, trained)
        return used is not None and self.limit is not None and used <= self.limit


@dataclass(frozen=True, slots=True)
class Spend:
    """What one account paid for one role. `alone` counts stored answers too, `paid` does not; None is unknown.

    `trained`: whether it is update passes; the same account and role may stand there with and without.
    """

    account: str
    role: str
    alone: Amount
    paid: Amount | None
    trained: bool = False

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Spend:
        """Inverse of `dataclasses.asdict` after JSON."""
        paid = None if row["paid"] is None else Amount(**row["paid"])
        return cls(**{**row, "alone": Amount(**row["alone"]), "paid": paid})


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a score-spend curve.

    Attributes:
        spent: As if alone, everything before use up to the evaluation that proved the score.
        score: Mean score, for a search the best so far.
        stage: What had just ended ("sft", "validation 3").
        split: Whose questions gave the score.
        trained: The part of `spent` that is update passes.
    """

    spent: Amount
    score: float
    stage: str
    split: Literal["validation", "test"] = "validation"
    trained: Amount = field(default_factory=Amount)


@dataclass(frozen=True, slots=True)
class BudgetResult:
    """One test question.

    Attributes:
        question: Question id. family: Of the question.
        held_out: Whether no training question of this contender was of the family.
        harness: Text that ran. generator: Cost of writing it, zero for a constant one.
        execution: What happened, with score, trace and the target's usage.
    """

    question: str
    family: str
    held_out: bool
    harness: str
    generator: Usage
    execution: Execution

    def to_row(self) -> dict[str, Any]:
        """JSON object of this trial."""
        return asdict(self)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> BudgetResult:
        """Inverse of `to_row`."""
        generator, execution = Usage(**row["generator"]), Execution.from_row(row["execution"])
        return cls(**{**row, "generator": generator, "execution": execution})


@dataclass(frozen=True, slots=True)
class MethodRun:
    """One method's run with one seed, and its answers to all test questions.

    Attributes:
        method: Key, equal for all seeds. label: Its name in print. kind: See `MethodKind`.
        task: Task name. target: Fingerprint of the model that answered the test questions.
        home: Fingerprint of the model it was trained or searched on; another than `target` is transfer.
        seed: Of training or search.
        budget: None for a fixed one only.
        trained, frozen: What learns and what never changes, in words.
        scope: What may be edited and what is read for it, in words; equal words are equal scopes.
        spent: By account and role. curve: In order of spend.
        trials: One for each test question.
        target_price, generator_price: Of a million tokens; None when nobody stated it.
    """

    method: str
    label: str
    kind: MethodKind
    task: str
    target: str
    home: str
    seed: int
    budget: TotalBudget | None
    trained: str
    frozen: str
    scope: str
    spent: tuple[Spend, ...]
    curve: tuple[Point, ...]
    trials: tuple[BudgetResult, ...]
    target_price: Price | None = None
    generator_price: Price | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(MethodKind):
            raise InputError(
                f"field kind: {self.kind!r} is unknown",
                where=self.name,
                fix=f"use one of {', '.join(get_args(MethodKind))}",
            )
        if not self.trials:
            raise InputError("field trials: empty", where=self.name, fix="evaluate it on the test questions")
        twice = [question for question, times in Counter(t.question for t in self.trials).items() if times > 1]
        if twice:
            raise InputError(
                f"field trials: question {min(twice)} stands there twice", where=self.name, fix="keep one row each"
            )

    @property
    def name(self) -> str:
        """File name without ending; unlike that of any other run."""
        budget = self.budget.name if self.budget else "fixed"
        identity = json.dumps([self.task, self.method, budget, self.target, self.seed])
        readable = re.sub(r"[^A-Za-z0-9_]+", "-", f"{self.task}-{self.method}-{budget}-seed-{self.seed}")
        return f"{readable}-{digest_text(identity)[:8]}"

    @property
    def before_use(self) -> Amount:
        """Everything that was spent before the first use, uncached."""
        return before_use(self.spent)

    @property
    def trained_before_use(self) -> Amount:
        """The part of `before_use` that is update passes."""
        return before_use(spend for spend in self.spent if spend.trained)

    def spent_before_use(self, unit: Unit) -> float | None:
        """`before_use` in one unit, None when it is unknown."""
        return measure(self.before_use, unit, self.trained_before_use)

    def use_cost(self, trial: BudgetResult, unit: Unit) -> float | None:
        """What one use costs, generator and target together; None when it is unknown."""
        parts = (self._cost(trial.generator, unit, self.generator_price), self.target_cost(trial, unit))
        return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]

    def target_cost(self, trial: BudgetResult, unit: Unit) -> float | None:
        """The target's share of `use_cost`."""
        return self._cost(trial.execution.usage, unit, self.target_price)

    @staticmethod
    def _cost(usage: Usage, unit: Unit, price: Price | None) -> float | None:
        tokens = usage.prompt_tokens + usage.completion_tokens
        if unit == "tokens" or not tokens:
            return float(tokens)
        if unit == "seconds":
            return usage.seconds or None
        if price is None:
            return None
        return Amount(picodollars=price.picodollars(usage.prompt_tokens, usage.completion_tokens)).price


def before_use(spent: Iterable[Spend]) -> Amount:
    """The part of some spending that is paid once, before the first use, uncached."""
    return sum((spend.alone for spend in spent if spend.account in BEFORE_USE), Amount())


def spends(lines: Iterable[Line], trained: Callable[[Line], bool]) -> tuple[Spend, ...]:
    """Ledger totals by account and role, sorted, over methods and phases.

    Args:
        lines: Totals of the run's own ledger runs.
        trained: Whether a line is update passes (`luthier.training.bill.PHASES`).
    """
    alone: dict[tuple[str, str, bool], Amount] = defaultdict(Amount)
    paid: dict[tuple[str, str, bool], Amount] = defaultdict(Amount)
    for line in lines:
        key = (line.account, line.role, trained(line))
        alone[key] += line.alone
        paid[key] += line.paid
    return tuple(Spend(key[0], key[1], alone[key], paid[key], key[2]) for key in sorted(alone))


def write_contender(folder: Path, contender: MethodRun) -> Path:
    """Write the two files of a run, the rows first.

    Returns:
        Path of the JSON file.
    """
    row = {name: getattr(contender, name) for name in _PLAIN} | {
        "budget": _row(contender.budget),
        "spent": [asdict(item) for item in contender.spent],
        "curve": [asdict(item) for item in contender.curve],
        "target_price": _row(contender.target_price),
        "generator_price": _row(contender.generator_price),
        "trials": len(contender.trials),
    }
    path = folder / f"{contender.name}.json"
    write_rows(path.with_suffix(".jsonl"), (trial.to_row() for trial in contender.trials))
    write_json(path, row)
    return path


def read_contender(path: Path) -> MethodRun:
    """Read a run back.

    Args:
        path: Its JSON file.

    Raises:
        InputError: a file is missing, cut short, or holds something else.
    """
    fix = "run the stage that writes it"
    row = read_object(path, fix=fix)
    with shaped("not a contender", where=str(path), fix=fix):
        trials = tuple(read_rows_as(path.with_suffix(".jsonl"), BudgetResult.from_row, fix=fix))
        if len(trials) != row["trials"]:
            raise InputError(f"field trials: {row['trials']} said, {len(trials)} found", where=str(path), fix=fix)
        return MethodRun(
            **{name: row[name] for name in _PLAIN},
            budget=TotalBudget(**row["budget"]) if row["budget"] else None,
            spent=tuple(map(Spend.from_row, row["spent"])),
            curve=tuple(
                Point(**{**point, "spent": Amount(**point["spent"]), "trained": Amount(**point["trained"])})
                for point in row["curve"]
            ),
            trials=trials,
            target_price=Price(**row["target_price"]) if row["target_price"] else None,
            generator_price=Price(**row["generator_price"]) if row["generator_price"] else None,
        )


def read_contenders(folder: Path) -> tuple[MethodRun, ...]:
    """All runs in a folder and below it, by file name.

    Raises:
        InputError: there is none, or one cannot be read.
    """
    paths = sorted(folder.rglob("*.json"))
    if not paths:
        raise InputError("no contender in this folder", where=str(folder), fix="run the stages that write some")
    return tuple(read_contender(path) for path in paths)


_PLAIN = ("method", "label", "kind", "task", "target", "home", "seed", "trained", "frozen", "scope")


def _row(value: TotalBudget | Price | None) -> dict[str, Any] | None:
    return None if value is None else asdict(value)
