"""Settings of the searches. Proposal and credit are apart: any `proposer` goes with any `selector`.

Each class is one published search; its defaults are the published pair and, where no source states a number, ours.
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


class BootstrapParams(ProposingParams):
    """DSPy's BootstrapFewShotWithRandomSearch (optimizers.md 3.2). It proposes demonstrations, no instructions."""

    selector: Literal["random_sets", "tpe"] = "random_sets"
    max_bootstrapped: int = Field(default=4, ge=0)
    max_labelled: int = Field(default=16, ge=0)
    candidates: int = Field(default=16, ge=1, description="shuffled sets, beside zero-shot, labels only and unshuffled")
    threshold: float = Field(default=1.0, ge=0, le=1, description="least score of a successful run (ours: 1)")
    at_once: int = Field(default=16, ge=1, description="training questions that run together (ours)")


class MiproParams(ProposingParams):
    """MIPRO and MIPROv2 (optimizers.md 4.2)."""

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


class ReflectiveParams(ProposingParams):
    """What TextGrad, OptoPrime and GEPA share: the loop of mini-batch, proposal, acceptance."""

    width: int = Field(default=4, ge=1, description="of the selector beam")
    batch: int = Field(default=3, ge=1, description="training questions of a mini-batch")
    iterations: int | None = Field(default=None, ge=1, description="most iterations; null leaves the end to the budget")


class TextgradParams(ReflectiveParams):
    """TextGrad (optimizers.md 5): criticism carried backwards, the latest candidate is edited."""

    selector: ParentName = "latest"
    acceptance: Literal["always", "validation"] = Field(
        default="validation", description="validation: go back when the validation score fell (its optional revert)"
    )


class OptoprimeParams(ReflectiveParams):
    """Trace's OptoPrime (optimizers.md 6): one proposal for all parameters, from one report."""

    selector: ParentName = "latest"
    acceptance: Literal["always", "validation"] = "always"
    memory: int = Field(default=5, ge=0, description="past tries that the proposer sees")


class GepaParams(ReflectiveParams):
    """GEPA (optimizers.md 7): instance-wise Pareto choice, reflective mutation, merge."""

    selector: ParentName = "pareto"
    acceptance: Literal["strict", "not_worse"] = "strict"
    engine: Literal["gepa", "own"] = Field(
        default="gepa", description="the authors' package, or our loop; every selector goes with both"
    )
    merge: bool = True
    max_merges: int = Field(default=5, ge=0)


class SearchParams(Section):
    """What the searches of a comparison share: the questions, the scope and each one's settings."""

    train: int = Field(default=48, ge=1, description="training questions")
    validation: int = Field(default=51, ge=1, description="validation questions")
    scope: ScopeParams = ScopeParams()
    bootstrap: BootstrapParams = BootstrapParams()
    mipro: MiproParams = MiproParams()
    textgrad: TextgradParams = TextgradParams()
    optoprime: OptoprimeParams = OptoprimeParams()
    gepa: GepaParams = GepaParams()


SearchSettings = BootstrapParams | MiproParams | TextgradParams | OptoprimeParams | GepaParams
