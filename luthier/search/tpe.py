"""`TpeSearch`: instructions and demonstrations of all components chosen jointly by a Bayesian surrogate.

MIPRO (Opsahl-Ong et al., arXiv 2406.11695) and MIPROv2 (dspy 3.4.1) over optuna's multivariate
TPE: random validation mini-batches, and after every few trials a full validation of the configuration with the
best mean that had none yet. MIPROv2 also tells the surrogate the full scores, as trials of the same weight
(`tell_full`).
That MIPRO does not is ours (unverified).

Ours: any seed, 0 included; the seed candidate is validated before anything is proposed, so that a search which is
stopped early has a best, and counts as fully evaluated (DSPy may validate it again); the schedule ends quietly when
every configuration seen was validated, and at once when there is nothing to choose; trials are replayed from log and
store, so optuna needs no storage. The first 10 trials of the sampler are random, so a search of at most 10 trials is
close to random search (`forecast` says so). `sampler="random"` draws every choice uniformly: the same schedule
without the surrogate.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from luthier.errors import InputError
from luthier.search.candidate import Candidate, Demonstration
from luthier.search.session import Session

RANDOM_TRIALS = 10
"""Trials that optuna's TPE draws at random before it models anything (its default, stated by us)."""
Choice = tuple[int, ...]
"""One index for each variable, in the order of `Space.variables`."""


@dataclass(frozen=True)
class Space:
    """What is chosen among. Index 0 of each variable should be what the seed candidate has.

    Attributes:
        texts: Component and the instructions to choose from.
        shots: Component and the demonstration sets to choose from; empty for instructions only.
    """

    texts: Mapping[str, Sequence[str]]
    shots: Mapping[str, Sequence[Sequence[Demonstration]]]

    @property
    def variables(self) -> tuple[tuple[str, int], ...]:
        """Name and number of values of each variable, sorted by name; variables without a choice are left out."""
        sizes = {f"instruction {name}": len(items) for name, items in self.texts.items()}
        sizes |= {f"demonstrations {name}": len(items) for name, items in self.shots.items()}
        return tuple((name, size) for name, size in sorted(sizes.items()) if size > 1)

    def candidate(self, start: Candidate, choice: Choice) -> Candidate:
        """The candidate of a choice; variables without a choice take their only value."""
        index = {name: value for (name, _), value in zip(self.variables, choice, strict=True)}
        texts = {name: items[index.get(f"instruction {name}", 0)] for name, items in sorted(self.texts.items())}
        shots = {name: items[index.get(f"demonstrations {name}", 0)] for name, items in sorted(self.shots.items())}
        return Candidate.make(
            {**dict(start.texts), **texts}, {**dict(start.demonstrations), **shots}, parents=(start.digest,)
        )


class ValueSampler(Protocol):
    """Chooses among the values of some variables and learns from scores."""

    def ask(self) -> Choice:
        """The next choice; its score must be told before the next question."""
        ...

    def tell(self, score: float) -> None:
        """The score of the last choice asked."""
        ...

    def add(self, choice: Choice, score: float) -> None:
        """A score that nobody asked for (the default program, a full validation)."""
        ...


class RandomSampler:
    """Every choice uniformly at random; learns nothing. The baseline of `TpeSampler`.

    Args:
        variables: Name and number of values of each.
        seed: Any whole number.
    """

    def __init__(self, variables: Sequence[tuple[str, int]], seed: int) -> None:
        self._sizes = [size for _, size in variables]
        self._rng = random.Random(f"{seed}:random choices")

    def ask(self) -> Choice:
        """See `ValueSampler`."""
        return tuple(self._rng.randrange(size) for size in self._sizes)

    def tell(self, score: float) -> None:
        """Nothing is learned."""

    def add(self, choice: Choice, score: float) -> None:
        """Nothing is learned."""


class TpeSampler:
    """Ask and tell over categorical variables; the same seed and answers give the same questions.

    Args:
        variables: Name and number of values of each, at least one.
        seed: Any whole number from 0.

    Raises:
        InputError: no variable, or optuna is not installed.
    """

    def __init__(self, variables: Sequence[tuple[str, int]], seed: int) -> None:
        if not variables:
            raise InputError("field variables: nothing to choose", where="TPE", fix="give two values of something")
        optuna = _optuna()
        self._variables = tuple(variables)
        distributions = {n: optuna.distributions.CategoricalDistribution(tuple(range(size))) for n, size in variables}
        self._distributions, self._optuna = distributions, optuna
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=RANDOM_TRIALS)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._open: Any = None

    def ask(self) -> Choice:
        """The next choice; its score must be told before the next question."""
        self._open = self._study.ask(self._distributions)
        return tuple(self._open.params[name] for name, _ in self._variables)

    def tell(self, score: float) -> None:
        """The score of the last choice asked."""
        self._study.tell(self._open, score)

    def add(self, choice: Choice, score: float) -> None:
        """A score that nobody asked for (the default program, a full validation)."""
        params = {name: value for (name, _), value in zip(self._variables, choice, strict=True)}
        trial = self._optuna.trial.create_trial(params=params, distributions=self._distributions, value=score)
        self._study.add_trial(trial)


