"""Joint proposals: how answers are read, and that other proposers make one proposal together."""

from __future__ import annotations

import random

import pytest

from luthier.methods.optoprime.joint import EachOf, read_texts
from luthier.search.candidate import Candidate
from luthier.search.contracts import Evidence, TextDraft

NAMES = ("find", "say")
PARENT = Candidate.make({"find": "Find.", "say": "Say."})
ITEM = Evidence("q", (), "o", 0.0)


@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        ('{"find": "Seek."}', {"find": "Seek."}),
        ('Sure:\n```json\n{"say": "Tell.", "find": "Seek."}\n```\nGood luck {you}!', {"find": "Seek.", "say": "Tell."}),
        ('{"reason": "r", "suggestion": {"say": "Tell."}}', {"say": "Tell."}),
        ('first {"find": "Old."} then {"find": "New."}', {"find": "New."}),
        ('{broken {"find": "Seek\nwell {x}."}', {"find": "Seek\nwell {x}."}),
        ('{"find": "Seek.", "other": "x", "say": 7}', {"find": "Seek."}),
        ("{}", {}),
    ],
)
def test_texts_are_read_wherever_they_stand(answer: str, texts: dict[str, str]) -> None:
    draft = read_texts(answer, NAMES)
    assert (draft.texts, draft.unread, draft.problem) == (texts, "", "")


@pytest.mark.parametrize(
    "answer", ["", "nothing", '["find"]', '{"find": 3}', '{"find": "Se', '{"other": "x"}', "{" * 3000]
)
def test_what_cannot_be_read_is_said(answer: str) -> None:
    draft = read_texts(answer, NAMES)
    assert draft.texts == {}
    assert draft.unread.startswith("no JSON object with a text for one of find, say")
    assert len(draft.unread) < 300


class Writer:
    """Writes the component's name and purpose; fails on demand."""

    name = "writer"

    def __init__(self, fails: str = "") -> None:
        self.fails = fails

    def propose(self, parent, component, evidence, *, rng, purpose):
        return (
            TextDraft("", "broken") if component == self.fails else TextDraft(f"{component} {purpose} {len(evidence)}")
        )


def joint(writer: Writer, evidence):
    return EachOf(writer).propose_all(PARENT, NAMES, evidence, "", rng=random.Random(0), purpose="p")


def test_only_blamed_components_are_asked_for() -> None:
    assert joint(Writer(), {"say": [ITEM, ITEM]}).texts == {"say": "say p/say 2"}
    assert joint(Writer(), {"say": [ITEM], "find": [ITEM]}).texts == {"find": "find p/find 1", "say": "say p/say 1"}
    assert joint(Writer(), {}).texts == {}


def test_one_failure_fails_the_proposal() -> None:
    draft = joint(Writer("say"), {"say": [ITEM], "find": [ITEM]})
    assert (draft.texts, draft.problem) == ({}, "broken")
