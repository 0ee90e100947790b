"""What a flow's parameters can be: menus in Prefect's form, and other values are refused before a run is scheduled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, get_args

from pydantic import Field

from luthier.methods import card, learned

METHODS = learned()
"""The methods that learn."""

Phase = Literal["all", "sft", "dpo", "reinforce", "evaluate"]
"""A stage of one method, or all of them."""

PHASES: tuple[Phase, ...] = get_args(Phase)
ALL: Phase = "all"


def stages_of(method: str) -> tuple[str, ...]:
    """The stages that train and evaluate a method, in order."""
    return (*card(method).checkpoints, "evaluate")


if TYPE_CHECKING:
    Method = str
else:
    # A menu of one entry, too, which Pydantic describes as a constant.
    Method = Annotated[Literal[METHODS], Field(json_schema_extra={"enum": [*METHODS]})]
