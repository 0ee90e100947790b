"""The real embedded model, prepared once per checkout and opened once per test session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from luthier.targets.openvino import OpenVinoTarget
from luthier.targets.support.weights import Prepared, prepare

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def prepared() -> Prepared:
    return prepare(ROOT / ".cache")


@pytest.fixture(scope="session")
def openvino_target(prepared: Prepared) -> Iterator[OpenVinoTarget]:
    target = OpenVinoTarget(prepared.gguf, "embedded", batch=16)
    yield target
    target.close()
