"""Lookups: what memory alone reaches. They train nothing, so no trained generator may stand without them.

Both look for the nearest texts among the training questions: cosine of TF-IDF vectors over words and pairs of words
(Salton and Buckley 1988; as scikit-learn weighs them). `NearestRow` copies the harness of the nearest teacher rows;
`Router` takes the configuration that did best on the nearest questions of the grid, or the one that a linear classifier
names. How many neighbours vote, and which router, is chosen on validation (`luthier.evaluation.evaluate`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from luthier.errors import InputError
from luthier.generator import HarnessRequest, Proposal
from luthier.question import Question
from luthier.teaching.rows import TeacherRow

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer

NEIGHBOURS = (1, 3, 5)
"""How many neighbours may vote; validation chooses."""
LINEAR = "linear"


class Lookup(Protocol):
    """A harness text for each question's text."""

    def choose(self, texts: Sequence[str]) -> list[str]:
        """One harness text for each question, in order; the same texts give the same answers."""
        ...


@dataclass(frozen=True)
class LookupGenerator:
    """A lookup as generator: it writes at no cost, since no model is called."""

    name: str
    lookup: Lookup
    kind: str = "graph"

    def propose(self, requests: Sequence[HarnessRequest]) -> list[Proposal]:
        """What the lookup finds for each request."""
        if not requests:
            return []
        return [Proposal(text) for text in self.lookup.choose([request.text for request in requests])]


