"""BM25 over a small list of documents, in pure Python: the retriever behind the tool `retrieve`.

Okapi BM25 after Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (Foundations
and Trends in Information Retrieval 3(4), 2009). A document D of |D| words scores for a query Q::

    sum over the distinct words w of Q:  idf(w) * tf(w, D) * (k1 + 1) / (tf(w, D) + k1 * (1 - b + b * |D| / avg))
    idf(w) = ln(1 + (N - df(w) + 0.5) / (df(w) + 0.5))

with the usual k1 = 1.2 and b = 0.75. The 1 inside the logarithm keeps the weight of very common words above zero
(the original would go below). Ours: a word that the query repeats counts once, words are cut at everything but
letters, digits and underscores, case is folded, nothing is stemmed and no stop word is dropped.

Scores do not depend on the order of the query's words, and ties go to the smaller id, so that equal arguments give
equal passages on every machine.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from luthier.errors import InputError
from luthier.files import digest_text

K1 = 1.2
B = 0.75
RETRIEVAL_VERSION = 1
"""Raise it when equal corpora and queries give other passages; it is part of every corpus digest."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One document.

    Attributes:
        id: Unique in its corpus; decides ties. title: What it is about. text: Its sentences.
    """

    id: str
    title: str
    text: str

    @property
    def line(self) -> str:
        """What a harness sees of it, one line: "title: text"."""
        return f"{self.title}: {self.text}"


@dataclass(frozen=True, slots=True)
class Hit:
    """A found document and its score, above 0."""

    passage: Passage
    score: float


@dataclass(frozen=True, eq=False)
class Corpus:
    """A frozen list of documents with its index. Equal digests retrieve alike.

    Attributes:
        name: What questions call it.
        passages: The documents; title and text are both searched.

    Raises:
        InputError: no document, a repeated id, or a line break inside a document.
    """

    name: str
    passages: tuple[Passage, ...]

    def __post_init__(self) -> None:
        if not self.passages:
            raise InputError(
                "field passages: empty", where=f"corpus {self.name!r}", fix="give it at least one document"
            )
        repeated = sorted(name for name, times in Counter(p.id for p in self.passages).items() if times > 1)
        if repeated:
            problem = f"field id: {repeated[0]!r} stands twice"
            raise InputError(problem, where=f"corpus {self.name!r}", fix="give each document an id of its own")
        for passage in self.passages:
            if len(passage.line.splitlines()) != 1:
                problem = f"document {passage.id!r} is not one line"
                raise InputError(problem, where=f"corpus {self.name!r}", fix="replace its line breaks by spaces")

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the documents and of how they are searched, 64 hex digits."""
        rows = [[passage.id, passage.title, passage.text] for passage in self.passages]
        return digest_text(json.dumps([RETRIEVAL_VERSION, K1, B, rows], ensure_ascii=False))

    @property
    def reference(self) -> str:
        """What a question's `metadata["corpus"]` says: name and the first 16 digits of the digest."""
        return f"{self.name}@{self.digest[:16]}"

    def search(self, query: str, count: int) -> list[Hit]:
        """The best documents, best first; fewer than `count` when fewer share a word with the query.

        Args:
            query: Any text.
            count: Most documents to return.
        """
        scores: dict[int, float] = {}
        for word in sorted(set(words(query))):
            postings = self._postings.get(word, ())
            weight = idf(len(self.passages), len(postings))
            for place, times in postings:
                scores[place] = scores.get(place, 0.0) + weight * self._saturation(place, times)
        best = sorted(scores, key=lambda place: (-scores[place], self.passages[place].id))
        return [Hit(self.passages[place], scores[place]) for place in best[: max(count, 0)]]

    def _saturation(self, place: int, times: int) -> float:
        length, mean = self._lengths[place], self._mean_length
        return times * (K1 + 1) / (times + K1 * (1 - B + B * length / mean))

    @cached_property
    def _counts(self) -> tuple[Counter[str], ...]:
        return tuple(Counter(words(passage.line)) for passage in self.passages)

    @cached_property
    def _lengths(self) -> tuple[int, ...]:
        return tuple(counts.total() for counts in self._counts)

    @cached_property
    def _mean_length(self) -> float:
        return sum(self._lengths) / len(self._lengths)

    @cached_property
    def _postings(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """Word -> (place of the document, occurrences), places ascending."""
        index: dict[str, list[tuple[int, int]]] = {}
        for place, counts in enumerate(self._counts):
            for word, times in counts.items():
                index.setdefault(word, []).append((place, times))
        return {word: tuple(places) for word, places in index.items()}


def words(text: str) -> list[str]:
    """The words of a text in order, case folded."""
    return re.findall(r"\w+", text.casefold())


def idf(documents: int, containing: int) -> float:
    """Weight of a word that `containing` of `documents` documents hold; above 0."""
    return math.log(1 + (documents - containing + 0.5) / (containing + 0.5))


def render_hits(hits: Sequence[Hit]) -> str:
    """Passages as text, one a line; "" when there are none."""
    return "\n".join(hit.passage.line for hit in hits)
