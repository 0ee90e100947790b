"""`Binding`: between a harness and the candidates of a search, so that a search edits any kind that has named texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from luthier.errors import InputError
from luthier.execution import Execution, Step
from luthier.harness import Harness
from luthier.harnesses.program.harness import ProgramHarness
from luthier.search.candidate import Candidate
from luthier.search.contracts import Evidence


class Binding(Protocol):
    """Which texts of a harness a search edits, and how it reads their calls."""

    @property
    def harness(self) -> Harness:
        """Where the search starts."""
        ...

    def candidate(self) -> Candidate:
        """The harness as it stands: its editable texts (and demonstrations) by component name."""
        ...

    def build(self, candidate: Candidate) -> Harness:
        """The harness with a candidate's texts.

        Raises:
            HarnessError: they do not fit it.
        """
        ...

    def steps(self, component: str, execution: Execution) -> Sequence[Step]:
        """A component's calls in an execution of any candidate: inputs by name, output as text."""
        ...

    def worked_case(self, component: str, evidence: Evidence) -> str:
        """A component's call as a paragraph, for texts that hold cases; "" where it cannot be told so."""
        ...


def program_of(binding: Binding, who: str) -> ProgramHarness:
    """The program of a binding, for a search that needs the wiring of modules.

    Args:
        binding: Of the search.
        who: The search, for the message.

    Raises:
        InputError: the harness is no program.
    """
    harness = binding.harness
    if not isinstance(harness, ProgramHarness):
        raise InputError(
            f"{who} edits programs, and this harness is a {harness.kind}",
            where="search",
            fix="give it a program, or use a search that reads steps alone (gepa, bootstrap)",
        )
    return harness