class Neighbours:
    """The nearest of some texts.

    Args:
        texts: To look among, in a fixed order.

    Raises:
        InputError: there is none.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        if not texts:
            raise InputError("a lookup over no rows", where="data/teach, data/grid", fix="run teach and grid first")
        self._vectors = _vectorizer()
        self._known = self._vectors.fit_transform(texts)

    def nearest(self, texts: Sequence[str], count: int) -> list[list[int]]:
        """Places of the `count` nearest texts, the nearest first; of equally near ones the earlier first."""
        import numpy as np

        closeness = (self._vectors.transform(texts) @ self._known.T).toarray()
        # Rounded, so that the order of additions in a sum decides nothing.
        return [[int(place) for place in np.argsort(-row, kind="stable")[:count]] for row in closeness.round(9)]


class NearestRow:
    """Copies a teacher row: the harness that most of the nearest rows hold, of equally frequent ones the nearest.

    Args:
        neighbours: Among the texts of the rows' questions.
        rows: Teacher rows, in the same order.
        count: How many neighbours vote.
    """

    def __init__(self, neighbours: Neighbours, rows: Sequence[TeacherRow], count: int) -> None:
        self._neighbours, self._rows, self._count = neighbours, rows, count

    def choose(self, texts: Sequence[str]) -> list[str]:
        """See `Lookup`."""
        return [
            Counter(self._rows[place].completion for place in places).most_common(1)[0][0]
            for places in self._neighbours.nearest(texts, self._count)
        ]


@dataclass(frozen=True, slots=True)
class Tried:
    """What the configurations of the grid did on one training question.

    Attributes:
        text: Of the question. scores: By configuration; those that the machine failed are left out.
        tokens: Of the target, by configuration.
    """

    text: str
    scores: Mapping[str, float]
    tokens: Mapping[str, int]


def tried_questions(questions: Mapping[str, Question], rows: Sequence[Mapping[str, Any]]) -> list[Tried]:
    """The grid's training rows by question, in the order of the questions.

    Args:
        questions: Training questions by id.
        rows: `data/grid/executions.jsonl`.
    """
    scores: dict[str, dict[str, float]] = defaultdict(dict)
    tokens: dict[str, dict[str, int]] = defaultdict(dict)
    for row in rows:
        if row["split"] == "train" and row["score"] is not None:
            scores[row["question"]][row["configuration"]] = row["score"]
            usage = row["usage"]
            tokens[row["question"]][row["configuration"]] = usage["prompt_tokens"] + usage["completion_tokens"]
    return [Tried(item.text, scores[key], tokens[key]) for key, item in questions.items() if key in scores]


class Router:
    """Takes, for each question, the configuration with the best mean score on the nearest questions of the grid.

    Ties go to fewer tokens on these questions, then to the name.

    Args:
        neighbours: Among the texts of the questions tried.
        tried: Training questions with what the configurations did, in the same order.
        harnesses: Text of each configuration's harness.
        count: How many neighbours count.
    """

    def __init__(
        self, neighbours: Neighbours, tried: Sequence[Tried], harnesses: Mapping[str, str], count: int
    ) -> None:
        self._neighbours = neighbours
        self._tried, self._harnesses, self._count = tried, harnesses, count

    def choose(self, texts: Sequence[str]) -> list[str]:
        """See `Lookup`."""
        return [
            self._harnesses[best_configuration([self._tried[place] for place in places], self._harnesses)]
            for places in self._neighbours.nearest(texts, self._count)
        ]


class LinearRouter:
    """A linear classifier from a question's text to a configuration (scikit-learn's logistic regression, its defaults).

    The label of a training question is the best configuration on it; questions that none solved teach nothing.

    Args:
        tried, harnesses: As of `Router`.
    """

    def __init__(self, tried: Sequence[Tried], harnesses: Mapping[str, str]) -> None:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        self._harnesses = harnesses
        solved = [item for item in tried if max(item.scores.values(), default=0.0) > 0]
        labels = [best_configuration([item], harnesses) for item in solved] or [min(harnesses)]
        self._only = labels[0] if len({*labels}) == 1 else ""  # one label is nothing to learn
        if not self._only:
            self._model = make_pipeline(_vectorizer(), LogisticRegression(max_iter=1000))
            self._model.fit([item.text for item in solved], labels)

    def choose(self, texts: Sequence[str]) -> list[str]:
        """See `Lookup`."""
        names = [self._only] * len(texts) if self._only else [str(name) for name in self._model.predict(list(texts))]
        return [self._harnesses[name] for name in names]


def best_configuration(tried: Sequence[Tried], names: Mapping[str, object]) -> str:
    """The configuration with the best mean score; ties go to fewer tokens, then to the name."""

    def rank(name: str) -> tuple[float, float, str]:
        scores = [item.scores[name] for item in tried if name in item.scores]
        tokens = [item.tokens[name] for item in tried if name in item.tokens]
        return (-sum(scores) / len(scores) if scores else 0.0, sum(tokens) / max(1, len(tokens)), name)

    return min(names, key=rank)


def nearest_rows(questions: Mapping[str, Question], rows: Sequence[TeacherRow]) -> dict[str, Lookup]:
    """The nearest teacher row with each number of neighbours, by setting ("k=3").

    Raises:
        InputError: there is no teacher row.
    """
    neighbours = Neighbours([questions[row.question].text for row in rows])
    return {f"k={count}": NearestRow(neighbours, rows, count) for count in NEIGHBOURS}


def routers(tried: Sequence[Tried], harnesses: Mapping[str, str]) -> dict[str, Lookup]:
    """The routers, by setting ("k=3", "linear").

    Raises:
        InputError: the grid has no training row.
    """
    neighbours = Neighbours([item.text for item in tried])
    found: dict[str, Lookup] = {f"k={count}": Router(neighbours, tried, harnesses, count) for count in NEIGHBOURS}
    return found | {LINEAR: LinearRouter(tried, harnesses)}


def best_setting(
    name: str, settings: Mapping[str, Lookup], score: Callable[[LookupGenerator], float]
) -> tuple[LookupGenerator, dict[str, Any]]:
    """The lookup with the setting of the best score; of equally good ones the first.

    Args:
        name: What reports call it.
        settings: Lookups by setting.
        score: Mean score of a generator on validation questions.

    Returns:
        The generator, and what the choice was made from: `setting`, its `validation` score, and all `tried`.
    """
    tried = {setting: score(LookupGenerator(name, lookup)) for setting, lookup in settings.items()}
    best = max(tried, key=lambda setting: tried[setting])
    return LookupGenerator(name, settings[best]), {"setting": best, "validation": tried[best], "tried": tried}


def _vectorizer() -> TfidfVectorizer:
    """Of words and pairs of words; a word is what stands between spaces, so that signs count."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\S+")
