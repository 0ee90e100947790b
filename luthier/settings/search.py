"""Settings that searches share. Proposal and credit are apart: any `proposer` goes with any `selector`.

What is one search's own stands in its file; its defaults are the published pair.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from luthier.settings.base import Section

ProposerName = Literal["grammar", "model"]
"""grammar: offline, instructions out of parts ("ours, offline"). model: the server of `search.server`."""
ParentName = Literal["pareto", "best", "beam", "latest"]
"""Which candidate a reflective search edits next; see `luthier.search.selectors`."""


class ScopeParams(Section):
    """What every search of a comparison may edit and read; see `luthier.search.contracts.Scope`."""

    demonstrations: bool = Field(default=True, description="demonstrations may change too, not instructions alone")
    feedback: Literal["score", "text", "trace"] = "trace"
    max_characters: int = Field(default=2000, ge=1, description="longest instruction of a module")


class ProposingParams(Section):
    """Who writes new instructions."""

    proposer: ProposerName = "grammar"


class ReflectiveParams(ProposingParams):
    """What TextGrad, OptoPrime and GEPA share: the loop of mini-batch, proposal, acceptance."""

    width: int = Field(default=4, ge=1, description="of the selector beam")
    batch: int = Field(default=3, ge=1, description="training questions of a mini-batch")
    iterations: int | None = Field(default=None, ge=1, description="most iterations; null leaves the end to the budget")


class SearchParams(Section):
    """What the searches of a comparison share: the questions, the scope and each one's settings."""

    train: int = Field(default=48, ge=1, description="training questions")
    validation: int = Field(default=51, ge=1, description="validation questions")
    scope: ScopeParams = ScopeParams()
