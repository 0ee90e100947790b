"""Progress on one line of a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

_BAR, _REDRAW_SECONDS, _LINE_SECONDS = 24, 0.1, 60.0


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a step stands.

    Attributes:
        total, done: Units of work. cached: Of those done, found in the store. failed: `infra_error`s.
        tokens: Prompt plus completion tokens of the executions that ran here.
        calls: Answers so far, also those of executions that still wait for others.
    """

    total: int
    done: int = 0
    cached: int = 0
    failed: int = 0
    tokens: int = 0
    calls: int = 0


class ProgressBar:
    """Shows `Progress`: a bar that redraws itself on a terminal, else one line each tenth of the way or minute.

    Args:
        label: Name of the step.
        stream: Where to write, stderr by default.
        clock: Seconds; for tests.
    """

    def __init__(self, label: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._label, self._stream, self._clock = label, stream or sys.stderr, clock
        self._start, self._drawn, self._tenth = clock(), float("-inf"), -1
        self._terminal = self._stream.isatty()

    def __call__(self, state: Progress) -> None:
        """Show a new state; the last one (all done) is always shown."""
        last, now = state.done >= state.total, self._clock()
        if self._terminal:
            if last or now - self._drawn >= _REDRAW_SECONDS:
                self._drawn = now
                filled = _BAR * state.done // max(state.total, 1)
                bar = "█" * filled + "░" * (_BAR - filled)
                self._stream.write(f"\r\033[K{self._label} {bar} {self._text(state)}" + ("\n" if last else ""))
        elif (tenth := 10 * state.done // max(state.total, 1)) > self._tenth or now - self._drawn >= _LINE_SECONDS:
            self._tenth, self._drawn = tenth, now
            self._stream.write(f"{self._label}: {self._text(state)}\n")
        self._stream.flush()

    def _text(self, state: Progress) -> str:
        parts = [f"{state.done:,}/{state.total:,} done", f"{state.cached:,} cached", f"{state.failed:,} failed"]
        if state.calls and state.done < state.total:
            parts.append(f"{state.calls:,} calls answered")
        parts.append(f"{state.tokens:,} tokens")
        worked = state.done - state.cached
        if worked > 0 and state.done < state.total:
            left = (self._clock() - self._start) / worked * (state.total - state.done)
            parts.append(f"{int(left) // 60}:{int(left) % 60:02d} left")
        return ", ".join(parts)
