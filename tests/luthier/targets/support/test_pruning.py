"""The second target: the embedded model without its smallest weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from luthier.errors import InputError
from luthier.target import Request
from luthier.targets import TargetSpec, open_target
from luthier.targets.support.pruning import pruned, share_of
from luthier.targets.support.weights import prepare

CACHE = Path(__file__).resolve().parents[4] / ".cache"


def test_the_name_states_the_share() -> None:
    assert share_of("embedded-pruned-10") == 0.1


@pytest.mark.parametrize("name", ["embedded-pruned-", "embedded-pruned-0", "embedded-pruned-91", "embedded-pruned-x"])
def test_a_name_without_a_share_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="embedded-pruned-10"):
        share_of(name)


@pytest.mark.slow
def test_the_smallest_weights_of_each_matrix_are_gone_and_the_target_is_another_one() -> None:
    import gguf
    import numpy as np

    whole = {t.name: t.data for t in gguf.GGUFReader(prepare(CACHE).gguf).tensors}
    cut = {t.name: t.data for t in gguf.GGUFReader(pruned(CACHE, 0.1)).tensors}
    assert whole.keys() == cut.keys()
    name = "blk.0.ffn_up.weight"
    gone = (cut[name] == 0) & (whole[name] != 0)
    kept = cut[name] != 0
    assert 0.09 < np.mean(cut[name] == 0) < 0.11
    assert np.abs(whole[name][gone]).max() <= np.abs(whole[name][kept]).min()
    assert np.array_equal(cut[name][kept], whole[name][kept])
    assert np.array_equal(cut["token_embd.weight"], whole["token_embd.weight"])
    one = open_target(TargetSpec(cache=CACHE))
    other = open_target(TargetSpec(model="embedded-pruned-10", cache=CACHE))
    try:
        assert one.fingerprint != other.fingerprint
        (answer,) = other.complete([Request("Question: What is 2 and 3?\nAnswer:", 8)])
        assert answer.usage.completion_tokens > 0
    finally:
        one.close()
        other.close()
