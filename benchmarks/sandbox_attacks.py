"""Hostile programs and hostile answers against both fences, as this user and as an unprivileged one.

A program is through when it says so, when `run()` raises or does not return in time, or when a process or a
folder is left behind; an answer is through when it passes, makes the judge raise, or brings more than one
short printable line into the feedback. Programs that break before their attack are failures of this benchmark.

    python -m benchmarks.sandbox_attacks                        # about three minutes on two cores
    python -m benchmarks.sandbox_attacks --fence landlock       # one fence, as this user; one JSON line for each
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.hostile import BEGAN, PRELUDE, THROUGH, Kind, all_kinds
from benchmarks.hostile.answers import REFERENCE, TESTS, all_answers
from benchmarks.record import record
from luthier.errors import LuthierError
from luthier.sandbox import Sandbox, SandboxLimits
from luthier.sandboxes import open_sandbox
from luthier.sandboxes.support.judge import judge_function
from luthier.sandboxes.support.tree import descendants

ROOT = Path(__file__).parents[1]
FENCES = ("bubblewrap", "landlock")
NOBODY = 65534
SYSTEM_PYTHON = "/usr/bin/python3"
ANSWERS = "answers"

_ANSWER_LIMITS = SandboxLimits(seconds=1.5, memory_bytes=256 << 20, processes=8)
_LATE_SECONDS = 10.0  # of a machine under load
_AT_ONCE = 4
_SET_CHILD_SUBREAPER = 36
_BROKEN = ("NameError", "SyntaxError", "AttributeError", "TypeError", "ImportError", "ModuleNotFoundError", "ctypes.")


def attack(fence: str, shard: int = 0, shards: int = 1) -> Iterator[dict[str, str]]:
    """Run programs and answers behind one fence, as this user, one after the other.

    Args:
        fence: Name of the sandbox.
        shard: Which part of all is run: every `shards`-th, beginning with this one.
        shards: Number of parts.

    Yields:
        One row for each: kind, name, and what got through or was left behind ("" when nothing did).
    """
    # What is orphaned becomes ours, so that nothing left behind can hide.
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    sandbox = open_sandbox(fence)
    in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # on disk, thousands of files take seconds
    with tempfile.TemporaryDirectory(prefix="attacks-", dir=in_memory) as folder:
        os.chmod(folder, 0o711)
        tempfile.tempdir = folder
        for kind, name, run in _all_attacks(sandbox)[shard::shards]:
            through = [run()]
            through += [f"process {pid} is left" for pid in descendants(os.getpid())[1:]]
            through += [f"folder {name} is left" for name in os.listdir(folder)]
            yield {"kind": kind, "name": name, "through": "; ".join(filter(None, through))}


def _all_attacks(sandbox: Sandbox) -> list[tuple[str, str, Callable[[], str]]]:
    programs: list[tuple[str, str, Callable[[], str]]] = [
        (kind.name, name, functools.partial(_program, sandbox, kind, text))
        for kind in all_kinds()
        for name, text in kind.programs.items()
    ]
    answers = [(ANSWERS, name, functools.partial(_answer, sandbox, text)) for name, text in all_answers().items()]
    return programs + answers


def _program(sandbox: Sandbox, kind: Kind, text: str) -> str:
    try:
        result = sandbox.run(PRELUDE + text, limits=kind.limits)
    except Exception as error:
        return f"run() raised {type(error).__name__}: {error}"[:300]
    if THROUGH in result.stdout:
        return result.stdout[result.stdout.index(THROUGH) :][:300]
    if not result.stdout.startswith(BEGAN):
        return f"it never began: {result}"[:300]
    last = result.stderr.strip().rpartition("\n")[2]
    if last.startswith(_BROKEN):
        return f"it is broken: {last}"
    if result.seconds > kind.limits.seconds + _LATE_SECONDS:
        return f"it ran for {result.seconds:.1f} s"
    if max(len(result.stdout), len(result.stderr)) > kind.limits.output_bytes:
        return "it wrote more than is allowed"
    return ""


def _answer(sandbox: Sandbox, text: str) -> str:
    try:
        verdict = judge_function(
            sandbox,
            sources=[text],
            entry_point="double",
            reference=REFERENCE,
            tests=TESTS,
            limits=_ANSWER_LIMITS,
        )
    except Exception as error:
        return f"the judge raised {type(error).__name__}: {error}"[:300]
    if verdict.passed:
        return "it passed"
    if len(verdict.problem) > 400 or not verdict.problem.isprintable():
        return f"{len(verdict.problem)} characters of feedback: {verdict.problem!r}"[:300]
    return ""


def attack_as(fence: str, user: int, *, take: int = 1) -> list[dict[str, str]]:
    """The rows of `attack`, from a few processes at once.

    Args:
        fence: Name of the sandbox.
        user: As whom. If it is another than this one, each process becomes a user of its own (this id and
            those below it), with the system's Python, which everybody may read.
        take: Run one in so many alone.

    Raises:
        LuthierError: a process ended before its last row.
    """
    # Behind Landlock all processes of a user count, unless the superuser gives each run a user of its own.
    shards = 1 if fence == "landlock" and user == os.geteuid() != 0 else _AT_ONCE
    first = user - _AT_ONCE * FENCES.index(fence)
    started = [_start(fence, user, shard * take, shards * take, become=first - shard) for shard in range(shards)]
    rows = []
    for process in started:
        output, errors = process.communicate()
        if process.returncode:
            last = errors.strip().rpartition("\n")[2]
            raise LuthierError(f"the attacks broke off: {last}", where=fence, fix="see if the machine is overloaded")
        rows += [json.loads(line) for line in output.splitlines()]
    return rows


def _start(fence: str, user: int, shard: int, shards: int, become: int) -> subprocess.Popen[str]:
    own = user == os.geteuid()
    identity = [] if own else ["setpriv", "--reuid", str(become), "--regid", str(become), "--clear-groups"]
    command = [*identity, sys.executable if own else SYSTEM_PYTHON, "-m", "benchmarks.sandbox_attacks"]
    return subprocess.Popen(
        [*command, "--fence", fence, "--shard", str(shard), "--shards", str(shards)],
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def users() -> list[int]:
    """Who attacks: this user, and nobody where this user may become it."""
    become_nobody = os.geteuid() == 0 and shutil.which("setpriv") and os.path.exists(SYSTEM_PYTHON)
    return [os.geteuid(), *([NOBODY] if become_nobody else [])]


def main() -> None:
    """Attack, print what got through, and record the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fence", choices=FENCES, help="only this one, as this user, printed as JSON lines")
    parser.add_argument("--shard", type=int, default=0, help="with --fence: begin with this attack")
    parser.add_argument("--shards", type=int, default=1, help="with --fence: and run one in so many")
    arguments = parser.parse_args()
    if arguments.fence:
        for row in attack(arguments.fence, arguments.shard, arguments.shards):
            print(json.dumps(row), flush=True)
        return
    runs = through = 0
    for fence in FENCES:
        for user in users():
            rows = attack_as(fence, user)
            bad = [row for row in rows if row["through"]]
            print(f"{fence}, user {user}: {len(bad)} of {len(rows)} through", file=sys.stderr)
            for row in bad:
                print(f"  {row['kind']}: {row['name']}: {row['through']}", file=sys.stderr)
            runs, through = runs + len(rows), through + len(bad)
    record("sandbox_through", through, unit="programs", n=runs)


if __name__ == "__main__":
    main()
