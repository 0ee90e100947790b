"""Which split a question belongs to when its source does not say.

The rules are ours and fixed, so that a question never changes sides between runs or machines.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePath

from luthier.question import Split

_NAMES: dict[str, Split] = {
    "train": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
}


def stable_hash(text: str) -> int:
    """A 64-bit number of a text, the same on every machine and for every PYTHONHASHSEED."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def content_split(content: str) -> Split:
    """The split of a content: three fifths train, one fifth validation, one fifth test."""
    share = stable_hash(content) % 5
    return "train" if share < 3 else "validation" if share == 3 else "test"


def named_split(name: str) -> Split | None:
    """The split that a file, folder or hub split is named after ("train-00000", "hotpot_dev"), if any.

    The file's own name counts before its folder's.
    """
    for part in reversed(PurePath(name).parts):
        for word in re.split(r"[^a-z]+", part.lower()):
            if word in _NAMES:
                return _NAMES[word]
    return None


def assign(content: str, own: Split | None, available: frozenset[Split]) -> Split:
    """The split of one row.

    Args:
        content: What identifies the row (its question).
        own: The split that the source gives it, None when it gives none.
        available: Every split that the source names anywhere.

    Returns:
        The source's own split, except that a source without validation gives up a fifth of its train
        rows, one without validation and test two fifths, and one with validation but no test half of
        its validation rows. Rows of a test split stay there. Unnamed rows follow `content_split`.
    """
    if own is None:
        return content_split(content)
    carved = content_split(content)
    if own == "train" and "validation" not in available:
        if carved == "test" and "test" in available:
            return "train"
        return carved
    if own == "validation" and "test" not in available:
        return "test" if stable_hash(content) % 2 else "validation"
    return own
