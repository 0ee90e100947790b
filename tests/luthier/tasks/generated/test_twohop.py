from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import luthier
from luthier.errors import InputError
from luthier.files import digest_text
from luthier.question import SPLITS, Question
from luthier.task import validate
from luthier.tasks import open_task
from luthier.tasks.generated.corpora import open_corpus
from luthier.tasks.generated.twohop import PATHS, TwoHop, all_cases, make_case
from luthier.tasks.generated.twohop_world import Fact, World, world
from luthier.tasks.generated.words import WORDS
from luthier.tools.retrieval import Corpus, Passage, words

SIZES = {"train": 595, "validation": 209, "test": 218}


@pytest.fixture(scope="module")
def rows() -> list[Question]:
    """Every question of every split."""
    return [question for split in SPLITS for question in TwoHop().questions(split, SIZES[split], seed=0)]


def padded(text: str) -> str:
    return f" {' '.join(words(text))} "


def toy(*documents: tuple[str, str, list[tuple[str, str, str]]]) -> World:
    """A world of one document for each (title, text, facts)."""
    passages = tuple(Passage(f"d{n}", title, text) for n, (title, text, _) in enumerate(documents))
    facts = tuple(Fact(*fact, f"d{n}") for n, (_, _, stated) in enumerate(documents) for fact in stated)
    return World({}, facts, Corpus("toy", passages))


def test_every_reference_scores_one_and_an_empty_answer_zero(rows: list[Question]) -> None:
    assert len(rows) == sum(SIZES.values()) == len(all_cases())
    assert validate(TwoHop(), rows) == []


def test_the_corpus_has_the_promised_size_and_short_documents() -> None:
    passages = world().corpus.passages
    assert 200 <= len(passages) <= 400
    assert all(1 <= p.text.count(".") <= 2 and len(p.text) < 130 for p in passages)
    assert sum(p.id.startswith("note") for p in passages) == 40


def test_every_fact_stands_in_its_document_and_in_no_other() -> None:
    texts = {p.id: padded(p.line) for p in world().corpus.passages}
    for fact in world().facts:
        both = [i for i, text in texts.items() if padded(fact.subject) in text and padded(fact.object) in text]
        assert fact.document in both
    stated = Counter((fact.subject, fact.relation) for fact in world().facts)
    assert set(stated.values()) == {1}


def test_every_answer_is_the_only_one_by_exhaustive_search(rows: list[Question]) -> None:
    triples = {(f.subject, f.relation, f.object) for f in world().facts}
    names = sorted({name for s, _, o in triples for name in (s, o)})
    for question in rows[::7]:
        (entity,) = [name for name in names if padded(name) in padded(question.text)]
        first, second = PATHS[question.family].hops

        def linked(a: str, hop: str, b: str) -> bool:
            return (b, hop[1:], a) in triples if hop.startswith("~") else (a, hop, b) in triples

        bridges = [name for name in names if linked(entity, first, name)]
        answers = [name for bridge in bridges for name in names if linked(bridge, second, name)]
        assert answers == [question.reference]


def test_no_document_and_no_question_holds_entity_and_answer(rows: list[Question]) -> None:
    texts = [padded(p.line) for p in world().corpus.passages]
    cases = {(case.family, case.answer, case.documents): case for case in all_cases()}
    for question in rows:
        gold = tuple(question.metadata["_gold"]["documents"])
        entity = cases[question.family, question.reference, gold].entity
        assert padded(entity) in padded(question.text)
        assert padded(question.reference) not in padded(question.text)
        assert not any(padded(entity) in text and padded(question.reference) in text for text in texts)


def test_the_gold_documents_hold_the_two_hops(rows: list[Question]) -> None:
    texts = {p.id: padded(p.line) for p in world().corpus.passages}
    for question in rows:
        gold = question.metadata["_gold"]
        first, second = (texts[document] for document in gold["documents"])
        assert padded(gold["bridge"]) in first
        assert padded(gold["bridge"]) in second
        assert padded(question.reference) in second


