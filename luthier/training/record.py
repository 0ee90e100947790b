"""Small things both training phases need: the base model's folder and a progress line per step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from luthier.errors import InputError
from luthier.targets.weights import prepare

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


def progress_line(label: str) -> Callable[[Mapping[str, float]], None]:
    """A callback that prints one line per logged training step, with the time left."""
    started = time.monotonic()
    first: list[float] = []

    def show(row: Mapping[str, float]) -> None:
        if "loss" not in row and "reward" not in row:
            return
        step, total = row.get("step", 0.0), row.get("of", 0.0)
        first.append(step)
        done = step - first[0] + 1
        left = (time.monotonic() - started) / done * (total - step)
        values = " ".join(f"{key.rsplit('/', 1)[-1]} {row[key]:.3g}" for key in _SHOWN if key in row)
        print(f"{label}: step {step:.0f}/{total:.0f} {values} | {left:.0f} s left", flush=True)

    return show
