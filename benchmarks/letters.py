"""The program of `benchmarks.dspy_letters` as ours: what both benchmarks beside other people's searches start from."""

from __future__ import annotations

from luthier.harnesses.program.harness import ProgramHarness

# Written out, so that a benchmark beside a search that is not DSPy's runs without DSPy; a test compares the two.
PROGRAM = ProgramHarness.parse("""wiring: |
  letter = find_letter(question)
  text = find_text(question)
  answer = count(letter, text)
modules:
  find_letter:
    inputs: [question]
    outputs: [letter]
    style: raw
    instruction: Copy the letter that is counted.
    max_tokens: 4
  find_text:
    inputs: [question]
    outputs: [text]
    style: raw
    instruction: Copy the text in which the letter is counted.
    max_tokens: 32
""")
