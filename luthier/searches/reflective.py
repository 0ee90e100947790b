"""`Reflective`: propose from evidence, test on a mini-batch, validate what is accepted. GEPA's loop, parts open.

GEPA (Agrawal et al., arXiv 2507.19457; loop as in gepa 0.1.4, optimizers.md 7.2) without merge: parent by
selector, mini-batch of 3, one proposal per chosen component, the child on the same mini-batch, full validation
on acceptance. With another selector it is the paper's select-best or beam ablation. Ours: seeds per iteration
instead of one shared generator; a proposal that is empty, repeated or too long costs no rollout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from luthier.budget import Budget
from luthier.candidate import Candidate
from luthier.errors import InputError
from luthier.search import Acceptance, Credit, Evaluation, Proposer, Selector
from luthier.searches.batches import epoch_batch
from luthier.searches.credit import OutcomeCredit
from luthier.searches.selectors import ParetoFront, StrictImprovement
from luthier.searches.session import Session


@dataclass(frozen=True)
class Reflective:
    """A search by reflection.

    Attributes:
        proposer, credit, selector, acceptance: Its four independent parts.
        components: "round_robin" edits one component an iteration, the next one for each descendant; "all" edits all.
        batch: Questions of a mini-batch (GEPA: 3).
        perfect: A parent that reaches this on the whole mini-batch is not edited.
        iterations: Most iterations; None leaves the end to the budget.
        name: What logs call it.
    """

    proposer: Proposer
    selector: Selector = field(default_factory=ParetoFront)
    acceptance: Acceptance = field(default_factory=StrictImprovement)
    credit: Credit = field(default_factory=OutcomeCredit)
    components: Literal["round_robin", "all"] = "round_robin"
    batch: int = 3
    perfect: float = 1.0
    iterations: int | None = None
    name: str = "reflective"

    def settings(self) -> Mapping[str, Any]:
        """See `luthier.searches.session.Search`."""
        parts = {name: repr(getattr(self, name)) for name in ("selector", "acceptance", "credit")}
        rest = {"components": self.components, "batch": self.batch, "perfect": self.perfect}
        return {"proposer": self.proposer.name, **parts, **rest}

    def run(self, session: Session) -> None:
        """Search until the iterations or the budget are used up.

        Raises:
            InputError: neither iterations nor the budget set an end.
        """
        require_end(self.name, self.iterations, session)
        pool = [session.start]
        scores = [session.validate(session.start).scores]
        pointers = [0]
        iteration = 0
        while self.iterations is None or iteration < self.iterations:
            index = self.selector.choose(scores, session.rng(f"parent {iteration}"))
            questions = epoch_batch(session.train, self.batch, iteration, session.seed)
            iteration += 1
            before = session.evaluate(pool[index], questions, "minibatch")
            if all(score >= self.perfect for score in before.scores):
                continue
            child = self._child(session, pool[index], pointers[index], before)
            pointers[index] += 1
            if child == pool[index]:
                continue
            after = session.evaluate(child, questions, "minibatch")
            if not self.acceptance.accepts(before.scores, after.scores):
                session.decide(child, "rejected")
                continue
            session.decide(child, "accepted")
            scores.append(session.validate(child).scores)
            pool.append(child)
            pointers.append(pointers[index])

    def _child(self, session: Session, parent: Candidate, pointer: int, before: Evaluation) -> Candidate:
        names = session.scope.components
        chosen = names if self.components == "all" else (names[pointer % len(names)],)
        by_id = {question.id: question for question in session.train}
        questions = [by_id[row.question] for row in before.executions]
        evidence = {name: self.credit.assign(name, before, questions, session.scope.feedback) for name in chosen}
        return session.propose(self.proposer, parent, evidence)


def require_end(name: str, iterations: int | None, session: Session) -> None:
    """Refuse a search that nothing would end.

    Raises:
        InputError: neither iterations nor any limit of the budget.
    """
    if iterations is None and session.budget == Budget():
        raise InputError("field iterations: no end", where=name, fix="give iterations or a budget")
