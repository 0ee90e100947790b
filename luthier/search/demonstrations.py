"""Demonstrations: taken from successful runs and from references, and a random search over sets of them.

After DSPy 3.4.1: `LabeledFewShot` (16, `Random(0)`), `BootstrapFewShot` (4 bootstrapped, 16
labelled, 1 round), `BootstrapFewShotWithRandomSearch` (16 candidates after zero-shot, labels only and unshuffled
bootstrap). A demonstration of a successful run is a candidate for a good step, no proof of one. Ours: a threshold
of 0 is honoured; which call of a repeated component was taken follows from a seed and stands in the log, as each set
does; the sets of a random search come from the search's seed, and seed 0 draws as DSPy does.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from luthier.errors import InputError
from luthier.execution import Execution
from luthier.question import Question
from luthier.search.candidate import Demonstration
from luthier.search.credit import Steps, named_steps, readable, readable_inputs
from luthier.search.session import Session

Shots = dict[str, tuple[Demonstration, ...]]
Label = Callable[[str, Question], Demonstration | None]
"""Component and training question -> demonstration from the reference; None where the component has no label."""


def reference_label(component: str, question: Question) -> Demonstration:
    """The question and its reference: right for a component that answers the question itself."""
    return Demonstration(question.id, (("question", question.text),), question.reference, "labelled")


@dataclass(frozen=True)
class Bootstrap:
    """How demonstration sets are made.

    Attributes:
        max_bootstrapped, max_labelled: DSPy's 4 and 16; a set holds at most the larger of the two a component.
        threshold: A run with at least this score is a success (DSPy: any score that is not 0).
        label: Where labelled demonstrations come from.
        at_once: Training questions that run together (ours). 1 stops after exactly the run that fills a set, as
            DSPy does; more keep an engine busy and may run up to `at_once - 1` questions too many, which are paid.
        one_stream: One `Random(seed)` draws all shuffled sets, one after the other, as MIPROv2 does. Otherwise each
            set has a source of its own, as in `BootstrapFewShotWithRandomSearch`.
        steps: Finds a component's steps in a run.
    """

    max_bootstrapped: int = 4
    max_labelled: int = 16
    threshold: float = 1.0
    label: Label = field(default=reference_label)
    at_once: int = 1
    one_stream: bool = False
    steps: Steps = field(default=named_steps, repr=False)

    def labelled(self, session: Session, order: Sequence[Question] | None = None) -> Shots:
        """Labels only: `Random(0)` sample of each component's labels, out of the training questions in an order."""
        return self._fill({}, session, session.train if order is None else order, random.Random(0), self.max_labelled)

    def bootstrapped(self, session: Session, order: Sequence[Question], size: int) -> Shots:
        """Run the labelled teacher on questions in order until `size` succeeded; fill up with labels.

        The set stands in the log as a decision, with the call that was taken wherever a component was called again.

        Raises:
            SearchStopped, BudgetExhausted, TargetError: see `Session.evaluate`.
        """
        teacher = session.start.with_shots(self.labelled(session, order))
        found: dict[str, list[Demonstration]] = {name: [] for name in session.scope.components}
        used: list[str] = []
        choices: list[dict[str, Any]] = []
        place = 0
        while len(used) < size and place < len(order):
            questions = order[place : place + self.at_once]
            place += len(questions)
            for row in session.evaluate(teacher, questions, "bootstrap").executions:
                if len(used) < size and row.outcome == "ok" and (row.score or 0.0) >= self.threshold:
                    used.append(row.question)
                    for name, shots in found.items():
                        shots.extend(self._shot(session, name, row, choices))
        kept = {name: tuple(shots[:size]) for name, shots in found.items()}
        left = [question for question in order if question.id not in used]
        random.Random(0).shuffle(left)
        filled = self._fill(kept, session, left, random.Random(0), self.max_labelled)
        made = session.start.with_shots(filled)
        session.decide(made, "bootstrapped", questions=used, choices=choices, set=made.to_row())
        return filled

    def sets(self, session: Session, count: int) -> list[Shots]:
        """All of `each_set`."""
        return list(self.each_set(session, count))

    def each_set(self, session: Session, count: int) -> Iterator[Shots]:
        """`count` sets, each made when it is asked for.

        None, labels only, unshuffled bootstrap, then shuffled ones of `randint(1, max)` runs. Without labels
        (`max_labelled` 0) the second set is left out, in one stream it is a shuffled one instead (as in MIPROv2); with
        no bootstrapping all after it are left out.
        """
        if count > 0:
            yield {}
        if count > 1 and self.max_labelled:
            yield self.labelled(session)
        if not self.max_bootstrapped:
            return
        shuffled = itertools.islice(self._shuffled(session), max(count - self.special, 0))
        if self.one_stream and not self.max_labelled:
            yield from itertools.islice(shuffled, 1)
        if count >= self.special:
            yield self.bootstrapped(session, session.train, self.max_bootstrapped)
        yield from shuffled

    @property
    def special(self) -> int:
        """Sets that are no shuffled bootstrap: none, and where there are any, labels only and unshuffled bootstrap."""
        return 1 + bool(self.max_labelled) + bool(self.max_bootstrapped)

    def settings(self) -> Mapping[str, Any]:
        """JSON of everything that changes the sets."""
        label = getattr(self.label, "__name__", type(self.label).__name__)
        sizes = {"max_bootstrapped": self.max_bootstrapped, "max_labelled": self.max_labelled}
        return {
            **sizes,
            "threshold": self.threshold,
            "label": label,
            "at_once": self.at_once,
            "one_stream": self.one_stream,
        }

    def _shuffled(self, session: Session) -> Iterator[Shots]:
        """Shuffled sets without end. Under seed 0, order and size of set i come from `Random(i)` each, as in DSPy."""
        stream = random.Random(session.seed)
        for number in itertools.count():
            order = list(session.train)
            self._source(session, number, stream).shuffle(order)
            size = self._source(session, number, stream).randint(1, self.max_bootstrapped)
            yield self.bootstrapped(session, order, size)

    def _source(self, session: Session, number: int, stream: random.Random) -> random.Random:
        if self.one_stream:
            return stream
        return random.Random(number) if session.seed == 0 else session.rng(f"set {number}")

    def _shot(
        self, session: Session, component: str, row: Execution, choices: list[dict[str, Any]]
    ) -> list[Demonstration]:
        """One demonstration of a component's steps: of several, half the time the last, else an earlier one."""
        steps = self.steps(component, row)
        if not steps:
            return []
        taken = len(steps) - 1
        if len(steps) > 1:
            rng = session.rng(f"shot {component} {row.question} {row.harness}")
            taken = taken if rng.random() < 0.5 else rng.randrange(taken)
            choices.append({"component": component, "question": row.question, "call": taken, "of": len(steps)})
        step = steps[taken]
        inputs = readable_inputs(step.inputs)
        return [Demonstration(row.question, inputs, readable(step.output), "bootstrapped")]

    def _fill(
        self,
        kept: Mapping[str, Sequence[Demonstration]],
        session: Session,
        pool: Sequence[Question],
        rng: random.Random,
        most: int,
    ) -> Shots:
        """Add labels of `pool` to each component until it holds `most`."""
        filled: Shots = {}
        for name in session.scope.components:
            have = tuple(kept.get(name, ()))
            labels = [shot for question in pool if (shot := self.label(name, question)) is not None]
            room = min(max(most - len(have), 0), len(labels))
            filled[name] = have + tuple(rng.sample(labels, room))
        return filled


