"""`Amount`, `Budget`, `Price`, `Forecast`: the vector that everything is paid in.

A budget has six units (rollouts, calls, prompt tokens, completion tokens, seconds, price) and any of them
stops a run. Prices are held in whole picodollars (ours), so that sums are exact and do not depend on the
order in which calls were paid. What is not known is `None` and printed as "unknown", never as 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from luthier.errors import InputError
from luthier.target import Role, Usage

Tariff = Role | Literal["trained"]
"""What a price is for: the tokens of a role, or those that a model is trained on."""

PICO = 1_000_000_000_000
UNITS = ("rollouts", "calls", "prompt_tokens", "completion_tokens", "seconds", "price")


@dataclass(frozen=True, slots=True)
class Amount:
    """How much of each unit. Sums with `+`; an unknown part makes the sum unknown.

    Attributes:
        rollouts: Executions of a harness on a question.
        calls: Attempts that reached an engine.
        prompt_tokens, completion_tokens: Tokens read and written.
        seconds: Wall seconds of the calls, None when unknown.
        picodollars: Price in 1e-12 USD, None when unknown.
    """

    rollouts: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float | None = 0.0
    picodollars: int | None = 0

    @property
    def price(self) -> float | None:
        """USD, None when unknown."""
        return None if self.picodollars is None else self.picodollars / PICO

    @property
    def numbers(self) -> tuple[int | float | None, ...]:
        """The fields in order, as columns."""
        return (
            self.rollouts,
            self.calls,
            self.prompt_tokens,
            self.completion_tokens,
            self.seconds,
            self.picodollars,
        )

    @property
    def usage(self) -> Usage:
        """The part that an engine counts; unknown seconds read as 0."""
        return Usage(self.calls, self.prompt_tokens, self.completion_tokens, self.seconds or 0.0)

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.rollouts + other.rollouts,
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            None if self.seconds is None or other.seconds is None else self.seconds + other.seconds,
            None if self.picodollars is None or other.picodollars is None else self.picodollars + other.picodollars,
        )

    def get(self, unit: str) -> float | None:
        """The value of one of `UNITS`."""
        values: dict[str, float | None] = {**asdict(self), "price": self.price}
        return values[unit]


@dataclass(frozen=True, slots=True)
class Price:
    """What a provider charges, in USD for a million tokens; six decimals are kept."""

    prompt_usd_per_million: float
    completion_usd_per_million: float

    def picodollars(self, prompt_tokens: int, completion_tokens: int) -> int:
        """Price of these tokens in 1e-12 USD, exact."""
        prompt = round(self.prompt_usd_per_million * 1_000_000)
        completion = round(self.completion_usd_per_million * 1_000_000)
        return prompt_tokens * prompt + completion_tokens * completion


@dataclass(frozen=True, slots=True)
class Budget:
    """Upper limits; None means unlimited. `price` is in USD, `seconds` in wall seconds of calls."""

    rollouts: int | None = None
    calls: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float | None = None
    price: float | None = None

    @classmethod
    def parse(cls, mapping: Mapping[str, Any], where: str = "budget") -> Budget:
        """Read the limits of a settings file.

        Raises:
            InputError: an unknown key, or a value that is not a number of at least 0.
        """
        for key, value in mapping.items():
            if key not in UNITS:
                raise InputError(f"field {key}: unknown limit", where=where, fix=f"use some of {', '.join(UNITS)}")
            whole = key not in ("seconds", "price")
            numeric = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
            if value is not None and not (numeric and 0 <= value < float("inf")):
                kind = "a whole number" if whole else "a number"
                raise InputError(
                    f"field {key}: {value!r} is not {kind} of at least 0", where=where, fix="correct or remove it"
                )
        return cls(**mapping)

    @property
    def limits_tokens(self) -> bool:
        """Whether prompts must be counted before a call."""
        return self.prompt_tokens is not None or self.price is not None

    def exceeded(self, total: Amount) -> tuple[str, float, float] | None:
        """First limit that a total would break: (unit, allowed, needed), or None when all hold."""
        for unit in UNITS[:-1]:
            allowed, needed = getattr(self, unit), getattr(total, unit)
            if allowed is not None and needed is not None and needed > allowed:
                return unit, allowed, needed
        if self.price is not None and total.picodollars is not None and total.picodollars > round(self.price * PICO):
            return "price", self.price, total.picodollars / PICO
        return None


def show(value: float | None, unit: str) -> str:
    """One number for a table: thousands separated, "unknown" for None; little time is not shown as none."""
    if value is None:
        return "unknown"
    if unit == "price" or (unit == "seconds" and 0 < value < 0.1):
        return f"{value:,.4f}"
    return f"{value:,.1f}" if unit == "seconds" else f"{int(value):,}"


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a step will cost, before it spends.

    Attributes:
        full: As if alone, with an empty store.
        remaining: What is still to be paid: without what the store holds, equal calls once.
        notes: Which numbers are bounds and which are estimates.
    """

    full: Amount
    remaining: Amount
    notes: tuple[str, ...] = field(default=())

    @property
    def cached_calls(self) -> int:
        """Calls that need no payment: already stored, or equal to another call of the step."""
        return self.full.calls - self.remaining.calls

    def __add__(self, other: Forecast) -> Forecast:
        notes = self.notes + tuple(note for note in other.notes if note not in self.notes)
        return Forecast(self.full + other.full, self.remaining + other.remaining, notes)

    def render(self) -> str:
        """Aligned lines: unit, remaining, of full, then the notes."""
        rows = [("", "remaining", "of full")]
        for unit in UNITS:
            name = "price (USD)" if unit == "price" else unit.replace("_", " ")
            rows.append((name, show(self.remaining.get(unit), unit), show(self.full.get(unit), unit)))
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
        lines.append(f"{self.cached_calls:,} calls need no payment (stored, or equal to another call)")
        return "\n".join([*lines, *self.notes])


NUMBERS = tuple(item.name for item in fields(Amount))
