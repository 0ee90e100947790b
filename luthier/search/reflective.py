"""`Reflective`: propose from evidence, test on a mini-batch, validate what is accepted. GEPA's loop, parts open.

GEPA (Agrawal et al., arXiv 2507.19457; loop as in gepa 0.1.4) with merge on demand: parent by
selector, mini-batch of 3, one proposal per chosen component, the child on the same mini-batch, full validation
on acceptance. With another selector it is the paper's select-best or beam ablation. With `gate` "validation" the
child is validated at once, which is the loop of TextGrad and OptoPrime; how a child is made is open (`child`).
Ours: seeds per iteration instead of one shared generator; a proposal that is empty, repeated or too long costs no
rollout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from luthier.errors import InputError
from luthier.ledger.budget import Budget
from luthier.search.batches import epoch_batch
from luthier.search.candidate import Candidate
from luthier.search.contracts import Acceptance, Credit, Evaluation, Proposer, Selector
from luthier.search.credit import OutcomeCredit
from luthier.search.merging import Member, Merge, Merging
from luthier.search.selectors import ParetoFront, StrictImprovement
from luthier.search.session import Session


@dataclass(frozen=True)
class Reflective:
    """A search by reflection.

    Attributes:
        proposer, credit, selector, acceptance: Its four independent parts.
        components: "round_robin" edits one component an iteration, the next one for each descendant; "all" edits all.
        batch: Questions of a mini-batch (GEPA: 3).
        perfect: A parent that reaches this on the whole mini-batch is not edited.
        iterations: Most iterations; None leaves the end to the budget.
        gate: Where `acceptance` compares child and parent: on the mini-batch, before the child is validated, or
            on the validation questions.
        merges: Most accepted merges (`luthier.search.merging`), 0 for none.
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
    gate: Literal["minibatch", "validation"] = "minibatch"
    merges: int = 0
    name: str = "reflective"

    def settings(self) -> Mapping[str, Any]:
        """See `luthier.search.session.Search`."""
        parts = {name: repr(getattr(self, name)) for name in ("selector", "acceptance", "credit")}
        rest = {"components": self.components, "batch": self.batch, "perfect": self.perfect, "gate": self.gate}
        rest["merges"] = self.merges
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
        members = [Member(pool[0], scores[0])]
        merging = Merging(self.merges)
        iteration = 0
        while self.iterations is None or iteration < self.iterations:
            merge = merging.draft(members, session.rng(f"merge {iteration}"))
            if merge is not None:
                iteration += 1
                if self._passes(session, merge):
                    merging.accepted()
                    scores.append(session.validate(merge.child).scores)
                    pool.append(merge.child)
                    pointers.append(max(pointers[place] for place in merge.parents))
                    members.append(Member(merge.child, scores[-1], merge.parents))
                continue
            index = self.selector.choose(scores, session.rng(f"parent {iteration}"))
            questions = epoch_batch(session.train, self.batch, iteration, session.seed)
            iteration += 1
            before = session.evaluate(pool[index], questions, "minibatch")
            if all(score >= self.perfect for score in before.scores):
                continue
            child = self.child(session, pool[index], pointers[index], before)
            pointers[index] += 1
            if child == pool[index]:
                continue
            if self.gate == "minibatch":
                after = session.evaluate(child, questions, "minibatch")
                if not self._decide(session, child, before.scores, after.scores):
                    continue
            validated = session.validate(child).scores
            if self.gate == "validation" and not self._decide(session, child, scores[index], validated):
                continue
            scores.append(validated)
            pool.append(child)
            pointers.append(pointers[index])
            members.append(Member(child, validated, (index,)))
            merging.found()

    def child(self, session: Session, parent: Candidate, turn: int, before: Evaluation) -> Candidate:
        """What is made of a parent that was run on a mini-batch, for the `turn`-th time in its line.

        The parent itself when no proposal was usable. It may depend on its arguments and the session alone.
        """
        names = session.scope.components
        chosen = names if self.components == "all" else (names[turn % len(names)],)
        return session.propose(self.proposer, parent, session.assign(self.credit, chosen, parent, before))

    def _passes(self, session: Session, merge: Merge) -> bool:
        """Test a merge; logged with its texts, since no proposal holds them."""
        session.decide(merge.child, "merged", child=merge.child.to_row())
        questions = [session.validation[place] for place in merge.questions]
        passed = math.fsum(session.evaluate(merge.child, questions, "merge").scores) >= merge.bar
        session.decide(merge.child, "accepted" if passed else "rejected")
        return passed

    def _decide(self, session: Session, child: Candidate, old: Sequence[float], new: Sequence[float]) -> bool:
        accepted = self.acceptance.accepts(old, new)
        session.decide(child, "accepted" if accepted else "rejected")
        return accepted


def require_end(name: str, iterations: int | None, session: Session) -> None:
    """Refuse a search that nothing would end.

    Raises:
        InputError: neither iterations nor any limit of the budget.
    """
    if iterations is None and session.budget == Budget():
        raise InputError("field iterations: no end", where=name, fix="give iterations or a budget")
