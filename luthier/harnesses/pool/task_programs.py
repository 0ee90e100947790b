"""`program_for`: the fixed program that a search of a task starts from. One readable text each, in `programs/`.

A search edits instructions and demonstrations; wiring and signatures are ours and stay. So the wiring is the
strongest that we know for the embedded default, and holds what a prompt need not learn:

* `mixed`: `route` names tools, guards read that word alone (never the question), an argument module copies what a
  tool cannot find in the question by itself, `judge` answers where no tool helps. `gcd`, `lcm` and `weekday` read
  their numbers and dates out of the question, so they have no argument module. A guard takes the tool's name or
  the word that questions use for it ("reverse", "backward"): a small router copies words better than it maps them.
* `twohop`: retrieve with the question's own words, ask for the second query, retrieve, read the answer; one passage
  each time. Perfect modules then answer four questions in five, with two passages all; but the embedded default loses
  more by the second passage.
* `explained`: the explanation first, then the queue; what is scored is the queue alone.
* `hotpotqa`: the sentences that matter first, then the answer; the paragraphs stand in the question.
* every other task: one module that answers.

None carries demonstrations: those are what searches look for, and `BootstrapFewShot` drops what a program brings.
Where the embedded default cannot begin without seeing the form, the instruction shows it in its own text: for `route`
a line for most tools and three chains, for `twohop` and `explained` one or two invented cases that are no questions of
the task. So some runs succeed from the start, and their traces can become demonstrations.
"""

from __future__ import annotations

import difflib
from functools import cache
from importlib.resources import files

from luthier.errors import InputError
from luthier.harnesses.program.harness import ProgramHarness
from luthier.tasks import TASKS

PROGRAM_TASKS = ("explained", "hotpotqa", "mixed", "twohop")
"""Tasks with a program of their own, sorted."""
SINGLE = "single"
"""File of the one-module program that all other tasks share."""


def program_for(task_name: str) -> ProgramHarness:
    """The program that every search of a task starts from.

    Args:
        task_name: Key of `luthier.tasks.TASKS`.

    Raises:
        InputError: there is no such task; near names are listed.
    """
    if task_name not in TASKS:
        near = difflib.get_close_matches(task_name.lower(), TASKS, n=3, cutoff=0.5)
        meant = f"did you mean {' or '.join(near)}?" if near else f"use one of: {', '.join(TASKS)}"
        raise InputError(f"task {task_name!r} is unknown", where="program", fix=meant)
    return read_program_file(task_name if task_name in PROGRAM_TASKS else SINGLE)


@cache
def read_program_file(name: str) -> ProgramHarness:
    """A shipped program by the name of its file, without `.txt`; read once.

    Raises:
        HarnessError: the text breaks a rule of programs.
    """
    path = files("luthier.harnesses.pool") / "programs" / f"{name}.txt"
    return ProgramHarness.parse(path.read_text(encoding="utf-8"))
