from __future__ import annotations

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    """The real benchmark files beside the checkout."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real benchmark files (shared/data beside the checkout) are absent")
    return SHARED_DATA
