"""`Parts`: what a search method is built from, chosen apart from the method itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from luthier.ledger.meter import Meter
from luthier.search.binding import Binding
from luthier.search.contracts import Proposer
from luthier.search.demonstrations import Label
from luthier.search.proposers.grammar import GrammarProposer


@dataclass(frozen=True)
class Parts:
    """The parts that the settings name.

    Attributes:
        binding: Between the harness and its candidates.
        proposer: Writes instructions: the offline grammar, or a model.
        critic_meter: Pays the calls of a model that criticises (role critic); None offline.
        label: Where labelled demonstrations come from; None gives none.
    """

    binding: Binding
    proposer: Proposer = field(default_factory=GrammarProposer)
    critic_meter: Meter | None = None
    label: Label | None = None
