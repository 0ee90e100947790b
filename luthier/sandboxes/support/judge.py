"""`judge_function`: does a function that a model wrote pass its tests? Decided out of its reach."""

from __future__ import annotations

import hmac
import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from luthier.errors import SandboxError
from luthier.sandbox import Sandbox, SandboxLimits
from luthier.sandboxes.support import inside_judge

SOURCE_CHARACTERS = 1 << 18
"""Longest source that is run (ours); HumanEval's solutions have a few hundred."""

_PROBLEM_CHARACTERS = 300
_PATIENCE = (0.2, 1.0)  # seconds before the judge is set up again: a user's other processes come and go
_PROGRAM = Path(inside_judge.__file__).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the tests say. `problem` is one line of at most 300 printable characters, "" when they passed."""

    passed: bool
    problem: str = ""


def judge_function(
    sandbox: Sandbox,
    *,
    sources: Sequence[str],
    entry_point: str,
    reference: str,
    tests: str,
    limits: SandboxLimits,
) -> Verdict:
    """Run trusted tests against a function of untrusted source.

    Tests and answer run in one sandbox, in two processes. The only sign of success is a random token
    that the judge prints after the tests; the answer's process never holds it (see `inside_judge`), so
    early exits, printed markers, patched built-ins and results that equal everything do not pass.

    Covered: the above, and reading tests, reference or token from files, memory or the parent process.
    Not covered: tests that call the function with, or expect from it, anything but plain data (numbers,
    texts, bytes, lists, tuples, sets, dictionaries); a function that changes its arguments in place
    changes a copy.

    Args:
        sandbox: Where to run.
        sources: Readings of the answer, each complete; the first that compiles is taken. One that is longer
            than `SOURCE_CHARACTERS` fails.
        entry_point: Name of the function.
        reference: Trusted source; what it defines is visible to the tests.
        tests: Trusted source that defines `check(candidate)`.
        limits: Bounds of the whole run.

    Raises:
        SandboxError: the fence, or the judge behind it, could not be set up. Never for the answer's fault.
    """
    if any(len(source) > SOURCE_CHARACTERS for source in sources):
        return Verdict(False, f"the answer is longer than {SOURCE_CHARACTERS:,} characters")
    ready, passed = secrets.token_hex(16), secrets.token_hex(16)
    secret = {"ready": ready, "passed": passed, "reference": reference, "tests": tests}
    files = {
        inside_judge.ANSWER_FILE: json.dumps({"sources": list(sources), "entry_point": entry_point}),
        inside_judge.SECRET_FILE: json.dumps(secret),
    }
    for patience in (*_PATIENCE, None):
        result = sandbox.run(_PROGRAM, files=files, limits=limits)
        lines, last = result.stdout.splitlines(), _short(result.stderr.strip().rpartition("\n")[2])
        if lines and lines[0] == ready:
            break
        if patience is None:
            raise SandboxError(
                f"the judge could not be set up ({last or result.outcome})",
                where="sandbox",
                fix="raise the limits on processes and memory, or ease the load of this machine",
            )
        time.sleep(patience)
    if result.outcome == "ok" and hmac.compare_digest(lines[-1].encode(), passed.encode()):
        return Verdict(True)
    if result.outcome == "timeout":
        return Verdict(False, f"timeout: no result within {limits.seconds:g} s")
    return Verdict(False, last or f"{result.outcome}: the program ended with exit code {result.exit_code}")


def _short(text: str) -> str:
    """What is left of a line for a row and a terminal: the judge behind the fence may have been taken over."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())[:_PROBLEM_CHARACTERS]
