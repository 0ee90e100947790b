"""The tasks by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING

from luthier.errors import InputError

if TYPE_CHECKING:
    from luthier.task import Task


def _names(source: str) -> list[str]:
    """Family names in a source such as "gcd, lcm"."""
    return [name.strip() for name in source.split(",") if name.strip()]


def _mixed(source: str = "") -> Task:
    from luthier.tasks.generated.mixed import MixedSuite

    return MixedSuite(_names(source))


def _twohop(source: str = "") -> Task:
    from luthier.tasks.generated.twohop import TwoHop

    return TwoHop(_names(source))


def _explained(source: str = "") -> Task:
    from luthier.tasks.generated.explained import Explained

    return Explained(_names(source))


def _gsm8k(source: str = "") -> Task:
    from luthier.tasks.benchmarks.gsm8k import Gsm8k

    return Gsm8k(source)


def _bbh(source: str = "") -> Task:
    from luthier.tasks.benchmarks.bbh import BigBenchHard

    return BigBenchHard(source)


def _bbeh(source: str = "") -> Task:
    from luthier.tasks.benchmarks.bbh import BigBenchExtraHard

    return BigBenchExtraHard(source)


def _mmlu(source: str = "") -> Task:
    from luthier.tasks.benchmarks.mmlu import Mmlu

    return Mmlu(source)


def _hotpotqa(source: str = "") -> Task:
    from luthier.tasks.benchmarks.hotpotqa import HotpotQa

    return HotpotQa(source)


def _math(source: str = "") -> Task:
    from luthier.tasks.benchmarks.math import Math

    return Math(source)


def _sst2(source: str = "") -> Task:
    from luthier.tasks.benchmarks.sst2 import Sst2

    return Sst2(source)


def _humaneval(source: str = "") -> Task:
    from luthier.tasks.benchmarks.humaneval import HumanEval

    return HumanEval(source)


TASKS: dict[str, Callable[..., Task]] = {
    "mixed": _mixed,
    "gsm8k": _gsm8k,
    "bbh": _bbh,
    "bbeh": _bbeh,
    "mmlu": _mmlu,
    "hotpotqa": _hotpotqa,
    "math": _math,
    "humaneval": _humaneval,
    "sst2": _sst2,
    "twohop": _twohop,
    "explained": _explained,
}
"""Name -> factory. The argument is where the questions come from: a local file or folder, or a hub id; for the
generated tasks (`mixed`, `twohop`, `explained`) the names of the families to keep, separated by commas."""


def open_task(name: str, source: str = "") -> Task:
    """The task of a name.

    Args:
        name: Key of `TASKS`.
        source: Local file or folder, or hub id; "" for the task's own default.

    Raises:
        InputError: the name is unknown (near matches are named), or the task refuses the source.
    """
    if name not in TASKS:
        near = difflib.get_close_matches(name.lower(), TASKS, n=3, cutoff=0.5)
        meant = f"did you mean {' or '.join(near)}?" if near else f"use one of: {', '.join(TASKS)}"
        raise InputError(f"task {name!r} is unknown", where="task", fix=meant)
    return TASKS[name](source)
