"""Small things both training phases need: the base model's folder and a progress line per step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from luthier.errors import InputError
from luthier.targets.support.weights import prepare

_SHOWN = ("loss", "reward", "valid", "correct", "flat_groups", "kl", "entropy", "completions/mean_length")


def base_folder(model: str, cache: Path) -> Path:
    """The Hugging Face folder to start from: the embedded model's, or a local one.

    Raises:
        InputError: neither.
    """
    if model == "embedded":
        return prepare(cache).hf
    folder = Path(model)
    if not folder.is_dir():
        raise InputError(
            f"field generator.model: no folder {model!r}", where="profile", fix="use 'embedded' or a local folder"
        )
    return folder


def progress_line(label: str, clock: Callable[[], float] = time.monotonic) -> Callable[[Mapping[str, float]], None]:
    """A callback that prints one line per logged training step, with the time left.

    The first step is no measure of the others: it holds what was loaded, compiled and drawn before it.

    Args:
        label: Name of the phase.
        clock: Seconds; for tests.
    """
    first: list[tuple[float, float]] = []

    def show(row: Mapping[str, float]) -> None:
        if "loss" not in row and "reward" not in row:
            return
        step, total, now = row.get("step", 0.0), row.get("of", 0.0), clock()
        values = " ".join(f"{key.rsplit('/', 1)[-1]} {row[key]:.3g}" for key in _SHOWN if key in row)
        line = f"{label}: step {step:.0f}/{total:.0f} {values}"
        if first:
            start, since = first[0]
            line += f" | {(now - since) / max(step - start, 1.0) * (total - step):.0f} s left"
        else:
            first.append((step, now))
        print(line, flush=True)

    return show