def test_the_second_query_decides(rows: list[Question]) -> None:
    corpus = world().corpus
    for split in SPLITS:
        found: Counter[str] = Counter()
        mine = [question for question in rows if question.split == split]
        for question in mine:
            gold = question.metadata["_gold"]
            once = {hit.passage.id for hit in corpus.search(question.text, 3)}
            then = {hit.passage.id for hit in corpus.search(gold["bridge"], 3)}
            found["both"] += once >= set(gold["documents"])
            found["first"] += gold["documents"][0] in once
            found["second"] += gold["documents"][1] in then
        assert found["both"] == 0
        assert found["first"] > 0.9 * len(mine)
        assert found["second"] >= 0.97 * len(mine)


def test_constant_answers_are_rarely_right(rows: list[Question]) -> None:
    for split in SPLITS:
        mine = [question for question in rows if question.split == split]
        assert Counter(q.reference for q in mine).most_common(1)[0][1] <= 0.05 * len(mine)
        for family in PATHS:
            answers = Counter(q.reference for q in mine if q.family == family)
            assert answers.total() < 20 or answers.most_common(1)[0][1] <= 0.25 * answers.total()


def test_no_entity_is_asked_about_in_two_splits_for_any_seed() -> None:
    entities = {padded(case.entity) for case in all_cases()}
    sides: dict[str, set[str]] = {}
    for split in SPLITS:
        for seed in range(2):
            texts = [padded(question.text) for question in TwoHop().questions(split, SIZES[split], seed)]
            for entity in entities:
                if any(entity in text for text in texts):
                    sides.setdefault(entity, set()).add(split)
    assert set(sides) == entities
    assert all(len(side) == 1 for side in sides.values())


def test_questions_are_distinct_and_a_prefix_does_not_depend_on_the_count() -> None:
    many = TwoHop().questions("train", 120, 4)
    assert len({q.id for q in many}) == len({q.text for q in many}) == 120
    assert TwoHop().questions("train", 33, 4) == many[:33]
    assert TwoHop().questions("train", 120, 5) != many


def test_families_take_turns_while_they_last(rows: list[Question]) -> None:
    assert [q.family for q in TwoHop().questions("test", 10, 0)] == list(PATHS)
    assert {q.family for q in rows if q.split == "test"} == set(PATHS)


def test_wordings_change_with_the_seed_but_not_the_subjects() -> None:
    one, other = (TwoHop(["town_craft"]).questions("train", 35, seed) for seed in (0, 1))
    assert {q.text for q in one} != {q.text for q in other}
    towns = [{town for town in world().entities["town"] for q in rows if town in q.text} for rows in (one, other)]
    assert towns[0] == towns[1]
    assert len(towns[0]) == 35


def test_names_are_invented_and_name_one_thing() -> None:
    names = [name for kind in ("person", "town", "region") for name in world().entities[kind]]
    assert len(set(names)) == len(names)
    parts = {word for name in names for word in words(name)}
    assert not parts & set(WORDS)
    surnames = Counter(name.split()[1] for name in world().entities["person"])
    assert set(surnames.values()) == {2}  # distractors: everybody has a namesake


def test_a_question_that_one_document_answers_is_dropped() -> None:
    person = ("Ann Ode", "Ann Ode was born in Bru.", [("Ann Ode", "born_in", "Bru")])
    town = ("Bru", "Bru lies in Cax.", [("Bru", "lies_in", "Cax")])
    case = make_case(toy(person, town), "birth_region", "Ann Ode")
    assert case is not None
    assert (case.answer, case.bridge, case.documents) == ("Cax", "Bru", ("d0", "d1"))
    gossip = ("Gossip", "In CAX they speak of Ann Ode.", [])
    assert make_case(toy(person, town, gossip), "birth_region", "Ann Ode") is None
    harmless = ("Gossip", "In Caxton they speak of Ann Ode.", [])
    assert make_case(toy(person, town, harmless), "birth_region", "Ann Ode") is not None


