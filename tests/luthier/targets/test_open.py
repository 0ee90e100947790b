"""One specification opens every engine, and imports only what that engine needs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from luthier.errors import InputError
from luthier.target import Completion, Request
from luthier.targets import TargetSpec, open_target
from luthier.targets.openvino import OpenVinoTarget
from luthier.targets.transformers import TransformersTarget

CACHE = Path(__file__).resolve().parents[3] / ".cache"


def test_scripted_answers_with_its_model() -> None:
    target = open_target(TargetSpec(engine="scripted", model=r"back\slash"))
    (answer,) = target.complete([Request("anything")])
    assert isinstance(answer, Completion)
    assert answer.text == r"back\slash"


@pytest.mark.slow
def test_embedded_opens_on_both_engines() -> None:
    spec = TargetSpec(cache=CACHE)
    fast, plain = open_target(spec), open_target(replace(spec, engine="transformers"))
    assert isinstance(fast, OpenVinoTarget)
    assert isinstance(plain, TransformersTarget)
    assert fast.fingerprint != plain.fingerprint
    assert open_target(spec).fingerprint == fast.fingerprint


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"engine": "cuda-magic"}, "engine 'cuda-magic' is unknown"),
        ({"engine": "openai", "base_url": ""}, "target.base_url"),
        ({"engine": "openvino", "model": "absent.gguf"}, "do not exist"),
        ({"engine": "transformers", "model": "absent"}, "do not exist"),
    ],
)
def test_wrong_specifications_are_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        open_target(TargetSpec(**values))


def test_opening_imports_no_engine_that_is_not_used() -> None:
    code = (
        "import sys; from luthier.targets import TargetSpec, open_target; "
        "open_target(TargetSpec(engine='scripted', model='x')); "
        "print([n for n in ('torch', 'transformers', 'openvino', 'openvino_genai', 'openai') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
