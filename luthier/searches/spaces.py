"""`proposed_space`: instructions from a proposer and demonstration sets from a bootstrap, for `TpeSearch` to choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from luthier.candidate import Demonstration
from luthier.search import Credit, Proposer
from luthier.searches.batches import epoch_batch
from luthier.searches.credit import OutcomeCredit
from luthier.searches.demonstrations import Bootstrap
from luthier.searches.session import Session
from luthier.searches.tpe import Space


def proposed_space(
    proposer: Proposer,
    instructions: int,
    *,
    bootstrap: Bootstrap | None = None,
    sets: int = 0,
    batch: int = 3,
    credit: Credit | None = None,
) -> Callable[[Session], Space]:
    """A space for `TpeSearch`: the seed's instruction and up to `instructions - 1` new ones for each component.

    Each proposal sees the seed's evidence on another mini-batch. A proposal that is empty, repeated or too long
    leaves its component with a smaller choice; it is counted and paid. MIPROv2 takes n // 2 instructions when
    demonstrations are searched too, n otherwise, and n sets.

    Args:
        proposer: Writes instructions.
        instructions: Values of each instruction variable, the seed's own included.
        bootstrap: How demonstration sets are made; without it they stay as they are.
        sets: How many demonstration sets.
        batch: Training questions behind one proposal.
        credit: Who did what on them.
    """
    assign = (credit or OutcomeCredit()).assign

    def make(session: Session) -> Space:
        names = session.scope.components
        texts = {name: [session.start.text(name)] for name in names}
        for number in range(instructions - 1):
            questions = epoch_batch(session.train, batch, number, session.seed)
            seen = session.evaluate(session.start, questions, "grounding")
            for name in names:
                evidence = {name: assign(name, seen, questions, session.scope.feedback)}
                child = session.propose(proposer, session.start, evidence)
                if child != session.start:
                    texts[name].append(child.text(name))
        shots: dict[str, list[Sequence[Demonstration]]] = {}
        if bootstrap is not None:
            found = bootstrap.sets(session, sets)
            shots = {name: [item.get(name, ()) for item in found] for name in names}
        return Space(texts, shots)

    return make
