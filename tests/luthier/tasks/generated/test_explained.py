from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from random import Random

import pytest

from luthier.errors import InputError
from luthier.files import digest_text
from luthier.question import SPLITS, Question
from luthier.task import validate
from luthier.tasks import open_task
from luthier.tasks.generated.explained import KINDS, QUEUES, Explained, queue_of, read_answer
from luthier.tasks.generated.tickets import TOPICS, draw_ticket, topics_in


@pytest.fixture(scope="module")
def rows() -> list[Question]:
    """Two hundred questions of each family."""
    return Explained().questions("train", 200 * len(KINDS), seed=3)


def sentences(question: Question) -> list[str]:
    return re.split(r"(?<=\.)\s+", question.text.split("Ticket: ")[1])


def shares(rows: list[Question], family: str, rule: str) -> float:
    """Share of a family that a rule gets right: "first" trouble named, or "complaint" without the wish."""
    right = []
    for question in (q for q in rows if q.family == family):
        named = [topics_in(sentence) for sentence in sentences(question)]
        first = next(topics[0] for topics in named if topics)
        topic = first if rule == "first" else question.metadata["_facts"]["topic"]
        right.append(queue_of(topic, False) == question.reference)
    return sum(right) / len(right)


def test_every_reference_scores_one_and_an_empty_answer_zero(rows: list[Question]) -> None:
    assert validate(Explained(), rows) == []


def test_the_rule_written_out() -> None:
    table = {(topic, refund): queue_of(topic, refund) for topic in TOPICS for refund in (False, True)}
    assert table == {
        ("delivery", False): "amber",
        ("delivery", True): "birch",
        ("billing", False): "birch",
        ("billing", True): "amber",
        ("defect", False): "coral",
        ("defect", True): "dune",
        ("account", False): "dune",
        ("account", True): "coral",
    }


def test_queues_are_balanced_in_each_family(rows: list[Question]) -> None:
    for family in KINDS:
        counts = Counter(q.reference for q in rows if q.family == family)
        assert counts == dict.fromkeys(QUEUES, 50)  # majority and chance: 25 %


@pytest.mark.parametrize(
    ("family", "rule", "low", "high"),
    [
        ("plain", "first", 1.0, 1.0),
        ("denied", "first", 0.42, 0.58),
        ("others", "first", 0.42, 0.58),
        ("refund", "first", 0.42, 0.58),
        ("full", "first", 0.25, 0.41),
        ("plain", "complaint", 1.0, 1.0),
        ("denied", "complaint", 1.0, 1.0),
        ("others", "complaint", 1.0, 1.0),
        ("refund", "complaint", 0.42, 0.58),
        ("full", "complaint", 0.42, 0.58),
    ],
)
def test_rules_that_see_one_clue_reach_what_is_documented(
    rows: list[Question], family: str, rule: str, low: float, high: float
) -> None:
    assert low <= shares(rows, family, rule) <= high


def test_no_question_states_the_rule(rows: list[Question]) -> None:
    for question in rows:
        ticket = " ".join(sentences(question))
        assert not any(queue in ticket.lower() for queue in QUEUES)
        assert not any(topic in question.text.split("Ticket: ")[0] for topic in TOPICS)


def test_tickets_hold_what_their_family_says() -> None:
    rng = Random(0)
    for family in KINDS:
        tickets = [draw_ticket(rng, family) for _ in range(300)]
        assert {bool(t.beside) for t in tickets} == {family in ("denied", "others", "full")}
        denied = {"denied": {True}, "full": {True, False}}
        assert {t.denied for t in tickets} == denied.get(family, {False})
        assert {t.refund for t in tickets} == ({True, False} if family in ("refund", "full") else {False})
        assert all(t.beside != t.topic for t in tickets)
        assert all(topics_in(t.complaint) == (t.topic,) for t in tickets)
    assert any("not want my money back" in t.text and not t.refund for t in tickets)
    assert any("only my money" in t.text and t.refund for t in tickets)


def test_no_complaint_stands_in_two_splits_for_any_seed() -> None:
    sides: dict[str, set[str]] = {}
    items = r"the (\w+) |The (\w+) "
    for split in SPLITS:
        for seed in range(3):
            for question in Explained().questions(split, 300, seed):
                for sentence in sentences(question):
                    topics = topics_in(sentence)
                    if question.metadata["_facts"]["topic"] in topics and re.search(items, sentence):
                        sides.setdefault(sentence, set()).add(split)
    assert len(sides) > 300
    assert all(len(side) == 1 for side in sides.values())


