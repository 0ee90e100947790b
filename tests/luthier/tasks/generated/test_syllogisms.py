from __future__ import annotations

import pytest

from luthier.tasks.generated.syllogisms import follows


@pytest.mark.parametrize(
    ("premises", "conclusion", "answer"),
    [
        (("All cats are pets", "All pets are animals"), "All cats are animals", True),  # Barbara
        (("No fish are birds", "All owls are birds"), "No owls are fish", True),  # Cesare
        (("All cats are pets", "Some pets are dogs"), "Some cats are dogs", False),  # undistributed middle
        (("All ants are dolphins", "Some dolphins are not spiders"), "Some ants are not spiders", False),
        (("Some cats are not pets", "No pets are fish"), "No fish are pets", True),  # conversion of a premise
        (("No cats are pets", "No pets are fish"), "Some cats are fish", False),
        # Holds only when there are cats: left open.
        (("All cats are pets", "All pets are animals"), "Some cats are animals", None),
    ],
)
def test_known_syllogisms(premises: tuple[str, str], conclusion: str, answer: bool | None) -> None:
    assert follows(premises, conclusion) is answer


def test_another_form_of_statement_is_refused() -> None:
    with pytest.raises(ValueError, match="not a syllogism's statement"):
        follows(("Most cats are pets",), "All cats are pets")
