import random

import pytest

from luthier.errors import InputError
from luthier.ledger.meter import Meter
from luthier.search.candidate import Candidate
from luthier.search.contracts import Evidence
from luthier.search.proposers.grammar import SLOTS, GrammarProposer, Part, Slot, symptom
from luthier.search.proposers.llm_proposer import ModelProposer, reflection, unfenced

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


def pair(component, item):
    return "" if item.output == "?" else f"{component} {item.inputs[0][1]} is {item.output}"


def test_sentences_stand_before_the_cases_of_an_instruction():
    proposer, rng = GrammarProposer(), random.Random(3)
    start = current = Candidate.make({"prompt": "Name the capital.\n\nFrance: Paris\n\nSpain: Madrid"})
    for number in range(60):
        current = current.with_texts({"prompt": proposer.propose(current, "prompt", [], rng=rng, purpose="").text})
        first, *rest = current.text("prompt").split("\n\n")
        assert first.startswith("Name the capital."), number
        assert rest == ["France: Paris", "Spain: Madrid"]
        assert proposer.split(current.text("prompt"))[0] == start.text("prompt")


def test_calls_that_went_well_become_cases():
    """One failure: 4 sentences cure "wrong" and weigh 5, 5 more and the two cases 1 and 5: 10 of 35 add a case."""
    proposer, rng = GrammarProposer(case=pair), random.Random(5)
    evidence = [seen("Rome", 1.0, ""), seen("Roma", 1.0, ""), seen("Paris"), seen("Rome", 1.0, ""), seen("?", 1.0, "")]
    texts = [proposer.propose(START, "prompt", evidence, rng=rng, purpose="").text for _ in range(600)]
    cases = [text for text in texts if "\n\n" in text]
    assert set(cases) == {f"Name the capital.\n\nprompt Capital of Italy? is {word}" for word in ("Rome", "Roma")}
    assert abs(len(cases) / 600 - 10 / 35) < 0.06
    assert "\n\n" not in "".join(proposals(evidence))


def test_a_case_is_added_once_and_only_where_it_fits():
    case = "prompt Capital of Italy? is Rome"
    evidence, rng = [seen("Rome", 1.0, ""), seen("Paris")], random.Random(5)
    whole = len(START.text("prompt")) + 2 + len(case)

    def cases(start, most):
        proposer = GrammarProposer(case=pair, max_characters=most)
        texts = [proposer.propose(start, "prompt", evidence, rng=rng, purpose="").text for _ in range(99)]
        return max(text.count(case) for text in texts)

    held = START.with_texts({"prompt": f"Name the capital.\n\n{case}"})
    assert [cases(START, whole), cases(START, whole - 1), cases(held, 2000)] == [1, 0, 1]


@pytest.mark.parametrize("output", ["Rome\n\n\nof  old ", "Rome  and  more", "Rome\t\nand more"])
def test_a_case_of_any_text_is_found_again(output):
    proposer, rng, current = GrammarProposer(case=pair), random.Random(5), START
    for _ in range(60):
        draft = proposer.propose(current, "prompt", [seen(output, 1.0, ""), seen("Paris")], rng=rng, purpose="")
        current = current.with_texts({"prompt": draft.text})
    assert current.text("prompt").count("Rome") == 1
    assert "Rome" not in current.text("prompt").split("\n\n")[0]


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
