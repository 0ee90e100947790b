"""What an answer states: the part of a model's text that is compared with the reference.

Chat servers stop where the model stops, not where a benchmark's own harness would have cut. So the scorers of the
published benchmarks cut as those harnesses do; docs/decisions/012-reading-answers.md has the rule and its reasons.
"""

from __future__ import annotations

import re

from luthier.tasks.latex import boxed
from luthier.tasks.scoring import ANSWER_MARK, undressed

LONGEST_ANSWER = 50_000
"""Characters after the thoughts; a longer text is no answer to anything and would only cost time."""
_SENTENCES = 3
"""How many sentence ends after "answer is" are tried: "St. Louis. I hope it is correct." needs the second."""

_UNSEEN = "\ufeff\u200b\u2060"
"""Byte-order mark and characters without width."""
_THOUGHT_END = re.compile(r"</(?:think|thinking|thought|reasoning)>")
_THOUGHT_START = re.compile(r"\s*<(?:think|thinking|thought|reasoning)>")
_END_OF_TURN = re.compile(r"<\|(?:im_end|eot_id|endoftext|end)\|>|</s>")
_NEXT_QUESTION = re.compile(r"\n[ \t]*(?:Question|Problem|Q)(?: \d+)?:")
_SENTENCE_END = re.compile(r"[.!?](?=\s)")


def readable(answer: str) -> str:
    """An answer without the model's thoughts and a leading byte-order mark; "" when it is too long to be one.

    Thoughts are what stands before the last `</think>` (or thinking, thought, reasoning). Thoughts that never end
    leave no answer.
    """
    thoughts = list(_THOUGHT_END.finditer(answer))
    text = (answer[thoughts[-1].end() :] if thoughts else answer).lstrip(_UNSEEN)
    if len(text) > LONGEST_ANSWER or _THOUGHT_START.match(text):
        return ""
    return text


def readings(answer: str, *, hashes: bool = False, math: bool = False) -> tuple[str, ...]:
    r"""The ways to read a text as an answer, the most literal first; none for a blank text.

    First the whole text; then what it marks as its answer: the rest of the line after the last "####" (only with
    `hashes`), else the last \boxed, else what follows the last "answer is" or "answer:", to the end of its line and
    to the end of each of its first sentences. A next question that the model asks itself is cut off before.

    Args:
        answer: As `readable` leaves it.
        hashes: Whether "####" marks an answer (GSM8K).
        math: Whether the content of a box stays in LaTeX.
    """
    text = _one_turn(answer).strip().strip(_UNSEEN)
    if not text:
        return ()
    return tuple(dict.fromkeys([text, *_marked(text, hashes=hashes, math=math)]))


def _one_turn(answer: str) -> str:
    text = _END_OF_TURN.split(answer, maxsplit=1)[0]
    begins = len(text) - len(text.lstrip())
    found = _NEXT_QUESTION.search(text, begins)
    return text[: found.start()] if found else text


def _marked(text: str, *, hashes: bool, math: bool) -> list[str]:
    if hashes and "####" in text:
        return [text.rsplit("####", 1)[1].strip().partition("\n")[0]]
    box = boxed(text)
    if box is not None:
        return [box if math else undressed(box)]
    marks = list(ANSWER_MARK.finditer(text))
    if not marks:
        return []
    line = text[marks[-1].end() :].partition("\n")[0].strip()
    ends = [found.start() for found, _ in zip(_SENTENCE_END.finditer(line), range(_SENTENCES), strict=False)]
    return [line, *(line[:end] for end in ends)]
