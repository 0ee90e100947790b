"""`StageContext`: opens, for one stage, what the parameters name: task, store, ledger, target, meters.

Everything that costs time or memory (the model above all) is opened on first use, so that `--dry-run` and
a stage without work stay cheap.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType

from luthier.execution import Execution, Limits
from luthier.executors.execute import Job, execute, require_results
from luthier.experiment import STORE
from luthier.files import digest_text
from luthier.ledger.budget import Budget, Price, Tariff
from luthier.ledger.ledger import Account, Context, Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.prices import PriceTag, price_tags
from luthier.ledger.store import Store
from luthier.progress import ProgressBar
from luthier.settings.load import Params, load_params
from luthier.settings.target import TargetParams
from luthier.stopping import StopSignal
from luthier.target import Role, Target, Usage
from luthier.targets import TargetSpec, open_target
from luthier.task import Task
from luthier.tasks import open_task
from luthier.training.bill import LedgerBill

CACHE = Path(".cache")


class StageContext:
    """Everything one stage needs, opened once and closed together.

    Args:
        stage: Name of the stage. method: The method it works for, "" for shared stages.
        params: Checked settings; read from the folder when left out.
        root: The project's folder.
        stop: Asked between the steps of the stage's work; None never stops it.
    """

    def __init__(
        self,
        stage: str,
        method: str = "",
        *,
        params: Params | None = None,
        root: Path = Path("."),
        stop: StopSignal | None = None,
    ) -> None:
        self.stage, self.method, self.root, self.stop = stage, method, root, stop
        self.params = params or load_params(root)
        self.limits = Limits(**self.params.profile.limits.model_dump())
        self._targets: list[Target] = []
        self._opened: dict[str, Target] = {}

    def __enter__(self) -> StageContext:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close what was opened."""
        for target in self._targets:
            target.close()
        self._targets.clear()
        self._opened.clear()
        if "store" in self.__dict__:
            self.store.close()

    @cached_property
    def task(self) -> Task:
        """The task that the questions belong to."""
        return open_task(self.params.ask.task.name, self.params.ask.task.source)

    @cached_property
    def store(self) -> Store:
        """The record of calls and executions; shared by all stages, runs and experiments of this folder."""
        return Store((self.root / CACHE / STORE).resolve())

    @property
    def run(self) -> str:
        """Name of the ledger's run: the same stage with the same settings continues it after a kill.

        The budget is no part of it, so that a raised limit still counts what was spent before.
        """
        settings = self.params.model_dump(exclude={"ask": {"budget"}, "phases": True, "file": True})
        settings_digest = digest_text(json.dumps(settings, sort_keys=True))[:12]
        return f"{self.stage}@{self.method or 'all'}/{self.params.ask.seed}/{settings_digest}"

    @cached_property
    def ledger(self) -> Ledger:
        """The accounts of this stage."""
        budget = Budget.parse(self.params.ask.budget.model_dump(), "params.yaml, field budget")
        return Ledger(self.store, budget, run=self.run, prices=self._prices(), price_fields=self._price_fields())

    def ledger_alone(self, run: str, budget: Budget) -> Ledger:
        """A ledger of its own for one search: its limits hold uncached, however warm the store is."""
        prices, fields = self._prices(), self._price_fields()
        return Ledger(self.store, budget, run=run, prices=prices, price_fields=fields, counts="alone")

    @cached_property
    def target(self) -> Target:
        """The frozen model."""
        return self.open(self.params.profile.target)

    def open(self, settings: TargetParams) -> Target:
        """Open a model; it is closed with the context."""
        return self.adopt(open_target(spec_of(settings)))

    def opened(self, settings: TargetParams) -> Target:
        """As `open`, once for equal settings."""
        key = settings.model_dump_json()
        if key not in self._opened:
            self._opened[key] = self.open(settings)
        return self._opened[key]

    def adopt(self, target: Target) -> Target:
        """Close this target with the context."""
        self._targets.append(target)
        return target

    def meter(
        self,
        role: Role,
        account: Account,
        *,
        split: str = "",
        phase: str = "",
        target: Target | None = None,
        scope: str = "",
        ledger: Ledger | None = None,
        seed: int | None = None,
    ) -> Meter:
        """The way to call a model on this stage's behalf: its target, ledger and seed, unless others are given."""
        return Meter(
            target or self.target,
            self.store,
            ledger or self.ledger,
            role=role,
            account=account,
            method=self.method,
            phase=phase or self.stage,
            split=split,
            seed=self.params.ask.seed if seed is None else seed,
            scope=scope,
            attempts=self._attempts(role),
        )

    def execute(self, jobs: Sequence[Job], meter: Meter, label: str, *, quiet: bool = False) -> list[Execution]:
        """Run jobs with this stage's limits and a progress line.

        Raises:
            StopRequested: between waves, or after the last one; what finished is stored.
            TargetError: the machine failed some of them, or serves nothing at all.
        """
        executions = execute(
            jobs,
            self.task.score,
            meter,
            self.limits,
            width=self.params.profile.grid.width,
            progress=None if quiet else ProgressBar(label),
            stop=self.stop,
        )
        require_results(executions, label)
        return executions

    @property
    def tariff(self) -> dict[str, tuple[float, float]]:
        """USD for a million prompt and completion tokens of each role that has a price."""
        return {
            role: (price.prompt_usd_per_million, price.completion_usd_per_million)
            for role, price in sorted(self._prices().items())
        }

    def _attempts(self, role: Role) -> int:
        """Only a server is asked again; an engine in this process answers or breaks."""
        settings = self._settings_of(role)
        return 1 + settings.retries if settings.engine == "openai" else 1

    def _settings_of(self, role: Role) -> TargetParams:
        if role == "teacher":
            return self.params.teacher(self.method) or self.params.profile.target
        if role in ("proposer", "critic"):
            return self.params.profile.proposer or self.params.profile.target
        return self.params.profile.target

    def check_prices(self, *tariffs: Tariff) -> None:
        """Refuse, before anything is spent, a price limit that could not be held.

        Raises:
            InputError: `budget.price` is set and one of these has no price.
        """
        for tariff in tariffs:
            self.ledger.amount(tariff, Usage(calls=1))

    def bill(self, identity: str, scratch: Path) -> LedgerBill:
        """Who pays for the training of this stage's method.

        Args:
            identity: Digest of everything that decides the training's result.
            scratch: The training's folder for resumable state.
        """
        context = Context("train", "generator", self.method, self.stage, "train", self.params.ask.seed)
        return LedgerBill(self.ledger, context, identity, scratch)

    def price_tags(self, method: str = "") -> dict[Tariff, PriceTag]:
        """What the settings say of prices, for this stage's method or another one."""
        return price_tags(self.params, method or self.method)

    def _prices(self) -> dict[Tariff, Price]:
        tags = self.price_tags()
        return {tariff: tag.price for tariff, tag in tags.items() if tag.price is not None}

    def _price_fields(self) -> dict[Tariff, str]:
        return {tariff: tag.place for tariff, tag in self.price_tags().items()}


def spec_of(settings: TargetParams) -> TargetSpec:
    """The engine's specification in a settings section."""
    values = settings.model_dump(exclude={"prompt_usd_per_million", "completion_usd_per_million"})
    return TargetSpec(**values)
