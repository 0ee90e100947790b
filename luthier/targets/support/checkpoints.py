"""A trained generator on the fast engine: its Hugging Face folder, made ready for whatever engine serves the target."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from luthier.errors import InputError
from luthier.target import Target
from luthier.targets import TargetSpec, open_target
from luthier.targets.support.weights import digest_of_weights, prepare, to_f16_gguf


def open_checkpoint(folder: Path, engine: TargetSpec, cache: Path) -> Target:
    """Open a checkpoint of the embedded architecture, or any other through transformers.

    Args:
        folder: Checkpoint in Hugging Face form (safetensors and tokenizer).
        engine: How the frozen target is served; a checkpoint runs on the same in-process engine. A server
            holds one model, so with engine `openai` the checkpoint runs in process through transformers.
        cache: The cache folder; the engine's own file format is made there once per checkpoint.

    Raises:
        InputError: the folder does not exist.
    """
    if not folder.is_dir():
        raise InputError("the checkpoint does not exist", where=str(folder), fix="run the stage that trains it")
    if engine.engine == "openvino":
        digest = digest_of_weights(folder / "model.safetensors")
        gguf = cache / "checkpoints" / f"{digest[:16]}.gguf"
        if not gguf.exists():
            gguf.parent.mkdir(parents=True, exist_ok=True)
            part = gguf.with_name(f".{gguf.name}.{os.getpid()}")
            to_f16_gguf(folder, prepare(cache).gguf, part)
            os.replace(part, gguf)
        return open_target(replace(engine, model=str(gguf)))
    return open_target(replace(engine, engine="transformers", model=str(folder)))