@dataclass(frozen=True)
class TpeSearch:
    """A search by TPE.

    Attributes:
        space: Called once at the start; may propose and bootstrap through the session.
        trials: Number of trials; see `default_trials`.
        minibatch: Validation questions of a trial.
        full_every: Trials between two full validations; there is one after the last trial as well.
        minibatch_from: With at most this many validation questions, each trial is a full validation.
        always_full: Each trial is a full validation however many questions there are.
        tell_full: Whether the surrogate is told full scores too.
        sampler: tpe: learns from the scores. random: does not.
        name: What logs call it.
    """

    space: Callable[[Session], Space]
    trials: int
    minibatch: int = 35
    full_every: int = 5
    minibatch_from: int = 50
    always_full: bool = False
    tell_full: bool = True
    sampler: Literal["tpe", "random"] = "tpe"
    name: str = "tpe"

    def settings(self) -> Mapping[str, Any]:
        """See `luthier.search.session.Search`."""
        numbers = ("trials", "minibatch", "full_every", "minibatch_from", "always_full", "tell_full", "sampler")
        return {name: getattr(self, name) for name in numbers}

    def run(self, session: Session) -> None:
        """Validate the seed, then run the schedule."""
        start = session.validate(session.start)
        space = self.space(session)
        if not space.variables:
            session.decide(session.start, "nothing to choose")
            return
        sampler = self._sampler(space, session.seed)
        origin = (0,) * len(space.variables)
        told: set[Choice] = set()
        if space.candidate(session.start, origin).digest == session.start.digest:
            sampler.add(origin, start.mean)
            told.add(origin)
        if self._full(len(session.validation)):
            for _ in range(self.trials):
                sampler.tell(session.validate(space.candidate(session.start, sampler.ask())).mean)
            return
        means: dict[Choice, list[float]] = defaultdict(list)
        for trial in range(self.trials):
            choice = sampler.ask()
            count = min(self.minibatch, len(session.validation))
            questions = session.rng(f"minibatch {trial}").sample(session.validation, count)
            score = session.evaluate(space.candidate(session.start, choice), questions, "minibatch").mean
            sampler.tell(score)
            means[choice].append(score)
            if (trial + 1) % self.full_every == 0 or trial + 1 == self.trials:
                self._validate_best(session, space, sampler, means, told)

    def _full(self, validation: int) -> bool:
        return self.always_full or validation <= self.minibatch_from

    def _sampler(self, space: Space, seed: int) -> ValueSampler:
        return TpeSampler(space.variables, seed) if self.sampler == "tpe" else RandomSampler(space.variables, seed)

    def _validate_best(
        self,
        session: Session,
        space: Space,
        sampler: ValueSampler,
        means: Mapping[Choice, Sequence[float]],
        done: set[Choice],
    ) -> None:
        """Fully validate the choice with the best mean among those that were not; the earlier one of equals."""
        ranked = [(math.fsum(scores) / len(scores), choice) for choice, scores in means.items() if choice not in done]
        if not ranked:
            return
        _, choice = max(ranked, key=lambda item: item[0])
        score = session.validate(space.candidate(session.start, choice)).mean
        done.add(choice)
        if self.tell_full:
            sampler.add(choice, score)

    def forecast(self, validation: int) -> tuple[int, str]:
        """Rollouts at most, without making the space, and a note on what to expect (dspy 3.4.1: `auto`)."""
        note = (
            "close to random search: the sampler's first 10 trials are random" if self.trials <= RANDOM_TRIALS else ""
        )
        if self._full(validation):
            return validation * (1 + self.trials), note
        full = -(-self.trials // self.full_every)
        return validation + min(self.minibatch, validation) * self.trials + full * validation, note


def default_trials(variables: int, values: int) -> int:
    """MIPROv2's number of trials: `max(2 * variables * log2(values), 1.5 * values)`, cut to a whole number."""
    return int(max(2 * variables * math.log2(values), 1.5 * values))


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise InputError(
            "optuna is not installed", where="TPE", fix="install the extra: pip install 'luthier[search]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
