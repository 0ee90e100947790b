"""`Method`: one published system. Which phases it has, and what each of them does, lives in its one file.

A method is one object. What it can do shows in what it implements: `Teaches`, `Prefers`, `Trains`, `Reinforces`,
`Searches`. Stages,
flows, lineage and report ask the object and know no method's name; `luthier.methods.METHODS` is the list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args, runtime_checkable

if TYPE_CHECKING:  # what a method reaches is what it imports itself
    from luthier.context import StageContext
    from luthier.execution import Execution
    from luthier.generator import Generator
    from luthier.harnesses.pool.configurations import Configuration
    from luthier.ledger.budget import Forecast
    from luthier.ledger.meter import Meter
    from luthier.question import Question
    from luthier.search.parts import Parts
    from luthier.search.session import Search
    from luthier.settings.base import Section
    from luthier.teaching.rows import TeacherRow, TeachLog
    from luthier.training.policy_gradient import Judge

Phase = Literal["teach", "prefer", "sft", "dpo", "reinforce", "search"]
PHASES: tuple[Phase, ...] = get_args(Phase)
TRAINING: tuple[Phase, ...] = ("sft", "dpo", "reinforce")
"""The phases that end with a checkpoint, in the order in which a method runs them."""


@dataclass(frozen=True, slots=True)
class MethodCard:
    """What the report prints beside a method's numbers.

    Attributes:
        name: Key in `luthier.methods.METHODS`. title: Its name in print. paper: Citation.
        kind: Harness kind that it writes. phases: The ones it has, in order.
        trained: What learns. frozen: What never changes. ours: Which settings no source states.
    """

    name: str
    title: str
    paper: str
    kind: str
    phases: tuple[Phase, ...]
    trained: str
    frozen: str
    ours: str

    @property
    def checkpoints(self) -> tuple[Phase, ...]:
        """Its phases that end with a checkpoint."""
        return tuple(phase for phase in self.phases if phase in TRAINING)


@runtime_checkable
class Method(Protocol):
    """What every method has.

    Attributes:
        card: What it is.
        section: Class of its section in a profile; the defaults are the paper's setting.
    """

    @property
    def card(self) -> MethodCard: ...

    @property
    def section(self) -> type[Section]: ...


@dataclass(frozen=True, slots=True)
class GridRow:
    """An execution of the grid: which configuration ran on which split."""

    split: str
    configuration: str
    execution: Execution


@dataclass(frozen=True, slots=True)
class Lessons:
    """What a teacher may look at.

    Attributes:
        questions: Training questions. pool: The configurations of the grid. grid: What they did on the questions.
    """

    questions: Sequence[Question]
    pool: Sequence[Configuration]
    grid: Sequence[GridRow]


@dataclass(frozen=True, slots=True)
class Taught:
    """Teacher rows, and how they were chosen."""

    rows: Sequence[TeacherRow]
    log: TeachLog


@dataclass(frozen=True, slots=True)
class Preferences:
    """Preference rows (prompt, chosen, rejected and what else is worth keeping), and one count for each filter."""

    rows: Sequence[Mapping[str, Any]]
    counts: Mapping[str, int] = field(default_factory=dict)


@runtime_checkable
class Teaches(Method, Protocol):
    """A method with phase *teach*."""

    def teach(self, context: StageContext, lessons: Lessons) -> Taught:
        """Rows for supervised fine-tuning. What it spends goes through the context's meters, account data."""
        ...

    def forecast_teach(self, context: StageContext, lessons: Lessons) -> Forecast:
        """What `teach` will spend; nothing is spent for it."""
        ...


@runtime_checkable
class Prefers(Method, Protocol):
    """A method with phase *prefer*."""

    def prefer(self, context: StageContext, questions: Sequence[Question]) -> Preferences:
        """Pairs for preference training, from training questions; account data pays."""
        ...

    def forecast_prefer(self, context: StageContext, questions: Sequence[Question]) -> Forecast:
        """What `prefer` will spend; nothing is spent for it."""
        ...


@runtime_checkable
class Trains(Method, Protocol):
    """A method with a checkpoint: phases sft, dpo, reinforce."""

    def prompt(self, question: str) -> str:
        """What a checkpoint continues with a harness."""
        ...

    def generator(self, name: str, meter: Meter, context: StageContext) -> Generator:
        """A trained checkpoint as generator; the meter is that of the opened checkpoint and pays as role generator."""
        ...


@runtime_checkable
class Reinforces(Trains, Protocol):
    """A method with phase *reinforce*."""

    def judge(self, context: StageContext, questions: Mapping[str, Question]) -> Judge:
        """The reward of sampled texts on these questions, by id; what they spend on the target, account train pays."""
        ...


@runtime_checkable
class Searches(Method, Protocol):
    """A method that searches from outside."""

    def search(self, settings: Any, parts: Parts) -> Search:
        """The search of these settings, an instance of `section`."""
        ...


@dataclass(frozen=True)
class SearchMethod:
    """A search: its card, its settings, and the function that builds it from settings and parts."""

    card: MethodCard
    section: type[Section]
    search: Callable[[Any, Parts], Search]
