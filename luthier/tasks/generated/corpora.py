"""Corpora by name: what the tools of a question search.

A question names its corpus and the corpus's digest in `metadata["corpus"]`, never the documents themselves, so that
question files stay small and a changed corpus is noticed instead of searched (docs/decisions/005-task-tools.md).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from luthier.errors import InputError
from luthier.tools.retrieval import Corpus


def _twohop() -> Corpus:
    from luthier.tasks.generated.twohop_world import world

    return world().corpus


CORPORA: dict[str, Callable[[], Corpus]] = {"twohop": _twohop}
"""Name -> builder; builders are pure, each is called once in a process."""


@cache
def open_corpus(reference: str) -> Corpus:
    """The corpus that a question names.

    Args:
        reference: "name@digest" as `Corpus.reference` writes it.

    Raises:
        InputError: the name is unknown, or this version of the corpus has another digest.
    """
    name = reference.partition("@")[0]
    if name not in CORPORA:
        raise InputError(
            f"field metadata.corpus: {reference!r} is unknown", where="question", fix=f"use one of {', '.join(CORPORA)}"
        )
    corpus = CORPORA[name]()
    if corpus.reference != reference:
        raise InputError(
            f"field metadata.corpus: {reference!r} was asked for, this Luthier has {corpus.reference!r}",
            where="question",
            fix="generate the questions anew, or use the Luthier that wrote them",
        )
    return corpus
