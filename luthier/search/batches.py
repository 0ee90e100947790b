"""Mini-batches of training questions: shuffled once an epoch, every question as often as any other."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from luthier.errors import InputError

ItemT = TypeVar("ItemT")


def epoch_batch(items: Sequence[ItemT], size: int, number: int, seed: int) -> list[ItemT]:
    """Mini-batch `number` (from 0), `size` distinct items, or all of them when there are fewer.

    gepa 0.1.4 ("epoch_shuffled") pads an epoch that `size` does not divide with the least used items; ours
    pads with the first of the epoch's own order, which are the least used too, and is a function of its
    arguments instead of a shared generator, so that a replay needs no state.

    Raises:
        InputError: nothing to draw from, or no positive size.
    """
    if not items or size < 1:
        raise InputError(f"fields items, size: {len(items)}, {size}", where="mini-batch", fix="use 1 or more of both")
    size = min(size, len(items))
    per_epoch = -(-len(items) // size)
    epoch, place = divmod(number, per_epoch)
    order = list(range(len(items)))
    random.Random(f"{seed}:epoch {epoch}").shuffle(order)
    padded = order + order[: per_epoch * size - len(order)]
    return [items[index] for index in padded[place * size : (place + 1) * size]]
