"""TextGrad (Yuksekgonul et al., arXiv 2406.07496): criticism is carried backwards through the program, then each
module that was criticised is rewritten.

After the public code (textgrad 0.1.8). A step: the program runs on a mini-batch of 3; the loss is the score
with the task's sentence; a critic carries it backwards through the executed call graph
(`luthier.methods.textgrad.backward`); each module with criticism gets one proposal from all of it (textual gradient
descent); the child is validated. The next step edits the latest candidate. `acceptance` "validation" is the revert of
the reference script: a child whose validation score is lower is dropped; "always" is the class itself, which replaces
unconditionally.

Ours: every step is validated under both, so that searches differ in what they accept and not in what they measure,
and the result is the best validated candidate (the library ends with its latest); the end comes from the budget or
from `iterations` (the script: 12 steps); proposer and critic are whoever the settings name. Offline both are
rules, and results are labelled "ours, offline". In the library `gradient_memory` has no effect; it is left out.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from luthier.method import MethodCard, SearchMethod
from luthier.methods.textgrad.backward import BackwardCredit
from luthier.search.binding import program_of
from luthier.search.contracts import Acceptance
from luthier.search.critics import Critic, ModelCritic, OfflineCritic
from luthier.search.parts import Parts
from luthier.search.reflective import Reflective
from luthier.search.selectors import Always, NotWorse, selector_of
from luthier.search.session import Search
from luthier.settings.search import ParentName, ReflectiveParams

CARD = MethodCard(
    name="textgrad",
    title="TextGrad",
    paper="Yuksekgonul et al., TextGrad: Automatic 'Differentiation' via Text, arXiv 2406.07496",
    kind="program",
    phases=("search",),
    trained="nothing; the instructions of the program's modules are searched",
    frozen="the target, the wiring, the signatures and the demonstrations",
    ours="wording of all prompts, choices as edges, validation of every step, best validated candidate as the result",
)


class TextgradParams(ReflectiveParams):
    """TextGrad (arXiv 2406.07496): criticism carried backwards, the latest candidate is edited."""

    selector: ParentName = "latest"
    acceptance: Literal["always", "validation"] = Field(
        default="validation", description="validation: go back when the validation score fell (its optional revert)"
    )


def build(settings: TextgradParams, parts: Parts) -> Search:
    """The search of these settings."""
    critic: Critic = OfflineCritic() if parts.critic_meter is None else ModelCritic(parts.critic_meter)
    acceptance: Acceptance = NotWorse() if settings.acceptance == "validation" else Always()
    return Reflective(
        parts.proposer,
        selector_of(settings.selector, settings.width),
        acceptance,
        BackwardCredit(program_of(parts.binding, CARD.title), critic),
        components="all",
        batch=settings.batch,
        iterations=settings.iterations,
        gate="validation",
        name=CARD.name,
    )


METHOD = SearchMethod(CARD, TextgradParams, build)
