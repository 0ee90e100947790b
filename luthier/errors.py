"""Which boundary broke, and what to do about it.

A failed execution is data (`luthier.execution.Outcome`); a broken machine or a wrong input is one of
these exceptions. Every message names the place (file, line or setting), the field and the fix.
"""

from __future__ import annotations


class LuthierError(Exception):
    """Base of all errors that Luthier raises on purpose.

    Args:
        problem: What is wrong, naming the offending field and value.
        where: The file, setting or object that holds it ("" when there is none).
        fix: What the reader should do next.

    Attributes:
        stopped: Somebody asked for the end, and nothing is wrong.
    """

    stopped = False

    def __init__(self, problem: str, *, where: str = "", fix: str = "") -> None:
        self.problem, self.where, self.fix = problem, where, fix
        parts = [f"{where}: {problem}" if where else problem]
        if fix:
            parts.append(f"Fix: {fix}")
        super().__init__(". ".join(part.rstrip(".") for part in parts) + ".")


class InputError(LuthierError):
    """A file, parameter or argument that the user gave is wrong."""


class HarnessError(LuthierError):
    """A harness text that does not parse or does not validate.

    Args:
        rule: Name of the broken rule, stable enough to count and test ("unknown-tool").
        line: Line of the harness text, from 1; 0 when the whole document is meant.
        field: The part of that line or layer that is wrong.
    """

    def __init__(self, problem: str, *, rule: str, line: int = 0, field: str = "", fix: str = "") -> None:
        self.rule, self.line, self.field = rule, line, field
        where = f"line {line}" if line else "harness"
        super().__init__(problem, where=f"{where}, {field}" if field else where, fix=fix)


class TargetError(LuthierError):
    """The machine behind a target failed (down, slow, garbage, another model): never a score."""


class StoreError(LuthierError):
    """The store cannot be read or written (corrupted row, full disk)."""


class SandboxError(LuthierError):
    """The fence around generated code is missing or failed its own probe."""


class BudgetExhausted(BaseException):
    """The next call would overshoot a limit of the ledger.

    Not an `Exception`: libraries and generated programs that swallow `Exception` must not be able to
    go on spending. `LuthierError` handlers therefore name it on its own.

    Args:
        limit: Name of the limit ("calls", "prompt_tokens", ...).
        allowed: The limit itself, in its own unit.
        needed: What the total would have become.
        account: The account that was to pay.
        lost: The part of `needed` that was in flight when processes were killed, at most.
    """

    def __init__(self, limit: str, *, allowed: float, needed: float, account: str, lost: float = 0.0) -> None:
        self.limit, self.allowed, self.needed, self.account, self.lost = limit, allowed, needed, account, lost
        killed = f" ({lost:g} of them at most were in flight when a process was killed)" if lost else ""
        forgive = ", write those off with `luthier ledger --write-off` if nobody charges for them," if lost else ""
        super().__init__(
            f"budget exhausted: the next call needs {needed:g} {limit}{killed} in account {account!r}, "
            f"the limit is {allowed:g}. Fix: raise budget.{limit}{forgive} or lower the work asked for."
        )
