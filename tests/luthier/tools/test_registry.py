from __future__ import annotations

import pytest

from luthier.tools.registry import TOOLS
from luthier.tools.values import ToolInputError, render


@pytest.mark.parametrize("name", list(TOOLS))
def test_every_example_of_a_tool_holds(name: str) -> None:
    tool = TOOLS[name]
    assert tool.examples
    for inputs, expected in tool.examples:
        assert render(tool(*inputs)) == expected


def test_tools_are_sorted_and_say_what_they_do() -> None:
    assert list(TOOLS) == sorted(TOOLS)
    assert all(tool.name == name and tool.about for name, tool in TOOLS.items())


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("calculate", ("one plus one",)),
        ("count", ("how many r in it",)),
        ("count", ("ab", "abab")),
        ("reverse", ("two words",)),
        ("sort", ("",)),
        ("gcd", ("no numbers",)),
        ("gcd", ("1.5, 3",)),
        ("square", ("3, 4",)),
        ("weekday", ("2023-02-29",)),
        ("add_days", ("9999-12-31", "1")),
        ("search", ("Ann has a cat.", "zebra")),
        ("first", ("a", "b")),
    ],
)
def test_input_that_a_tool_cannot_use_is_refused(name: str, inputs: tuple[str, ...]) -> None:
    with pytest.raises(ToolInputError):
        TOOLS[name](*inputs)


def test_a_chain_of_tools_passes_texts_and_values_alike() -> None:
    items = TOOLS["sort"]("Words: pear, fig, apple")
    assert items == ["apple", "fig", "pear"]
    assert TOOLS["last"](items) == TOOLS["last"](render(items)) == "pear"
    assert render(TOOLS["square"](TOOLS["gcd"]("12 and 18"))) == "36"


def test_many_inputs_are_joined_in_order() -> None:
    assert render(TOOLS["sum"]("1, 2", 3, ["4"])) == "10"
    assert TOOLS["gcd"].max_args == 16
    assert TOOLS["days_between"].signature == "days_between(start: date, end: date) -> int"


def test_huge_results_are_refused_instead_of_computed() -> None:
    primes = ", ".join(str(number) for number in range(2, 3000))
    with pytest.raises(ToolInputError, match="too large"):
        TOOLS["lcm"](primes)
