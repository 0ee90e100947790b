"""A second frozen target without a download: the embedded model with its smallest weights set to zero (ours).

Magnitude pruning (Han et al., arXiv 1506.02626) without the training after it, so the copy is a little worse and errs
elsewhere. It is a model of the same family: transfer to it says less than transfer to another family would.
"""

from __future__ import annotations

import fcntl
from pathlib import Path

from luthier.errors import InputError
from luthier.targets.support.weights import prepare, rewrite

PREFIX = "embedded-pruned-"


def share_of(model: str) -> float:
    """The share that a name like "embedded-pruned-10" states in percent.

    Raises:
        InputError: it is no whole number from 1 to 90.
    """
    text = model.removeprefix(PREFIX)
    if not text.isdigit() or not 1 <= int(text) <= 90:
        raise InputError(
            f"{model!r} states no share of pruned weights",
            where="target.model",
            fix=f"write the percentage, like {PREFIX}10",
        )
    return int(text) / 100


def pruned(cache: Path, share: float) -> Path:
    """The embedded model's F16 GGUF without the smallest `share` of each matrix; made once.

    The embedding keeps all of its weights (it is the output matrix too). Equal magnitudes are cut in storage order.
    """
    import numpy as np

    source = prepare(cache).gguf
    out = source.with_name(f"pruned-{round(100 * share)}.gguf")

    def cut(name: str, value: np.ndarray) -> np.ndarray:
        if value.ndim == 1 or name == "token_embd.weight":
            return value
        flat = value.reshape(-1).copy()
        flat[np.argsort(np.abs(flat), kind="stable")[: int(share * flat.size)]] = 0
        return flat.reshape(value.shape)

    with (source.parent / ".pruning.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return out if out.exists() else rewrite(source, cut, out)
