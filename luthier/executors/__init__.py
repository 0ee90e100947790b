"""What runs a harness, one executor a kind; `executor_for` imports one when it is asked for."""

from __future__ import annotations

from luthier.errors import InputError
from luthier.executor import Executor


def executor_for(kind: str) -> Executor:
    """The executor of a harness kind.

    Raises:
        InputError: the kind has no executor.
    """
    if kind == "prompt":
        from luthier.executors.prompt import PromptExecutor

        return PromptExecutor()
    if kind == "graph":
        from luthier.executors.graph import GraphExecutor

        return GraphExecutor()
    if kind == "program":
        from luthier.executors.program import ProgramExecutor

        return ProgramExecutor()
    raise InputError(f"harness kind {kind!r} has no executor", fix="use one of: prompt, graph, program")
