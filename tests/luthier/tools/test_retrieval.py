from __future__ import annotations

import math
from random import Random

import pytest

from luthier.errors import InputError
from luthier.tools.retrieval import K1, B, Corpus, Passage, idf, render_hits, words

# Lengths with title: 3, 3 and 6 words; the mean is 4.
CATS = Corpus(
    "cats",
    (
        Passage("b", "Cat", "cat sleeps"),
        Passage("a", "Dog", "dog barks"),
        Passage("c", "Yard", "A cat and a dog"),
    ),
)


def test_the_constants_are_the_usual_ones() -> None:
    assert (K1, B) == (1.2, 0.75)


def test_scores_worked_by_hand() -> None:
    # cat: df 2 of 3, idf = ln(1 + 1.5/2.5) = ln 1.6 = 0.470004.
    # b: tf 2, |D|/avg = 0.75 -> 1 - b + b * 0.75 = 0.8125, k1 * 0.8125 = 0.975; 2 * 2.2 / 2.975 = 1.478992
    # c: tf 1, |D|/avg = 1.5 -> 1.375, 1.65; 2.2 / 2.65 = 0.830189
    hits = CATS.search("cat", 5)
    assert [hit.passage.id for hit in hits] == ["b", "c"]
    assert hits[0].score == pytest.approx(0.470004 * 1.478992, abs=1e-5)
    assert hits[1].score == pytest.approx(0.470004 * 0.830189, abs=1e-5)


def test_the_words_of_a_query_add_up_and_a_repeated_one_counts_once() -> None:
    # sleeps: df 1 of 3, idf = ln(1 + 2.5/1.5) = 0.980829; b: tf 1, 2.2 / 1.975 = 1.113924
    (first, *_) = CATS.search("Cat! CAT sleeps?", 3)
    assert first.score == pytest.approx(0.470004 * 1.478992 + 0.980829 * 1.113924, abs=1e-5)
    assert CATS.search("sleeps cat", 3) == CATS.search("cat sleeps cat", 3)


def test_a_very_common_word_still_weighs_something() -> None:
    assert idf(3, 3) == pytest.approx(math.log(1 + 0.5 / 3.5))
    assert CATS.search("cat dog yard", 3)[-1].score > 0


def test_ties_go_to_the_smaller_id_whatever_the_order_of_the_documents() -> None:
    twins = tuple(Passage(name, "Twin", "same words here") for name in ("c", "a", "b"))
    for order in (twins, twins[::-1]):
        assert [hit.passage.id for hit in Corpus("twins", order).search("same", 2)] == ["a", "b"]


def test_nothing_shared_finds_nothing() -> None:
    assert CATS.search("zebra", 3) == CATS.search("", 3) == CATS.search("cat", 0) == CATS.search("cat", -1) == []
    assert render_hits([]) == ""


def test_passages_are_lines_of_title_and_text() -> None:
    assert render_hits(CATS.search("dog", 1)) == "Dog: dog barks"


def test_scores_equal_the_formula_over_every_document() -> None:
    rng = Random(5)
    vocabulary = [f"w{number}" for number in range(12)]
    documents = tuple(
        Passage(f"d{n:02}", "t", " ".join(rng.choices(vocabulary, k=rng.randint(1, 9)))) for n in range(40)
    )
    corpus = Corpus("random", documents)
    texts = [words(document.line) for document in documents]
    mean = sum(map(len, texts)) / 40
    for _ in range(20):
        query = rng.sample(vocabulary, 3)
        expected = {}
        for document, text in zip(documents, texts, strict=True):
            score = 0.0
            for word in query:
                df, tf = sum(word in other for other in texts), text.count(word)
                weight = math.log((40 + 1) / (df + 0.5))  # 1 + (N - df + .5) / (df + .5)
                score += weight * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * len(text) / mean))
            if score:
                expected[document.id] = score
        found = {hit.passage.id: hit.score for hit in corpus.search(" ".join(query), 99)}
        assert found == pytest.approx(expected)


def test_the_digest_follows_content_and_order_but_not_the_name() -> None:
    other = Corpus("other", CATS.passages)
    assert other.digest == CATS.digest
    assert CATS.reference == f"cats@{CATS.digest[:16]}"
    assert Corpus("cats", CATS.passages[:2]).digest != CATS.digest


@pytest.mark.parametrize(
    ("passages", "message"),
    [
        ((), "corpus 'x': field passages: empty"),
        ((Passage("a", "t", "u"), Passage("a", "v", "w")), "field id: 'a' stands twice"),
        ((Passage("a", "t", "two\nlines"),), "document 'a' is not one line"),
    ],
)
def test_a_broken_corpus_is_refused(passages: tuple[Passage, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Corpus("x", passages)
