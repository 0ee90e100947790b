"""The program of `benchmarks.dspy_letters` as ours: what both benchmarks beside other people's searches start from."""

from __future__ import annotations

from benchmarks.dspy_letters import Program
from luthier.harnesses.dspy_bridge import from_dspy

PROGRAM = from_dspy(
    Program(),
    "letter = find_letter(question)\ntext = find_text(question)\nanswer = count(letter, text)",
    style="raw",
)
