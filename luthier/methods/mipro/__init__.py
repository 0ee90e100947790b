"""MIPRO and MIPROv2 (Opsahl-Ong et al., arXiv 2406.11695; dspy 3.4.1): one method, two versions.

Demonstration sets are bootstrapped for all modules, instructions are proposed for each, and TPE chooses jointly one
instruction and one set for every module: credit crosses modules through the surrogate. Random validation mini-batches,
after every few trials a full validation of the best mean so far; only full validations make a best.

v2 (the default) has MIPROv2's constants: n = 6 sets (its light setting), whose orders and sizes come from one
`Random(seed)`; n // 2 instructions a module when demonstrations are searched and n when not; trials = max(2 variables
log2 n, 1.5 n); mini-batches of 35 from 51 validation questions on; full scores told to the surrogate. v1 is the paper's
MIPRO: always mini-batches, full scores kept from the surrogate (ours, unverified). Rollouts without bootstrap and
grounding: V + 35 trials + ceil(trials / 5) V with mini-batches, else V + trials V.

Proposals. A model is grounded as in MIPRO: `luthier.methods.mipro.grounded`, which replaces the reflective prompt of
`ModelProposer` and is shown bootstrapped demonstrations. Every other proposer (the offline grammar above all) is shown
the seed's runs on training mini-batches instead (ours), since demonstrations show no failure to react to.

Ours: the seed is validated first, so that a search which is stopped early has a best; seed 0 is honoured; a module's
equal sets count once; instruction proposals that repeat leave a smaller choice; without demonstrations in the scope no
demonstrations are bootstrapped to ground proposals, which then see runs; `selector: random` draws choices uniformly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from luthier.method import MethodCard, SearchMethod
from luthier.methods.mipro.grounded import GroundedProposer
from luthier.methods.mipro.spaces import Grounding, proposed_space
from luthier.search.binding import program_of
from luthier.search.contracts import Proposer
from luthier.search.credit import OutcomeCredit
from luthier.search.demonstrations import Bootstrap, unlabelled
from luthier.search.parts import Parts
from luthier.search.proposers.llm_proposer import ModelProposer
from luthier.search.session import Search, Session
from luthier.search.tpe import TpeSearch, default_trials
from luthier.settings.search import ProposingParams

CARD = MethodCard(
    name="mipro",
    title="MIPROv2",
    paper="Opsahl-Ong et al., MIPRO, arXiv 2406.11695; MIPROv2 as in dspy 3.4.1",
    kind="program",
    phases=("search",),
    trained="nothing; instructions and demonstrations of all modules are searched jointly",
    frozen="the target, the wiring, the signatures",
    ours="offline proposer, what grounds it, seed validated first, questions that bootstrap at once",
)
GROUNDING_BATCH = 3
"""Training questions behind one proposal that is shown runs (ours)."""


class MiproParams(ProposingParams):
    """MIPRO and MIPROv2 (arXiv 2406.11695; dspy 3.4.1)."""

    version: Literal["v2", "v1"] = "v2"
    selector: Literal["tpe", "random"] = "tpe"
    instructions: int = Field(default=0, ge=0, description="per module; 0 = sets // 2, as MIPROv2 takes n // 2")
    sets: int = Field(default=6, ge=1, description="demonstration sets per module (n of the light setting)")
    trials: int = Field(default=0, ge=0, description="0 = max(2 variables log2 n, 1.5 n)")
    minibatch: int = Field(default=35, ge=1)
    full_every: int = Field(default=5, ge=1, description="trials between full validations")
    max_bootstrapped: int = Field(default=4, ge=0)
    max_labelled: int = Field(default=4, ge=0)
    at_once: int = Field(default=16, ge=1, description="training questions that run together (ours)")


def build(settings: MiproParams, parts: Parts) -> Search:
    """The search of these settings.

    Args:
        settings: See `MiproParams`.
        parts: Binding, proposer and labels.
    """
    return Mipro(settings, parts)


METHOD = SearchMethod(CARD, MiproParams, build)


@dataclass(frozen=True)
class Mipro:
    """The search. Sizes that follow from the scope are fixed when it starts, and logged.

    Attributes:
        params: Its settings.
        parts: What it is built from.
    """

    params: MiproParams
    parts: Parts

    @property
    def name(self) -> str:
        """What logs and reports call it."""
        return "miprov2" if self.params.version == "v2" else "mipro"

    def settings(self) -> Mapping[str, Any]:
        """See `luthier.search.session.Search`."""
        rest = {"proposer": self.parts.proposer.name, "bootstrap": dict(self._bootstrap().settings())}
        return {**self.params.model_dump(), **rest}

    def run(self, session: Session) -> None:
        """Bootstrap, propose, then search; sizes and rollouts of the schedule are the first decision of the log."""
        plan = self.plan(session)
        rollouts, note = plan.forecast(len(session.validation))
        instructions = self.instructions(session.scope.demonstrations)
        sizes = {"instructions": instructions, "trials": plan.trials, "rollouts": rollouts, "note": note}
        session.decide(session.start, "planned", **sizes)
        plan.run(session)

    def instructions(self, demonstrations: bool) -> int:
        """Instructions of a module, its own included: as set, or MIPROv2's rule."""
        n = self.params.sets
        return self.params.instructions or (max(n // 2, 1) if demonstrations else n)

    def trials(self, modules: int, demonstrations: bool) -> int:
        """Trials: as set, or MIPROv2's rule over one or two variables a module."""
        variables = modules * (2 if demonstrations else 1)
        return self.params.trials or default_trials(variables, self.params.sets)

    def plan(self, session: Session) -> TpeSearch:
        """The schedule for a session's scope and questions."""
        params, searched = self.params, session.scope.demonstrations
        proposer, grounding = self._proposer(session)
        space = proposed_space(
            proposer,
            self.instructions(searched),
            bootstrap=self._bootstrap() if searched else None,
            sets=params.sets,
            batch=GROUNDING_BATCH,
            credit=OutcomeCredit(self.parts.binding.steps),
            grounding=grounding,
        )
        trials = self.trials(len(session.scope.components), searched)
        second = params.version == "v2"
        return TpeSearch(
            space,
            trials,
            params.minibatch,
            params.full_every,
            minibatch_from=50 if second else 0,
            tell_full=second,
            sampler=params.selector,
            name=self.name,
        )

    def _proposer(self, session: Session) -> tuple[Proposer, Grounding]:
        """The proposer of the parts, a model in its grounded form, and what it is shown."""
        given = self.parts.proposer
        if not isinstance(given, ModelProposer):
            return given, "runs"
        grounded = GroundedProposer(
            given.meter,
            program_of(self.parts.binding, CARD.title),
            session.train,
            feedback=session.scope.feedback,
            max_tokens=given.max_tokens,
            temperature=given.temperature,
        )
        return grounded, "demonstrations"

    def _bootstrap(self) -> Bootstrap:
        return Bootstrap(
            self.params.max_bootstrapped,
            self.params.max_labelled,
            label=self.parts.label or unlabelled,
            at_once=self.params.at_once,
            one_stream=True,
            steps=self.parts.binding.steps,
        )
