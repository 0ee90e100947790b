"""`proposed_space`: instructions from a proposer and demonstration sets from a bootstrap, for `TpeSearch` to choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from luthier.search.batches import epoch_batch
from luthier.search.contracts import Credit, Evidence, Proposer
from luthier.search.credit import OutcomeCredit
from luthier.search.demonstrations import Bootstrap, Shots, different
from luthier.search.session import Session
from luthier.search.tpe import Space

GROUNDING_DEMONSTRATIONS = 3
"""Bootstrapped demonstrations that a proposal is shown (MIPROv2's BOOTSTRAPPED_FEWSHOT_EXAMPLES_IN_CONTEXT)."""
Grounding = Literal["runs", "demonstrations"]
"""What a proposal sees: the seed's runs on a training mini-batch, or bootstrapped demonstrations."""


def proposed_space(
    proposer: Proposer,
    instructions: int,
    *,
    bootstrap: Bootstrap | None = None,
    sets: int = 0,
    batch: int = 3,
    credit: Credit | None = None,
    grounding: Grounding = "runs",
) -> Callable[[Session], Space]:
    """A space for `TpeSearch`: the seed's instruction and up to `instructions - 1` new ones for each component.

    Demonstration sets come first, as in MIPRO, and each component keeps its different ones. A proposal that is empty,
    repeated or too long leaves its component with a smaller choice; it is counted and paid. MIPROv2 takes n // 2
    instructions when demonstrations are searched too, n otherwise, and n sets.

    Args:
        proposer: Writes instructions.
        instructions: Values of each instruction variable, the seed's own included.
        bootstrap: How demonstration sets are made; without it they stay as they are.
        sets: How many demonstration sets.
        batch: Training questions behind one proposal of "runs".
        credit: Who did what on them.
        grounding: "runs" (ours): each proposal sees the seed's evidence on another mini-batch, failures included,
            which costs `batch` rollouts a proposal. "demonstrations" (MIPRO): it sees up to 3 bootstrapped ones, which
            costs nothing; of a proposer that may not read traces, or without sets, it is "runs" all the same.
    """

    def make(session: Session) -> Space:
        names = session.scope.components
        found = bootstrap.sets(session, sets) if bootstrap is not None else []
        shown = grounding == "demonstrations" and session.scope.feedback == "trace" and bootstrap is not None
        texts = {name: [session.start.text(name)] for name in names}
        for number in range(1, instructions):
            evidence = _shown(names, found, number) if shown else _runs(session, credit, batch, number - 1)
            for name in names:
                child = session.propose(proposer, session.start, {name: evidence[name]})
                if child != session.start:
                    texts[name].append(child.text(name))
        return Space(texts, {name: different(found, name) for name in names} if found else {})

    return make


def _runs(session: Session, credit: Credit | None, batch: int, number: int) -> Mapping[str, list[Evidence]]:
    """What each component did when the seed ran on mini-batch `number`."""
    assign = (credit or OutcomeCredit()).assign
    questions = epoch_batch(session.train, batch, number, session.seed)
    seen = session.evaluate(session.start, questions, "grounding")
    return {name: assign(name, seen, questions, session.scope.feedback) for name in session.scope.components}


def _shown(names: Sequence[str], found: Sequence[Shots], number: int) -> Mapping[str, list[Evidence]]:
    """Bootstrapped demonstrations of set `number` and, where it has too few, of the sets after and before it."""
    place = number % len(found)
    order = [*found[place:], *found[:place]]
    evidence = {}
    for name in names:
        shots = [shot for item in order for shot in item.get(name, ()) if shot.source == "bootstrapped"]
        distinct = list(dict.fromkeys(shots))[:GROUNDING_DEMONSTRATIONS]
        evidence[name] = [Evidence(shot.question, shot.inputs, shot.output, 1.0) for shot in distinct]
    return evidence
