"""What every harness kind tells of itself, whatever it is made of."""

import pytest

from luthier.execution import Limits
from luthier.harnesses import parse
from luthier.harnesses.pool.task_programs import program_for


@pytest.mark.parametrize(
    ("kind", "text", "held", "calls"),
    [
        ("prompt", "Sort these words.\n{question}", {"Sort these words.\n{question}"}, 1),
        ("graph", 'a = words(question)\nanswer = count(a, "fig")', {"fig"}, 1),
        ("graph", "a = words(question)\nb = direct(question)\nanswer = copy(a)", set(), 2),
    ],
)
def test_a_harness_tells_its_texts_and_its_most_calls(kind, text, held, calls):
    harness = parse(kind, text)
    assert {found for found in harness.texts() if found} == held, "presets are everybody's"
    assert harness.calls_bound(Limits()) == calls
    assert harness.calls_bound(Limits(calls=1)) == 1


def test_a_program_tells_the_texts_of_its_modules():
    program = program_for("mixed")
    texts = {*program.texts()}
    instructions = {module.instruction for module in program.modules.values()}
    assert instructions
    assert all(any(instruction in text for text in texts) for instruction in instructions)
    assert program.calls_bound(Limits()) == program.graph.calls_bound(Limits()) > 1