def test_a_question_with_two_answers_or_none_is_dropped() -> None:
    teacher = ("Ann Ode", "A work of hers is The Key.", [("The Key", "author", "Ann Ode")])
    one = ("Bo Ray", "Bo Ray learned from Ann Ode.", [("Bo Ray", "studied_under", "Ann Ode")])
    two = ("Cy Fen", "Cy Fen learned from Ann Ode.", [("Cy Fen", "studied_under", "Ann Ode")])
    case = make_case(toy(teacher, one), "author_pupil", "The Key")
    assert case is not None
    assert case.answer == "Bo Ray"
    assert make_case(toy(teacher, one, two), "author_pupil", "The Key") is None
    assert make_case(toy(teacher), "author_pupil", "The Key") is None


def test_a_question_whose_text_holds_the_answer_is_dropped() -> None:
    person = ("Cax Ode", "Cax Ode was born in Bru.", [("Cax Ode", "born_in", "Bru")])
    town = ("Bru", "Bru lies in Cax.", [("Bru", "lies_in", "Cax")])
    assert make_case(toy(person, town), "birth_region", "Cax Ode") is None


@pytest.mark.parametrize("answer", ["The Key", "the key.", "  Key ", "The answer is The Key", "Answer: key"])
def test_answers_equal_after_normalisation_are_right(answer: str) -> None:
    question = Question.make(task="twohop", text="What did a pupil of Bo write?", reference="The Key", split="train")
    assert TwoHop().score(question, answer).value == 1.0


@pytest.mark.parametrize(
    ("answer", "feedback"),
    [
        ("", "No answer was given; expected 'The Key'."),
        ("The Key by Ann", "it holds the right name, but must be that name alone"),
        ("a pupil of Bo", "it only repeats words of the question"),
        ("The Door", "stands in a second passage"),
    ],
)
def test_wrong_answers_get_a_sentence_that_helps(answer: str, feedback: str) -> None:
    question = Question.make(task="twohop", text="What did a pupil of Bo write?", reference="The Key", split="train")
    score = TwoHop().score(question, answer)
    assert score.value == 0.0
    assert feedback in score.feedback


def test_feedback_names_no_intermediate_label(rows: list[Question]) -> None:
    for question in rows[::9]:
        bridge = question.metadata["_gold"]["bridge"]
        for answer in ("", "Nobody", question.text, f"{question.reference} indeed"):
            assert padded(bridge) not in padded(TwoHop().score(question, answer).feedback)


def test_nothing_but_the_tasks_reads_their_private_metadata() -> None:
    readers: dict[str, set[str]] = {"_gold": set(), "_facts": set()}
    package = Path(luthier.__file__).parent
    for source in sorted(package.rglob("*.py")):
        for key in readers:
            if f'"{key}"' in source.read_text(encoding="utf-8"):
                readers[key].add(source.relative_to(package).as_posix())
    assert readers == {"_gold": {"tasks/generated/twohop.py"}, "_facts": {"tasks/generated/explained.py"}}


def test_the_corpus_opens_by_the_reference_in_the_question(rows: list[Question]) -> None:
    row = json.loads(json.dumps(rows[0].to_row()))
    assert open_corpus(row["metadata"]["corpus"]) is world().corpus
    with pytest.raises(InputError, match=r"metadata.corpus: 'wiki@1' is unknown.*use one of twohop"):
        open_corpus("wiki@1")
    with pytest.raises(
        InputError, match=r"'twohop@0000' was asked for, this Luthier has 'twohop@.*generate the questions"
    ):
        open_corpus("twohop@0000")


def test_rows_do_not_depend_on_the_hash_seed() -> None:
    program = (
        "from luthier.tasks.generated.twohop import TwoHop; from luthier.files import digest_text;"
        "print(digest_text(repr(TwoHop().questions('validation', 90, 2))))"
    )
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    elsewhere = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert elsewhere.stdout.strip() == digest_text(repr(TwoHop().questions("validation", 90, 2)))


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(InputError, match="field split: 'dev' is unknown"):
        TwoHop().questions("dev", 1, 0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="219 questions of split 'test' asked for, there are 218"):
        TwoHop().questions("test", 219, 0)
    with pytest.raises(InputError, match="-1 questions of split 'test'"):
        TwoHop().questions("test", -1, 0)
    with pytest.raises(InputError, match="keep more families"):
        open_task("twohop", "town_craft").questions("test", 99, 0)
    with pytest.raises(InputError, match="field families: 'craft' is unknown"):
        open_task("twohop", "craft")
