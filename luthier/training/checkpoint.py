"""Loading and saving trainable generators as ordinary Hugging Face folders, byte for byte repeatable."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luthier.errors import InputError, StoreError
from luthier.files import digest_folder, write_json
from luthier.reading import read_object
from luthier.training import zero

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

WEIGHTS = "model.safetensors"
RECORD = "training.json"


def quiet_libraries() -> None:
    """Keep the training libraries offline and silent; call before importing them."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    # A deprecation between two libraries concerns neither the reader of a log nor the training.
    for library in ("accelerate", "datasets", "deepspeed", "peft", "torch", "transformers", "trl"):
        warnings.filterwarnings("ignore", module=rf"{library}(\.|$)")
    from transformers.utils import logging

    logging.disable_progress_bar()


def load(folder: Path, *, precision: str = "fp32") -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load weights and tokenizer of a local folder; fp32 master weights unless `precision` is "bf16".

    Raises:
        InputError: the folder is missing or holds no weights.
    """
    if not (folder / WEIGHTS).exists():
        raise InputError(
            f"no {WEIGHTS} in the folder",
            where=str(folder),
            fix="run the stage that trains it, or name a Hugging Face folder",
        )
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return model, tokenizer


def train_last_layers(model: PreTrainedModel, layers: int) -> int:
    """Freeze all but the last `layers` transformer blocks and the final norm; 0 trains everything.

    Ours: on two cores the backward pass of half the blocks costs half, and the lower half keeps the
    language of the pre-trained model.

    Returns:
        The number of trainable parameters.
    """
    if layers:
        inner: Any = model.model
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        for block in inner.layers[-layers:]:
            for parameter in block.parameters():
                parameter.requires_grad_(True)
        for parameter in inner.norm.parameters():
            parameter.requires_grad_(True)
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def save(folder: Path, model: PreTrainedModel, base: Path, record: Mapping[str, Any], *, writes: bool = True) -> None:
    """Write weights (float16), the tokenizer of `base` and `training.json`; the folder appears whole or not at all.

    Every process of a training calls it, because gathering weights takes all of them, and one of them `writes`.

    float16 keeps ten mantissa bits, against seven of bfloat16: the engine reads the same numbers that
    training ends with (the F16 file of the fast engine is made from exactly these).

    Raises:
        StoreError: the disk is full or the folder is not writable; an older checkpoint is untouched.
    """
    from safetensors import SafetensorError

    weights = whole_weights(model, keeps=writes)
    if not writes:
        return
    part = folder.with_name(f".{folder.name}.part")
    try:
        _write(part, weights, base, record)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(part, folder)
    except (OSError, SafetensorError) as error:
        raise StoreError(
            f"cannot write the checkpoint ({error})",
            where=str(folder),
            fix="free disk space or correct the folder's rights, then run again; training goes on from its last save",
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def whole_weights(model: PreTrainedModel, *, keeps: bool = True) -> dict[str, torch.Tensor]:
    """All weights by name in float16 on the CPU, tied ones once; collective under ZeRO-3, see `luthier.training.zero`.

    Args:
        model: The trained model, unwrapped.
        keeps: Whether this process wants them; without it the result is empty.
    """
    import torch

    parameters = dict(model.named_parameters(remove_duplicate=False))
    weights: dict[str, torch.Tensor] = {}
    for name, held in sorted(model.state_dict().items()):
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        with zero.master(parameters.get(name, held)) as tensor:
            if keeps:
                weights[name] = tensor.detach().to("cpu", torch.float16).contiguous()
    return weights


def _write(part: Path, weights: Mapping[str, torch.Tensor], base: Path, record: Mapping[str, Any]) -> None:
    from safetensors.torch import save_file

    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    save_file(dict(weights), part / WEIGHTS, metadata={"format": "pt"})
    for name in (
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
    ):
        if (base / name).exists():
            shutil.copyfile(base / name, part / name)
    write_json(part / RECORD, dict(record))


def read_record(folder: Path) -> dict[str, Any]:
    """The `training.json` of a checkpoint.

    Raises:
        InputError: missing or broken file.
    """
    path = folder / RECORD
    return read_object(path, fix="train the checkpoint again")


def digest(folder: Path) -> str:
    """Digest of everything in a checkpoint folder."""
    return digest_folder(folder)
