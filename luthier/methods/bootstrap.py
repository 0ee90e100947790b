"""Bootstrap: DSPy's BootstrapFewShotWithRandomSearch (Khattab et al., arXiv 2310.03714; dspy 3.4.1).

Instructions stay; each module gets demonstrations. A labelled teacher runs on training questions, every module call of
a run that succeeded becomes a demonstration of its module (a candidate for a good step, no proof of one), labels fill
the rest. Sets: none, labels only, an unshuffled bootstrap, then `candidates` shuffled ones of `randint(1,
max_bootstrapped)` runs. Each is tried on the full validation and the first best wins, so the rollouts are (candidates
+ 3) x V at most (equal sets are tried once), and those of candidates + 1 bootstraps.

`selector: tpe` is ours: the same sets, but each module chooses its own and a surrogate (`luthier.search.tpe`) picks
the combinations; as many full validations.

Also ours: the threshold (DSPy: any score that is not 0; and it ignores a threshold of 0, we do not); training
questions run `at_once` together, which may run up to at_once - 1 too many, all paid; the sets follow the search's seed
(seed 0 is DSPy's own series) and stand in the log with the call that was taken of a module that ran several times; a
metric that fails ends the search with an error instead of scoring 0; a module without labels gets none, where DSPy
shows it examples that lack fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from luthier.method import MethodCard, SearchMethod
from luthier.search.demonstrations import Bootstrap, RandomSets, different, require_demonstrations, unlabelled
from luthier.search.parts import Parts
from luthier.search.session import Search, Session
from luthier.search.tpe import Space, TpeSearch
from luthier.settings.search import ProposingParams

CARD = MethodCard(
    name="bootstrap",
    title="DSPy bootstrap",
    paper="Khattab et al., DSPy, arXiv 2310.03714; dspy 3.4.1",
    kind="program",
    phases=("search",),
    trained="nothing; the demonstrations of each module are searched",
    frozen="the target, the instructions, the wiring",
    ours="success threshold, questions that run at once, selector tpe, seeds other than 0",
)


class BootstrapParams(ProposingParams):
    """DSPy's BootstrapFewShotWithRandomSearch (dspy 3.4.1). It proposes demonstrations, no instructions."""

    selector: Literal["random_sets", "tpe"] = "random_sets"
    max_bootstrapped: int = Field(default=4, ge=0)
    max_labelled: int = Field(default=16, ge=0)
    candidates: int = Field(default=16, ge=1, description="shuffled sets, beside zero-shot, labels only and unshuffled")
    threshold: float = Field(default=1.0, ge=0, le=1, description="least score of a successful run (ours: 1)")
    at_once: int = Field(default=16, ge=1, description="training questions that run together (ours)")


def build(settings: BootstrapParams, parts: Parts) -> Search:
    """The search of these settings. `settings.proposer` plays no part: no instruction changes.

    Args:
        settings: See `BootstrapParams`.
        parts: Binding and labels.
    """
    bootstrap = Bootstrap(
        settings.max_bootstrapped,
        settings.max_labelled,
        threshold=settings.threshold,
        label=parts.label or unlabelled,
        at_once=settings.at_once,
        steps=parts.binding.steps,
    )
    if settings.selector == "random_sets":
        return RandomSets(bootstrap, settings.candidates, name=CARD.name)
    return BootstrapTpe(bootstrap, settings.candidates)


METHOD = SearchMethod(CARD, BootstrapParams, build)


@dataclass(frozen=True)
class BootstrapTpe:
    """Bootstrapped sets chosen for each module by TPE (ours).

    Attributes:
        bootstrap: How sets are made.
        candidates: Shuffled sets; there are as many full validations as in the random search.
        name: What logs call it.
    """

    bootstrap: Bootstrap
    candidates: int
    name: str = "bootstrap, tpe"

    def settings(self) -> Mapping[str, Any]:
        """See `luthier.search.session.Search`."""
        return {**self._schedule().settings(), "bootstrap": dict(self.bootstrap.settings())}

    def run(self, session: Session) -> None:
        """Validate the seed, make the sets, then try combinations of them."""
        require_demonstrations(session, self.name)
        self._schedule().run(session)

    @property
    def _sets(self) -> int:
        return self.candidates + self.bootstrap.special

    def _schedule(self) -> TpeSearch:
        return TpeSearch(self._space, self._sets - 1, always_full=True, name=self.name)

    def _space(self, session: Session) -> Space:
        found = self.bootstrap.sets(session, self._sets)
        names = session.scope.components
        texts = {name: [session.start.text(name)] for name in names}
        return Space(texts, {name: different(found, name) for name in names})
