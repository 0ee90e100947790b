"""`label_for`: which modules of a task's program may be shown references as demonstrations.

A reference says what the answer to a question is, so it is a label only of a module that reads the question alone
and writes the answer. What a router, an argument module or a query should have written is not given to any
optimizer: it must be found by runs that succeed. DSPy's labelled demonstrations leave such fields out instead
(dspy 3.4.1); ours need all fields of a module.
"""

from __future__ import annotations

from luthier.harnesses.graph.document import Ref
from luthier.harnesses.pool.task_programs import program_for
from luthier.harnesses.program.harness import ProgramHarness
from luthier.question import Question
from luthier.search.candidate import Demonstration
from luthier.search.demonstrations import Label

_QUESTION = Ref("question")


def answering_modules(program: ProgramHarness) -> dict[str, str]:
    """Modules that answer the question themselves, each with the name of its input; in text order.

    All of its nodes read the question and nothing else, and write the answer and nothing else.
    """
    found = {}
    for name, module in program.modules.items():
        nodes = [node for node in program.graph.nodes if node.name == name]
        if all(node.args == (_QUESTION,) and node.writes == ("answer",) for node in nodes):
            found[name] = module.inputs[0]
    return found


def labels_of(program: ProgramHarness) -> Label:
    """Labelled demonstrations of a program's answering modules; None for every other module."""
    inputs = answering_modules(program)

    def answering_label(component: str, question: Question) -> Demonstration | None:
        if component not in inputs:
            return None
        return Demonstration(question.id, ((inputs[component], question.text),), question.reference, "labelled")

    return answering_label


def label_for(task_name: str) -> Label:
    """`labels_of` the program of a task.

    Raises:
        InputError: there is no such task.
    """
    return labels_of(program_for(task_name))
