"""The bill of a training: every sample drawn and every update pass is entered in the ledger as it happens.

Training asks a `Bill` and knows no context. What is paid in one optimiser step has one name ("step 12"), the
same in a training that was killed and goes on, so the ledger's rule for replays holds (`luthier.ledger.ledger`): a
step that must be done again is paid again, because the machine works again, and counts once uncached.

Two cases the ledger alone cannot see (ours). A training goes on in another run when a setting changed
that does not concern it: a journal beside the trainer's state enters what was paid before as cached. And a
step that breaks off (a limit, Ctrl-C) is paid as far as it came and has no uncached cost.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from luthier.ledger.budget import Amount, Tariff
from luthier.ledger.entries import Context, Entry
from luthier.ledger.ledger import Ledger
from luthier.reading import read_text, shaped
from luthier.target import Usage

Work = Literal["draw", "reference", "update"]
"""Samples drawn, rows that a reference model read, rows that went forward and backward."""

PHASES: dict[Work, str] = {"draw": "{}", "reference": "{} reference", "update": "{} update"}
"""The phase that each kind of work is entered under, so that totals show them apart."""


def tariff_of(work: Work) -> Tariff:
    """Which price a kind of work has."""
    return "trained" if work == "update" else "generator"


@dataclass(slots=True)
class Charge:
    """What a piece of work really was; its seconds are measured around it."""

    usage: Usage = field(default_factory=Usage)


class Bill(Protocol):
    """Pays for a training."""

    def reserve(self, work: Work, most: Usage) -> int:
        """Set the most that a piece of work can cost aside, before it is done; gives the reservation.

        Raises:
            BudgetExhausted: it might overshoot a limit.
        """
        ...

    def enter(self, work: Work, step: str, usage: Usage, reserved: list[int], *, whole: bool = True) -> None:
        """Replace reservations by what was done. Not `whole`: the step broke off and will be done again."""
        ...


class LedgerBill:
    """A bill that the ledger pays. In a training over several processes each of them pays for its own work.

    Calls are sequences: samples drawn, or rows of a pass. A prompt is read once for all of its samples, so its
    tokens count once. In update passes "completion tokens" carry the loss and "prompt tokens" do not.

    Args:
        ledger: Pays.
        context: Account, role, method, phase, split and seed; the phase is told apart by `PHASES`.
        identity: Digest of everything that decides the training's result; part of every name.
        scratch: The training's folder for resumable state, which is deleted when it ends; holds the journal.
    """

    def __init__(self, ledger: Ledger, context: Context, identity: str, scratch: Path) -> None:
        self._ledger, self._context, self._identity = ledger, context, identity
        rank = int(os.environ.get("RANK", "0"))
        self._part_of = f" rank {rank}" if rank else ""
        self._journal = scratch / f"bill-{rank}.jsonl"
        self._pace: dict[Work, float] = {}
        ledger.settle([], [self._entry(*row, paid=False) for row in self._paid_before()])

    def reserve(self, work: Work, most: Usage) -> int:
        """See `Bill.reserve`. Seconds are reserved at the slowest pace of this kind of work so far."""
        most = replace(most, seconds=most.calls * self._pace.get(work, 0.0))
        return self._ledger.reserve(self._context.account, self._amount(work, most))

    def enter(self, work: Work, step: str, usage: Usage, reserved: list[int], *, whole: bool = True) -> None:
        """See `Bill.enter`."""
        entry = self._entry(work, step + self._part_of, usage)
        if not whole:
            entry = replace(entry, part="broken update", alone=Amount())
        self._ledger.settle(reserved, [entry])
        if usage.calls:
            self._pace[work] = max(self._pace.get(work, 0.0), usage.seconds / usage.calls)
        if whole:
            self._note(work, step + self._part_of, usage)

    def _amount(self, work: Work, usage: Usage) -> Amount:
        return self._ledger.amount(tariff_of(work), usage)

    def _entry(self, work: Work, step: str, usage: Usage, *, paid: bool = True) -> Entry:
        context = replace(self._context, phase=PHASES[work].format(self._context.phase), scope=step)
        alone = self._amount(work, usage)
        purpose = f"{self._identity} {step}"
        return Entry(
            context, purpose, work, not paid, alone if paid else Amount(), alone, target=f"training-{self._identity}"
        )

    def _note(self, work: Work, step: str, usage: Usage) -> None:
        self._journal.parent.mkdir(parents=True, exist_ok=True)
        with self._journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps([work, step, asdict(usage)]) + "\n")

    def _paid_before(self) -> Iterator[tuple[Work, str, Usage]]:
        """What the journal holds; the line that a kill cut off is left out: its step was never saved."""
        if not self._journal.is_file():
            return
        fix = "delete the folder that it lies in: the training then starts afresh"
        for number, line in enumerate(read_text(self._journal, fix=fix).split("\n"), start=1):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            with shaped("no line of a bill", where=f"{self._journal}:{number}", fix=fix):
                work, step, usage = row
                paid = Usage(**usage)
            yield work, step, paid


@contextmanager
def paying(bill: Bill, work: Work, step: str, most: Usage) -> Iterator[Charge]:
    """Reserve, time and enter the work of a `with` block, which sets `Charge.usage`.

    When the block fails, the reservation stays, and the ledger reports it as lost: nobody knows how far it came.
    """
    reserved, charge, started = bill.reserve(work, most), Charge(), time.perf_counter()
    yield charge
    bill.enter(work, step, replace(charge.usage, seconds=time.perf_counter() - started), [reserved])


class Updates:
    """The update passes of one optimiser step after the other: reserved before each pass, entered at the step's end.

    A step's seconds are its wall time less what `elsewhere` pays for itself: drawing, executing, the reference.

    Args:
        bill: Pays.
    """

    def __init__(self, bill: Bill) -> None:
        self._bill = bill
        self._step, self._usage, self._reserved = "", Usage(), list[int]()
        self._started, self._elsewhere = 0.0, 0.0

    def begin(self, step: int) -> None:
        """An optimiser step starts; `step` is the number of those before it."""
        self._step, self._usage, self._reserved = f"step {step}", Usage(), []
        self._started, self._elsewhere = time.perf_counter(), 0.0

    def passing(self, rows: int, prompt_tokens: int, completion_tokens: int) -> None:
        """These rows go forward and backward now.

        Raises:
            BudgetExhausted: they might overshoot a limit.
        """
        usage = Usage(rows, prompt_tokens, completion_tokens)
        self._reserved.append(self._bill.reserve("update", usage))
        self._usage += usage

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Time within a step that is paid under another name."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._elsewhere += time.perf_counter() - started

    def end(self, *, whole: bool = True) -> None:
        """The step is done, or (not `whole`) the training ends within it; nothing when no pass is open."""
        if self._reserved:
            seconds = time.perf_counter() - self._started - self._elsewhere
            usage, reserved = replace(self._usage, seconds=seconds), self._reserved
            self._reserved = []
            self._bill.enter("update", self._step, usage, reserved, whole=whole)

    def callback(self) -> Any:
        """The trainer's callback that begins and ends the steps; it comes before the trainer saves its state."""
        from transformers import TrainerCallback

        updates = self

        class Steps(TrainerCallback):
            def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                updates.begin(state.global_step)

            def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                updates.end()

        return Steps()
