"""`Chooser`: one of a request's choices, from servers that can hold an answer to a list of texts and from others."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import replace

from luthier.target import Attempt, Completion, Message, Request, Usage
from luthier.targets.server.dialect import Dialect
from luthier.targets.support.attempts import GaveUpError
from luthier.targets.support.generation import TextGenerator
from luthier.targets.support.scoring import ChoiceScorer

_INSTRUCTION = "Answer with exactly one of these and nothing else: "
_MARKS = " \t\r\n\"'`*_.,:;!?()[]"
_MORE_TOKENS = 256
"""Ours: more than the instruction and the marks around two more messages."""


class Chooser:
    """Chooses in the best way that the server has. Threads may use it at once.

    Held to the choices (vLLM), else the likeliest one (raw prompts, servers with `echo` and `logprobs`), else the
    one that the model names. A server that turns out not to have a way is not asked in that way again.

    Args:
        generator, scorer, dialect: How to ask, score and write.
    """

    def __init__(self, generator: TextGenerator, scorer: ChoiceScorer, dialect: Dialect) -> None:
        self._generator, self._scorer, self._dialect = generator, scorer, dialect
        self._lock = threading.Lock()
        self._scores: bool | None = None

    def choose(self, request: Request, tries: list[Attempt]) -> Completion:
        """The choice as an answer, "" when the model named none though asked again.

        Args:
            request: One with choices.
            tries: Gets every try that did not answer, also when none did.

        Raises:
            GaveUpError: as `TextGenerator.generate`.
        """
        return self._held(request, tries) or self._likeliest(request, tries) or self._named(request, tries)

    def most_calls(self, request: Request) -> int:
        """The most calls that an answer needs when no try fails."""
        if not request.choices or self._dialect.constrains_choices:
            return 1
        return 2 if self._dialect.is_chat(request) else len(request.choices) + 1

    def most_prompt_tokens(self, request: Request) -> int:
        """The most prompt tokens that a call for the choices reads beyond the request's own."""
        if not request.choices or self._dialect.constrains_choices:
            return 0
        listed = sum(len(choice.encode()) + 3 for choice in request.choices)
        return _MORE_TOKENS + 2 * listed + self._dialect.room(request)

    def _held(self, request: Request, tries: list[Attempt]) -> Completion | None:
        if not self._dialect.constrains_choices:
            return None
        try:
            reply = self._generator.generate(request, tries)
        except GaveUpError as end:
            # A server of another version may refuse a constraint in words of its own.
            if end.last is None or end.last.kind not in ("refused", "parameter"):
                raise
            return None
        if reply.text in request.choices or (not reply.text and reply.finish == "length"):
            return reply.completion(tries)
        self._dialect.never_constrain()
        tries.append(Attempt(reply.usage, "the server ignored the choices"))
        return None

    def _likeliest(self, request: Request, tries: list[Attempt]) -> Completion | None:
        """None when the server gives no log-probabilities."""
        if self._dialect.vllm or self._dialect.is_chat(request) or self._scores is False:
            return None
        scores: list[float] = []
        usage = Usage()
        for choice in request.choices:
            try:
                score, attempts = self._scorer.score(request, choice)
            except GaveUpError as end:
                if usage.calls:
                    tries.append(Attempt(usage, "only some of the choices were scored"))
                tries.extend(end.attempts)
                lacking = end.last is not None and end.last.kind in ("refused", "parameter")
                with self._lock:
                    if not lacking or self._scores:
                        raise
                    self._scores = False
                return None
            self._scores = True
            tries.extend(attempts[:-1])
            usage += attempts[-1].usage
            scores.append(score)
        best = max(range(len(scores)), key=lambda index: (scores[index], -index))
        return Completion(request.choices[best], "stop", usage, (*tries, Attempt(usage)))

    def _named(self, request: Request, tries: list[Attempt]) -> Completion:
        if self._dialect.chat_only and isinstance(request.prompt, str):
            request = replace(request, prompt=(Message("user", request.prompt),))
        plain = replace(request, choices=(), max_tokens=max(request.max_tokens, self._dialect.least_room(request)))
        asked = plain
        if not isinstance(request.prompt, str):
            *before, last = request.prompt
            told = Message(last.role, f"{last.content}\n\n{_instruction(request.choices)}")
            asked = replace(plain, prompt=(*before, told))
        reply = self._generator.generate(asked, tries)
        usage, choice = reply.usage, match(reply.text, request.choices)
        if not choice and not isinstance(asked.prompt, str):
            tries.append(Attempt(reply.usage, "the model named none of the choices"))
            said = Message("assistant", reply.text.strip() or "...")
            again = replace(plain, prompt=(*asked.prompt, said, Message("user", _instruction(request.choices))))
            reply = self._generator.generate(again, tries)
            usage, choice = usage + reply.usage, match(reply.text, request.choices)
        return Completion(choice, "stop" if choice else reply.finish, usage, (*tries, Attempt(reply.usage)))


def match(text: str, choices: Sequence[str]) -> str:
    """The choice that the text is, or the only one whose words stand in it; "" when there is none.

    Case, space and punctuation around do not matter. A choice inside a longer one that was found does not count.
    """
    folded = _folded(text)
    for choice in choices:
        if folded and folded == _folded(choice):
            return choice
    found: list[str] = []
    for choice in sorted(choices, key=lambda item: (-len(item), item)):
        pattern = rf"(?<!\w){re.escape(_folded(choice))}(?!\w)"
        if _folded(choice) and re.search(pattern, folded):
            folded = re.sub(pattern, " ", folded)
            found.append(choice)
    return found[0] if len(found) == 1 else ""


def _folded(text: str) -> str:
    return " ".join(text.casefold().strip(_MARKS).split())


def _instruction(choices: Sequence[str]) -> str:
    return _INSTRUCTION + " | ".join(choice.strip() for choice in choices)
