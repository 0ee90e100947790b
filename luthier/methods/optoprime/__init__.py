"""OptoPrime, the optimizer of Trace (Cheng, Nie, Swaminathan; arXiv 2406.16218): one proposal for all parameters.

After the public code (trace-opt 0.1.3.8). A step: the program runs on a mini-batch; one report
holds all parameters with their constraints, the executed sub-graph that led to the answers with code, values and
feedback (`luthier.methods.optoprime.report_graph`), and the last tries with their scores; one call proposes new texts
for any number of parameters (`luthier.methods.optoprime.joint`). There is no acceptance test, and the latest candidate
is edited.

Ours: a mini-batch of 3; runs with different feedback stand side by side in the report; `memory` is 5 (the library
0) and holds candidates with validation scores (the library: the feedback of earlier steps); an answer that cannot
be read is a counted proposal and is not asked again; every step is validated, and the result is the best validated
candidate. `acceptance` "validation" drops a child whose validation score is lower. Offline the grammar rewrites the
modules that the report blames (`ReportCredit`), and results are labelled "ours, offline".
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from luthier.method import MethodCard, SearchMethod
from luthier.methods.optoprime.joint import Joint
from luthier.methods.optoprime.report_graph import ReportCredit
from luthier.search.binding import program_of
from luthier.search.contracts import Acceptance
from luthier.search.parts import Parts
from luthier.search.selectors import Always, NotWorse, selector_of
from luthier.search.session import Search
from luthier.settings.search import ParentName, ReflectiveParams

CARD = MethodCard(
    name="optoprime",
    title="OptoPrime (Trace)",
    paper="Cheng, Nie, Swaminathan, Trace is the Next AutoDiff, arXiv 2406.16218",
    kind="program",
    phases=("search",),
    trained="nothing; the instructions of the program's modules are searched",
    frozen="the target, the wiring, the signatures and the demonstrations",
    ours="wording of report and prompt, mini-batch, memory, validation of every step, best validated as the result",
)


class OptoprimeParams(ReflectiveParams):
    """Trace's OptoPrime (arXiv 2406.16218): one proposal for all parameters, from one report."""

    selector: ParentName = "latest"
    acceptance: Literal["always", "validation"] = "always"
    memory: int = Field(default=5, ge=0, description="past tries that the proposer sees")


def build(settings: OptoprimeParams, parts: Parts) -> Search:
    """The search of these settings."""
    acceptance: Acceptance = NotWorse() if settings.acceptance == "validation" else Always()
    program = program_of(parts.binding, CARD.title)
    return Joint(
        parts.proposer,
        selector_of(settings.selector, settings.width),
        acceptance,
        ReportCredit(program),
        components="all",
        batch=settings.batch,
        iterations=settings.iterations,
        gate="validation",
        name=CARD.name,
        program=program,
        memory=settings.memory,
    )


METHOD = SearchMethod(CARD, OptoprimeParams, build)
