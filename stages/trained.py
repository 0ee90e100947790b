"""What the stages that train share: where a phase starts from, and the training around its own part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from luthier.context import CACHE, StageContext
from luthier.files import digest_text
from luthier.methods import card, generator_of
from luthier.training.record import base_folder, progress_line
from luthier.training.resume import held
from stages.places import MODELS


def start_of(context: StageContext) -> Path:
    """The checkpoint of the method's training phase before this stage's, else the generator's own model."""
    phases: tuple[str, ...] = card(context.method).checkpoints
    before = phases[: phases.index(context.stage)]
    return MODELS / before[-1] / context.method if before else base_folder(generator_of(context).model, CACHE)


def train_phase(context: StageContext, train: Callable[..., Any], inputs: Mapping[str, str], facts: str) -> None:
    """Train this stage's phase, in a folder of its own that a killed training continues in.

    Args:
        context: Of the stage.
        train: The phase's trainer; gets seed, record, scratch, bill, report and stop.
        inputs: Digest of each input by name; `base` is that of the checkpoint to start from.
        facts: The settings that decide the result, as text.
    """
    phase, seed = context.stage, context.params.ask.seed
    identity = digest_text(f"{phase} {inputs} {facts} {seed}")[:16]
    scratch = CACHE / "training" / f"{phase}-{identity}"
    with held(scratch):
        train(
            seed=seed,
            record={"phase": phase, "method": context.method, "seed": seed, "parent": inputs["base"], "inputs": inputs},
            scratch=scratch,
            bill=context.bill(identity, scratch),
            report=progress_line(phase),
            stop=context.stop,
        )
