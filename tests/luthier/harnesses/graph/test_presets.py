from __future__ import annotations

from pathlib import Path

import pytest

from luthier.errors import InputError
from luthier.harnesses.graph.presets import presets, presets_digest, read_presets
from luthier.tools.registry import TOOLS


def test_the_shipped_presets_load_sorted_and_clash_with_no_tool() -> None:
    assert list(presets()) == sorted(presets())
    assert {"cot", "direct"} <= set(presets())
    assert not set(presets()) & set(TOOLS)
    assert all(preset.reads and preset.about for preset in presets().values())
    assert len(presets_digest()) == 12


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("- a", "mapping"),
        ("one:\n  ask: x", "'one', field reads"),
        ("sort:\n  reads: [q]\n  ask: x", "name of a tool"),
        ("merge:\n  reads: [q]\n  ask: x", "name of a tool or builtin"),
        ("one:\n  reads: [q]\n  ask: '{z}'", "one, field ask"),
        ("one:\n  reads: [q, q]\n  ask: x", "one, field reads"),
        ("one:\n  reads: [q]\n  ask: x\n  parse: poem", "one, field parse"),
        ("one:\n  reads: [q]\n  ask: [x", "presets.yaml:"),
    ],
)
def test_a_broken_file_is_refused_by_file_entry_and_field(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "presets.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_presets(path)
    assert str(path) in str(caught.value)
    assert word in str(caught.value)
    assert "Fix:" in str(caught.value)


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        read_presets(tmp_path / "none.yaml")
