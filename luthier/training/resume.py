"""Resumable trainer state: a killed training continues at its last saved step and ends with the same weights."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from luthier.errors import InputError
from luthier.files import locked
from luthier.reading import read_object
from luthier.stopping import StopSignal

_COMPLETE = "trainer_state.json"
_UNREPEATABLE = ("runtime", "_per_second", "total_flos", "step_time", "num_tokens", "train_loss")


def _is_whole(folder: Path) -> bool:
    """Whether the trainer finished writing: its state file comes last and must be readable."""
    try:
        read_object(folder / _COMPLETE, fix="train on")
    except InputError:
        return False
    return True


@contextmanager
def held(scratch: Path) -> Iterator[None]:
    """Hold a training's folder of resumable state: two experiments may ask for the same training at once.

    Of a training over several processes, the first one holds it for all.
    """

    def waiting(holder: str) -> None:
        print(f"process {holder} trains exactly this; waiting for it to end")

    first = os.environ.get("RANK", "0") == "0"
    with locked(scratch.with_suffix(".lock"), waiting) if first else nullcontext():
        yield


def quiet(trainer: Any) -> None:
    """Take away the trainer's own printing of each step; `report` of the phase's `train` tells it instead."""
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)


class ResumeFolder:
    """A folder of trainer checkpoints that belongs to one exact training.

    Args:
        folder: Named by a digest of everything that decides the result, so that changed inputs never
            resume a stranger's state.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def latest(self) -> str | None:
        """The newest whole trainer checkpoint, None to start afresh. A half-written one is deleted."""
        steps: list[tuple[int, Path]] = []
        for path in sorted(self.folder.glob("checkpoint-*")):
            if _is_whole(path):
                steps.append((int(path.name.rsplit("-", 1)[1]), path))
            else:
                shutil.rmtree(path, ignore_errors=True)
        return str(max(steps)[1]) if steps else None

    def clear(self) -> None:
        """Delete the state of a training that ended."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def interval(rows: int, batch: int, epochs: float) -> int:
        """Optimiser steps between two saves: three saves per training."""
        return math.ceil(math.ceil(rows / batch) * epochs / 3)

    @staticmethod
    def curve(history: Iterable[Mapping[str, Any]]) -> list[dict[str, float]]:
        """Logged steps, to six digits, without what differs between two equal runs (times, speeds)."""
        rows: list[dict[str, float]] = []
        for entry in history:
            if "loss" not in entry and "reward" not in entry:
                continue
            row = {
                key: float(f"{value:.6g}")
                for key, value in sorted(entry.items())
                if isinstance(value, int | float) and not any(part in key for part in _UNREPEATABLE)
            }
            rows.append(row)
        return rows

    @staticmethod
    def stops(stop: StopSignal) -> Any:
        """The trainer callback that saves the step after which a stop was asked for, and stops there.

        The last step is not stopped: the training is done.
        """
        from transformers import TrainerCallback

        def asked(args: Any, state: Any) -> bool:
            # Several processes would have to agree on the step.
            return args.world_size == 1 and state.global_step < state.max_steps and stop.requested()

        class Stops(TrainerCallback):
            def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                control.should_save = control.should_save or asked(args, state)

            def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                if asked(args, state):
                    stop.check()

        return Stops()

    @staticmethod
    def callbacks(report: Callable[[dict[str, float]], None] | None) -> list[Any]:
        """Trainer callbacks that pass each logged step on."""
        if report is None:
            return []
        from transformers import TrainerCallback

        tell = report  # for the type checker: no longer optional

        class Report(TrainerCallback):
            def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
                if logs and state.is_world_process_zero:
                    rows = ResumeFolder.curve([{**logs, "step": state.global_step, "of": state.max_steps}])
                    for row in rows:
                        tell(row)

        return [Report()]
