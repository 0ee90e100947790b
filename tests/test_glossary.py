"""Words: a name of the glossary exists, and citations lead to something that a reader can find."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CODE = [path for folder in ("luthier", "stages", "flows") for path in sorted((ROOT / folder).rglob("*.py"))]
TEXT = "\n".join(path.read_text(encoding="utf-8") for path in CODE)
NAMES = sorted(set(re.findall(r"`([A-Z]\w+)`", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))))
OLD = ("Contender", "Allowance", "Crossing", "Standing", "Workbench", "Driver", "stand_at", "known_methods")


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_the_glossary_is_one_class(name):
    found = re.findall(rf"^(?:class {name}\b|{name} = )", TEXT, re.MULTILINE)
    assert len(found) == 1, f"{len(found)} things are called {name}"


@pytest.mark.parametrize("name", OLD)
def test_a_word_that_was_replaced_does_not_come_back(name):
    assert not re.search(rf"\b{name}\b", TEXT)


def test_nothing_cites_a_page_that_is_not_in_the_repository():
    pages = {path.name for path in ROOT.glob("docs/**/*.md")} | {path.name for path in ROOT.glob("*.md")}
    sources = [*CODE, *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.py"), ROOT / "README.md"]
    cited = {(path.name, name) for path in sources for name in re.findall(r"\b([\w-]+\.md)\b", path.read_text("utf-8"))}
    assert len(cited) > 10
    assert not [(path, name) for path, name in cited if name not in pages | {"NNN-*.md"}]
