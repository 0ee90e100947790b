"""Weights under ZeRO-3: each process holds a part of every parameter, so a whole one must be gathered to be read.

Everything here is collective: all processes of a training call it, in the same order. Without DeepSpeed, and in its
stages 1 and 2, parameters are whole already and nothing is communicated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def is_parted(parameter: torch.Tensor) -> bool:
    """Whether this process holds a part of a parameter only."""
    return hasattr(parameter, "ds_id")


@contextmanager
def whole(parameter: torch.Tensor) -> Iterator[torch.Tensor]:
    """The parameter with all of its values while the block runs, to read. One at a time needs the least memory."""
    if not is_parted(parameter):
        yield parameter
        return
    import deepspeed

    with deepspeed.zero.GatheredParameters([parameter]):
        yield parameter


@contextmanager
def master(parameter: torch.Tensor) -> Iterator[torch.Tensor]:
    """The values that the optimiser keeps of a parameter, which may be finer than those that the model computes with.

    DeepSpeed trains a bfloat16 model beside an fp32 copy of its weights; a frozen parameter has no copy.
    """
    if is_parted(parameter) and parameter.requires_grad:
        from deepspeed.utils import safe_get_full_fp32_param

        fine: torch.Tensor | None = safe_get_full_fp32_param(parameter)
        if fine is not None:
            yield fine
            return
    with whole(parameter) as values:
        yield values