def different(found: Sequence[Shots], component: str) -> list[Sequence[Demonstration]]:
    """A component's sets without repetition, in order."""
    return list(dict.fromkeys(item.get(component, ()) for item in found))


def require_demonstrations(session: Session, search: str) -> None:
    """Refuse a search of demonstrations that may not change.

    Raises:
        InputError: the scope holds instructions only.
    """
    if not session.scope.demonstrations:
        raise InputError(
            "field demonstrations: the scope allows instructions only",
            where=search,
            fix="set demonstrations: true in the scope, for all searches of the comparison",
        )


@dataclass(frozen=True)
class RandomSets:
    """`BootstrapFewShotWithRandomSearch`: every set on the full validation, first best wins.

    Attributes:
        bootstrap: How sets are made.
        candidates: Shuffled sets; with zero-shot, labels only and unshuffled bootstrap, `candidates + 3` are tried.
        name: What logs call it.
    """

    bootstrap: Bootstrap = field(default_factory=Bootstrap)
    candidates: int = 16
    name: str = "random demonstration sets"

    def settings(self) -> Mapping[str, Any]:
        """See `luthier.search.session.Search`."""
        return {"candidates": self.candidates, "bootstrap": dict(self.bootstrap.settings())}

    def run(self, session: Session) -> None:
        """Make one set after the other and validate it at once; equal candidates are validated once."""
        require_demonstrations(session, self.name)
        seen: set[str] = set()
        for shots in self.bootstrap.each_set(session, self.candidates + self.bootstrap.special):
            candidate = session.start.with_shots(shots)
            if candidate.digest not in seen:
                seen.add(candidate.digest)
                session.validate(candidate)


def unlabelled(component: str, question: Question) -> Demonstration | None:
    """No labels: demonstrations come from successful runs alone."""
    return None
