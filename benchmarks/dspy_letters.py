"""The program that both sides of `benchmarks.dspy_peers` search: how often does a letter stand in a text?

Written as a user of DSPy would. It has a file of its own because DSPy's proposer reads a program's source.
"""

from __future__ import annotations

import dspy

from luthier.tools.registry import TOOLS
from luthier.tools.values import ToolInputError, render


class Program(dspy.Module):
    """Two modules copy the letter and the text out of a question; what they copied is counted."""

    def __init__(self) -> None:
        super().__init__()
        letter = dspy.Signature("question -> letter", "Copy the letter that is counted.")
        text = dspy.Signature("question -> text", "Copy the text in which the letter is counted.")
        self.find_letter = dspy.Predict(letter, max_tokens=4)
        self.find_text = dspy.Predict(text, max_tokens=32)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer a question; one of which no letter was copied has the answer ""."""
        letter = self.find_letter(question=question)["letter"]
        text = self.find_text(question=question)["text"]
        try:
            return dspy.Prediction(answer=render(TOOLS["count"](letter, text)))
        except ToolInputError:
            return dspy.Prediction(answer="")