def test_questions_are_distinct_and_a_prefix_does_not_depend_on_the_count() -> None:
    many = Explained().questions("test", 200, 1)
    assert len({q.id for q in many}) == len({q.text for q in many}) == 200
    assert Explained().questions("test", 35, 1) == many[:35]
    assert Explained().questions("test", 35, 2) != many[:35]


def test_a_queue_is_not_told_by_its_place_in_the_file() -> None:
    firsts = {tuple(q.reference for q in Explained(["plain"]).questions("train", 4, seed)) for seed in range(12)}
    assert len(firsts) > 5


@pytest.mark.parametrize(
    ("text", "queue", "explanation"),
    [
        ("amber", "amber", ""),
        (" Amber. ", "amber", ""),
        ("The answer is amber", "amber", ""),
        ("amber\nThe parcel is lost.", "amber", "The parcel is lost."),
        ("Explanation: the parcel is lost\nQueue: amber", "amber", "the parcel is lost"),
        ("**Label**: Amber\nReason: lost: the parcel", "amber", "lost: the parcel"),
        ("Queue: birch\nQueue: amber", "amber", ""),
        ("Reason: the parcel is lost", "", "the parcel is lost"),
        ("amber or birch", "amber or birch", ""),
        ("Queue: amber, maybe birch", "amber, maybe birch", ""),
        ("", "", ""),
    ],
)
def test_answers_are_taken_apart(text: str, queue: str, explanation: str) -> None:
    reading = read_answer(text)
    assert (reading.queue, reading.explanation) == (queue, explanation)


def ask() -> Question:
    facts = {"topic": "delivery", "refund": False, "beside": "billing", "denied": True}
    return Question.make(task="explained", text="?", reference="amber", split="train", metadata={"_facts": facts})


@pytest.mark.parametrize(
    ("answer", "value", "feedback"),
    [
        ("amber", 1.0, "Correct. No explanation was given."),
        ("amber\nThe parcel is lost.", 1.0, "Correct. The explanation rightly speaks of the delivery."),
        (
            "Explanation: the invoice\nQueue: amber",
            1.0,
            "Correct. The explanation speaks of the bill, the complaint is about the delivery.",
        ),
        (
            "birch\nBecause I say so.",
            0.0,
            "Expected 'amber', but the answer was 'birch'. In this ticket the customer complains about the delivery, "
            "the trouble with the bill is denied, and no money is asked back. The explanation does not say what the "
            "complaint is about.",
        ),
        ("amber or birch", 0.0, "Answer with the name of one queue, alone or on a line `Queue:`."),
        ("", 0.0, "No queue was given; expected 'amber'."),
    ],
)
def test_the_label_scores_and_the_explanation_is_fed_back(answer: str, value: float, feedback: str) -> None:
    score = Explained().score(ask(), answer)
    assert score.value == value
    assert feedback in score.feedback


def test_a_question_without_facts_is_scored_all_the_same() -> None:
    question = Question.make(task="explained", text="?", reference="amber", split="train")
    assert Explained().score(question, "amber").feedback == "Correct."
    assert Explained().score(question, "dune").feedback == "Expected 'amber', but the answer was 'dune'."


def test_feedback_never_states_the_rule(rows: list[Question]) -> None:
    for question in rows[::11]:
        feedback = Explained().score(question, "Queue: none").feedback
        named = [queue for queue in QUEUES if queue in feedback]
        assert named == [question.reference]


def test_rows_survive_json_and_do_not_depend_on_the_hash_seed() -> None:
    program = (
        "from luthier.tasks.generated.explained import Explained; from luthier.files import digest_text;"
        "print(digest_text(repr(Explained().questions('validation', 90, 2))))"
    )
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    elsewhere = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    here = Explained().questions("validation", 90, 2)
    assert elsewhere.stdout.strip() == digest_text(repr(here))
    assert [json.loads(json.dumps(q.to_row())) for q in here] == [q.to_row() for q in here]


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(InputError, match="field split: 'dev' is unknown"):
        Explained().questions("dev", 1, 0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="field count: -1 is negative"):
        Explained().questions("test", -1, 0)
    with pytest.raises(InputError, match="field families: 'easy' is unknown"):
        open_task("explained", "easy")
    with pytest.raises(InputError, match="family 'plain' gives no new ticket of split 'test'"):
        open_task("explained", "plain").questions("test", 2000, 0)
