import json

import pytest

from luthier.errors import InputError
from luthier.ledger.budget import Budget
from luthier.ledger.ledger import Ledger
from luthier.question import Question
from luthier.search.batches import epoch_batch
from luthier.search.credit import OutcomeCredit
from luthier.search.demonstrations import reference_label
from luthier.search.log import SearchLog
from luthier.search.session import SearchStopped
from luthier.search.stopping import WholeSteps


def test_validation_gives_scores_only_and_training_everything(toy):
    session = toy.session()
    validated = session.validate(toy.start).executions
    assert len(validated) == len(toy.validation) > 0
    for row in validated:
        assert (row.answer, row.feedback, row.error, row.trace) == ("", "", "", ())
    rows = session.evaluate(toy.start, toy.train, "minibatch").executions
    assert rows[0].feedback.startswith("expected 'right 0'")
    assert rows[0].trace[0].node == "prompt"


def test_test_questions_and_mixed_splits_are_refused(toy):
    test = Question.make(task="toy", text="kind 3 number 900", reference="right 900", split="test")
    session = toy.session()
    for questions in ([test], [toy.train[0], toy.validation[0]], []):
        with pytest.raises(InputError, match="field split"):
            session.evaluate(toy.start, questions, "minibatch")
    assert toy.target.calls == 0


def test_a_question_in_both_splits_is_refused(toy):
    first = toy.train[0]
    toy.validation.append(Question.make(task="toy", text=first.text, reference=first.reference, split="validation"))
    with pytest.raises(InputError, match=f"question {first.id}"):
        toy.session()


def test_a_ledger_that_counts_what_was_paid_is_refused(toy):
    with pytest.raises(InputError, match='counts="alone"'):
        toy.executed(toy.meters(Ledger(toy.store, run="paid")))


@pytest.mark.parametrize("context", [{"account": "test"}, {"role": "judge"}])
def test_a_meter_of_another_account_or_role_is_refused(toy, context):
    with pytest.raises(InputError, match="field meter"):
        toy.executed(toy.meters(toy.ledger(), **context))


def test_candidates_outside_the_scope_cost_nothing(toy):
    session = toy.session()
    shown = toy.start.with_shots({"prompt": [reference_label("prompt", toy.train[0])]})
    with pytest.raises(InputError, match="may not be edited"):
        session.validate(shown)
    assert toy.target.calls == 0


def test_an_invalid_candidate_counts_and_costs_no_call(toy):
    session = toy.session()
    evaluation = session.validate(toy.start.with_texts({"prompt": "{question} {question}"}))
    assert evaluation.mean == 0.0
    assert session.log.rows[-1].detail["outcomes"] == {"invalid": 8}
    assert (toy.ledger().spent("alone").rollouts, toy.ledger().spent("alone").calls) == (8, 0)


def test_the_first_of_equals_stays_the_best(toy):
    session = toy.session()
    session.validate(toy.start)
    session.validate(toy.start.with_texts({"prompt": "Reply."}))
    assert (session.best, session.best_score) == (toy.start, 0.25)


def test_steps_can_be_limited(toy):
    session = toy.session(stopping=WholeSteps(max_steps=2))
    session.validate(toy.start)
    session.validate(toy.start)
    with pytest.raises(SearchStopped, match="steps: 2 allowed"):
        session.validate(toy.start)


def test_a_whole_step_is_not_begun_when_it_might_not_fit(toy):
    """Each prompt has 5 words and may be answered with 64: 8 questions need up to 512, whatever they write."""
    session = toy.session(Budget(completion_tokens=511))
    with pytest.raises(SearchStopped, match="completion_tokens: 511 allowed, up to 512 needed"):
        session.validate(toy.start)
    assert toy.target.calls == 0


def test_the_proposer_reads_no_more_than_the_scope_allows(toy):
    evaluation = toy.session().evaluate(toy.start, toy.train[:1], "minibatch")
    read = {
        feedback: OutcomeCredit().assign("prompt", evaluation, toy.train[:1], feedback)[0]
        for feedback in ("score", "text", "trace")
    }
    assert read["score"].feedback == ""
    assert read["text"].feedback.startswith("expected")
    assert read["trace"].inputs == (("question", "kind 0 number 0"),)
    other = OutcomeCredit().assign("absent", evaluation, toy.train[:1], "trace")
    assert other == [read["text"]]


def test_a_damaged_log_is_named(toy):
    path = toy.folder / "run.jsonl"
    path.write_text('{"step": 0}\n')
    with pytest.raises(InputError, match=r"run.jsonl:1"):
        SearchLog(path)


def test_a_torn_last_line_and_a_stop_are_cut_off(toy):
    session = toy.session()
    session.validate(toy.start)
    session.finish("enough")
    path = toy.folder / "run.jsonl"
    whole = path.read_text()
    path.write_text(whole + '{"step": 2, "ev')
    log = SearchLog(path)
    assert log.replayed.event == "evaluate"
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["evaluate"]


def test_an_epoch_uses_every_question_alike():
    items = list(range(7))
    epoch = [epoch_batch(items, 3, number, 0) for number in range(3)]
    assert [len(batch) for batch in epoch] == [3, 3, 3]
    flat = [item for batch in epoch for item in batch]
    assert sorted(flat[:7]) == items
    assert flat[7:] == flat[:2]
    assert all(len(set(batch)) == 3 for batch in epoch)
    assert epoch_batch(items, 3, 3, 0) != epoch[0]
    assert epoch_batch(items, 3, 0, 1) != epoch[0]
    assert sorted(epoch_batch(items, 99, 5, 0)) == items
    with pytest.raises(InputError):
        epoch_batch([], 3, 0, 0)
