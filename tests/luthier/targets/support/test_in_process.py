"""What both in-process engines share, on a tiny real tokenizer."""

from __future__ import annotations

from pathlib import Path

import pytest

from luthier.errors import InputError
from luthier.target import Request
from luthier.targets.openvino import OpenVinoTarget
from luthier.targets.support.in_process import InProcessTarget
from luthier.targets.transformers import TransformersTarget


@pytest.mark.parametrize("engine", [OpenVinoTarget, TransformersTarget])
@pytest.mark.parametrize(
    ("settings", "field"), [({"precision": "int8"}, r"target\.precision"), ({"batch": 0}, r"target\.batch")]
)
def test_a_setting_that_no_engine_has_is_refused_before_the_weights_are_read(engine, settings, field):
    assert issubclass(engine, InProcessTarget)
    with pytest.raises(InputError, match=field):
        engine(Path("nowhere"), "m", **settings)


@pytest.mark.slow
def test_prompts_are_counted_without_the_model_and_again_after_closing(tiny_base):
    from transformers import AutoTokenizer

    text = "Question: first of b, a\nHarness:\n"
    target = TransformersTarget(tiny_base, "tiny", precision="f32")
    expected = len(AutoTokenizer.from_pretrained(tiny_base)(text, add_special_tokens=False).input_ids)
    for _ in range(2):
        assert target.count_tokens(Request(text)) == expected > 1
        assert target.count_tokens(Request("")) == 1, "an empty prompt is one token that begins"
        assert target._engine is None, "counting loads no weights"
        assert target.complete([Request(text, max_tokens=2)])[0].usage.prompt_tokens == expected
        target.close()
        assert target._engine is None
