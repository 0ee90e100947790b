"""What a training phase or an evaluation will cost, from its recipe and from what the ledger has seen so far.

Tokens that are known beforehand are counted with the generator's own tokenizer. What the generator will write is
bounded; what its harnesses will cost on the target is taken to be the mean of the executions in the ledger (ours).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from luthier.execution import Limits
from luthier.ledger.budget import Amount, Forecast
from luthier.ledger.ledger import Ledger
from luthier.target import Usage
from luthier.training.bill import PHASES, Work, tariff_of

WRITTEN = "what the generator writes is an upper bound"
EXECUTED = "what its harnesses cost on the target is an estimate: the mean of the executions so far"
BOUNDED = "what its harnesses cost on the target is an upper bound: nothing was executed yet"
PACE = "seconds are unknown where this kind of work was never done in this folder"


class Outlook:
    """Forecasts of one stage from the ledger of all runs.

    Args:
        ledger: Of the stage; its prices are used, and the pace of every run in its store.
        phase: "sft", "reinforce" or "evaluate".
    """

    def __init__(self, ledger: Ledger, phase: str) -> None:
        self._ledger, self._phase = ledger, phase
        self._lines = ledger.totals(ledger.runs())

    def training(self, work: Work, usage: Usage) -> Forecast:
        """Drawing, reading or updating at most this much, at the pace of this phase's work of that kind."""
        return _whole(self._timed(self._ledger.amount(tariff_of(work), usage), PHASES[work].format(self._phase)), PACE)

    def writing(self, usage: Usage) -> Forecast:
        """Harnesses written by trained checkpoints."""
        return _whole(self._timed(self._ledger.amount("generator", usage), self._phase), WRITTEN, PACE)

    def executions(self, count: int, limits: Limits) -> Forecast:
        """`count` executions of harnesses that are not written yet."""
        seen = [line for line in self._lines if line.role == "target" and line.alone.rollouts]
        rollouts = sum(line.alone.rollouts for line in seen)
        if not rollouts:
            most = Usage(count * limits.calls, 0, count * limits.tokens)
            return _whole(replace(self._ledger.amount("target", most), rollouts=count, seconds=None), BOUNDED, PACE)
        share = count / rollouts
        usage = sum((line.alone.usage for line in seen), Usage())
        tokens = round(share * usage.prompt_tokens), round(share * usage.completion_tokens)
        amount = self._ledger.amount("target", Usage(round(share * usage.calls), *tokens, share * usage.seconds))
        return _whole(replace(amount, rollouts=count), EXECUTED)

    def _timed(self, amount: Amount, phase: str) -> Amount:
        """With its seconds at the pace per token of a phase's generator, None before its first call."""
        seen = [line.paid for line in self._lines if line.role == "generator" and line.phase == phase]
        tokens = sum(paid.prompt_tokens + paid.completion_tokens for paid in seen)
        if not tokens:
            return replace(amount, seconds=None if amount.calls else 0.0)
        pace = sum(paid.seconds or 0.0 for paid in seen) / tokens
        return replace(amount, seconds=pace * (amount.prompt_tokens + amount.completion_tokens))


def count_tokens(folder: Path, texts: Iterable[str]) -> list[int]:
    """Tokens of each text for a generator in Hugging Face form, without special tokens."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return [len(item.ids) for item in tokenizer.encode_batch(list(texts), add_special_tokens=False)]


def update_usage(rows: Sequence[tuple[int, int]], epochs: float) -> Usage:
    """Rows of (prompt tokens, completion tokens with the end token) that go forward and backward `epochs` times."""
    read, trained = sum(row[0] for row in rows), sum(row[1] for row in rows)
    return Usage(round(len(rows) * epochs), round(read * epochs), round(trained * epochs))


def _whole(amount: Amount, *notes: str) -> Forecast:
    return Forecast(amount, amount, notes)
