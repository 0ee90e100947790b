import random

import pytest

from luthier.candidate import Candidate
from luthier.errors import InputError
from luthier.meter import Meter
from luthier.search import Evidence
from luthier.searches.grammar import SLOTS, GrammarProposer, Part, Slot, symptom
from luthier.searches.llm_proposer import ModelProposer, reflection, unfenced

START = Candidate.make({"prompt": "Name the capital."})


def seen(output, score=0.0, feedback="expected 'Rome', got something else"):
    return Evidence("q", (("question", "Capital of Italy?"),), output, score, feedback)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (seen("Rome", 1.0, ""), "right"),
        (seen("  "), "nothing"),
        (seen("It is Rome, I think"), "wrapped"),
        (seen("word " * 13), "too long"),
        (seen("Paris"), "wrong"),
        (seen("Paris", feedback=""), "wrong"),
    ],
)
def test_symptoms(item, expected):
    assert symptom(item) == expected


def proposals(evidence, count=400):
    proposer, rng = GrammarProposer(), random.Random(5)
    return [proposer.propose(START, "prompt", evidence, rng=rng, purpose=str(number)).text for number in range(count)]


def test_parts_that_answer_the_symptoms_are_more_likely():
    """Blind, each of the 8 parts and 0 removals weighs 1; three "nothing" raise its two cures to 13 each: 26 of 32."""
    cures = [part.text for slot in SLOTS for part in slot.parts if "nothing" in part.cures]
    blind, guided = proposals([]), proposals([seen("")] * 3)

    def share(texts):
        return sum(any(cure in text for cure in cures) for text in texts) / len(texts)

    assert abs(share(blind) - 2 / 9) < 0.1
    assert abs(share(guided) - 26 / 33) < 0.1


def test_the_own_text_stays_and_a_slot_holds_one_part():
    proposer, rng, current = GrammarProposer(), random.Random(1), START
    lengths = set()
    for number in range(200):
        draft = proposer.propose(current, "prompt", [], rng=rng, purpose=str(number))
        assert draft.text != current.text("prompt")
        current = current.with_texts({"prompt": draft.text})
        own, chosen = proposer.split(draft.text)
        assert own == "Name the capital."
        held = [part for slot in SLOTS for part in slot.parts if part.text in draft.text]
        assert held == [part for part in chosen if part is not None]
        lengths.add(len(held))
    assert lengths == {0, 1, 2, 3}


def test_equal_generators_give_equal_drafts():
    assert proposals([seen("Paris")], 20) == proposals([seen("Paris")], 20)


def test_a_grammar_with_a_part_twice_is_refused():
    with pytest.raises(InputError, match="stands twice"):
        GrammarProposer((Slot("a", (Part("x"),)), Slot("b", (Part("x"),))))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Here:\n```\nDo this.\n```\nGood luck", "Do this."),
        ("```\nfirst\n```\nand\n```text\nsecond\nline\n```", "second\nline"),
        ("  Do this.  ", "Do this."),
        ("```\nopen end", "open end"),
        ("```text", "text"),
        ("```\n\n```", ""),
        ("", ""),
    ],
)
def test_what_counts_of_an_answer(text, expected):
    assert unfenced(text) == expected


def test_the_prompt_shows_instruction_runs_and_remarks_whatever_they_hold():
    parent = Candidate.make({"prompt": "Say {runs} and {x}."})
    text = reflection(parent, "prompt", [seen("Pa{component}ris"), seen("", 0.5, ""), seen("z" * 99)], 50)
    assert "Say {runs} and {x}." in text
    assert "Run 1, score 0 of 1\n  question: Capital of Italy?\n  output: Pa{component}ris\n  remark: expected" in text
    assert "Run 2, score 0.5 of 1\n  question: Capital of Italy?\n  output: (nothing)\n\nRun 3" in text
    assert f"output: {'z' * 50} [cut]" in text


def test_each_proposal_has_its_own_purpose_and_seed(toy):
    ledger = toy.ledger()
    meter = Meter(toy.target, toy.store, ledger, role="proposer", account="search", method="m", phase="propose")
    evidence = [Evidence("q", (("question", "kind 3 number 5"),), "x", 0.0)]
    proposer = ModelProposer(meter)
    for number in (1, 2, 1):
        rng = random.Random(number)
        draft = proposer.propose(START, "prompt", evidence, rng=rng, purpose=f"propose/{number}")
        assert draft.text == "right 5"
    entries = list(ledger.entries())
    assert [entry.purpose for entry in entries] == ["propose/1", "propose/2"]
    assert ledger.spent("alone").calls == toy.target.calls == 2


def test_a_meter_of_another_role_is_refused(toy):
    meter = Meter(toy.target, toy.store, toy.ledger(), role="judge", account="search", method="m", phase="p")
    with pytest.raises(InputError, match="'judge'"):
        ModelProposer(meter)
