"""Evaluation: denominators, the oracle, compositions and the grid's choice, on hand-made executions."""

from __future__ import annotations

import pytest

from luthier.errors import InputError
from luthier.evaluation.evaluate import (
    Result,
    compositions,
    difference,
    evaluate,
    evaluate_requests,
    grid_jobs,
    grid_summary,
    novel,
    oracle_scores,
    scores_of,
    standing,
)
from luthier.execution import Execution
from luthier.executors.execute import InvalidHarness, Job
from luthier.generator import HarnessRequest, Proposal
from luthier.harnesses.pool.configurations import select
from luthier.question import Question
from luthier.target import Usage

QUESTIONS = [
    Question.make(task="toy", family=f, text=f"{f} {i}", reference="x", split="test") for i, f in enumerate("aab")
]


NOTHING = Usage()


def execution(question: str, outcome: str, score: float | None, *, harness="h", usage=NOTHING) -> Execution:
    return Execution(question, harness, "graph", "target", 0, outcome, score=score, usage=usage)


def result(question: str, outcome: str, score: float | None, *, family="f", harness="h", tokens=0, calls=0) -> Result:
    row = execution(question, outcome, score, harness=harness, usage=Usage(calls, tokens, 0))
    return Result("c", question, family, f"text of {harness}", Usage(1, 10, 5), row)


MIXED = [
    result("1", "ok", 1.0, family="a", tokens=100, calls=2),
    result("2", "ok", 0.0, family="a"),
    result("3", "invalid", 0.0, family="a"),
    result("4", "noop", 0.0, family="b"),
    result("5", "incomplete", 0.0, family="b"),
    result("6", "infra_error", None, family="b"),
    result("7", "ok", 1.0, family="b", tokens=40, calls=5),
]


def test_failures_count_as_zero_and_machine_failures_are_left_out_and_counted():
    found = standing("c", MIXED, resamples=200)
    assert found.pooled["mean"] == pytest.approx(2 / 6)
    assert found.pooled["n"] == 6
    assert found.by_family == {"a": pytest.approx(1 / 3), "b": pytest.approx(1 / 3)}
    assert found.outcomes == {"incomplete": 1, "infra_error": 1, "invalid": 1, "noop": 1, "ok": 3}
    assert (found.target_tokens, found.calls, found.generator_tokens) == (20.0, 1.0, 15.0)


def test_equal_weight_is_the_mean_over_families():
    rows = [result("1", "ok", 1.0, family="a"), *(result(f"b{i}", "ok", 0.0, family="b") for i in range(3))]
    found = standing("c", rows, resamples=200)
    assert (found.pooled["mean"], found.equal_weight) == (0.25, 0.5)


def test_a_standing_without_any_score_is_refused():
    with pytest.raises(InputError, match="no questions to average"):
        standing("c", [result("1", "infra_error", None)], resamples=200)


def test_a_difference_with_a_machine_failure_on_one_side_is_refused():
    ours = [result("1", "ok", 1.0), result("2", "infra_error", None)]
    theirs = [result("1", "ok", 0.0), result("2", "ok", 0.0)]
    assert scores_of(ours) == {"1": 1.0}
    with pytest.raises(InputError, match="infra_error"):
        difference(ours, theirs, resamples=200)


def test_the_oracle_takes_the_best_configuration_of_each_question():
    rows = [
        result("1", "ok", 0.0, harness="h1"),
        result("1", "ok", 1.0, harness="h2"),
        result("2", "ok", 0.0, harness="h1"),
        result("2", "infra_error", None, harness="h2"),
        result("3", "infra_error", None, harness="h1"),
    ]
    assert oracle_scores(rows) == {"1": 1.0, "2": 0.0}


def test_compositions_count_shares_of_the_whole_family_and_mark_what_was_taught():
    rows = [
        result("1", "ok", 1.0, harness="new"),
        result("2", "ok", 1.0, harness="new"),
        result("3", "ok", 0.0, harness="taught"),
        result("4", "invalid", 0.0, harness="broken"),
        result("5", "infra_error", None, harness=""),
        result("6", "ok", 1.0, family="g", harness="taught"),
        result("7", "noop", 0.0, family="g", harness="new"),
        result("8", "ok", 0.0, family="g", harness="new"),
    ]
    found = compositions(rows, taught={"taught"})
    assert [(item.family, item.digest, item.written, item.share, item.shown) for item in found] == [
        ("f", "new", 2, 0.5, False),
        ("f", "taught", 1, 0.0, True),
        ("g", "new", 2, 0.0, False),
        ("g", "taught", 1, pytest.approx(1 / 3), True),
    ]
    assert [(item.family, item.text) for item in novel(found)] == [("f", "text of new")]


def test_a_result_row_has_no_wall_time():
    row = result("1", "ok", 1.0).to_row()
    assert row["generator_usage"] == {"calls": 1, "prompt_tokens": 10, "completion_tokens": 5}
    assert (row["contender"], row["question"], row["harness_text"]) == ("c", "1", "text of h")


class ThreeProposals:
    name, kind = "three", "graph"

    def propose(self, requests):
        return [Proposal("answer = direct(question)"), Proposal("nonsense"), Proposal("", problem="the server is down")]


def test_every_proposal_becomes_a_result_in_order():
    jobs: list[Job] = []

    def run(asked):
        jobs.extend(asked)
        outcomes = ["invalid" if isinstance(job.harness, InvalidHarness) else "ok" for job in asked]
        return [
            execution(j.question.id, o, 0.0, harness=j.harness.digest) for j, o in zip(asked, outcomes, strict=True)
        ]

    found = evaluate(ThreeProposals(), QUESTIONS, run, seed=4)
    assert [item.execution.outcome for item in found] == ["ok", "invalid", "infra_error"]
    assert [item.question for item in found] == [question.id for question in QUESTIONS]
    assert [item.family for item in found] == ["a", "a", "b"]
    assert [job.seed for job in jobs] == [4, 4]
    assert (found[2].execution.score, found[2].execution.error) == (None, "the server is down")


class OnePatch:
    name, kind = "patch", "graph"

    def propose(self, requests):
        return [Proposal("answer = direct(question)", Usage(1, 10, 5)) for _ in requests]


def test_a_packet_gets_one_harness_which_runs_on_each_of_its_questions():
    def run(jobs):
        return [execution(job.question.id, "ok", 1.0, harness=job.harness.digest) for job in jobs]

    packets = [HarnessRequest("a and b", tuple(QUESTIONS[:2])), HarnessRequest("c", (QUESTIONS[2],))]
    found = evaluate_requests(OnePatch(), packets, run, seed=4)
    assert [item.question for item in found] == [question.id for question in QUESTIONS]
    assert [item.proposal.calls for item in found] == [1, 0, 1], "written twice, for three questions"
    assert len({item.execution.harness for item in found}) == 1


def row(configuration: str, score: float | None, *, split="validation", tokens=10, outcome="ok", family="f"):
    usage = {"prompt_tokens": tokens, "completion_tokens": 0}
    return {
        "configuration": configuration, "split": split, "family": family, "score": score, "outcome": outcome,
        "usage": usage,
    }  # fmt: skip


def test_the_grid_chooses_on_validation_alone():
    rows = [row("a", 0.0, split="train"), row("b", 1.0, split="train"), row("a", 1.0), row("b", 0.0)]
    found = grid_summary(rows)
    assert (found["best_on_validation"], found["best_validation_score"], found["compared"]) == ("a", 1.0, 2)
    assert found["scores"]["train"] == {"a": {"mean": 0.0, "f": 0.0}, "b": {"mean": 1.0, "f": 1.0}}


def test_ties_go_to_fewer_tokens_and_then_to_the_name():
    assert grid_summary([row("a", 1.0, tokens=20), row("b", 1.0, tokens=10)])["best_on_validation"] == "b"
    assert grid_summary([row("b", 1.0), row("a", 1.0)])["best_on_validation"] == "a"


def test_a_machine_failure_is_no_zero_in_the_grid():
    found = grid_summary([row("a", 0.4), row("a", None, outcome="infra_error"), row("b", 0.3), row("b", 0.3)])
    assert found["best_on_validation"] == "a"
    assert found["outcomes"] == {"infra_error": 1, "ok": 3}


def test_a_grid_without_validation_rows_chooses_nothing():
    found = grid_summary([row("a", 1.0, split="train")])
    assert (found["best_on_validation"], found["best_validation_score"], found["compared"]) == ("", None, 0)


def test_the_grid_runs_every_configuration_on_every_question():
    pool = select(["direct", "gcd"])
    jobs = grid_jobs(QUESTIONS[:2], pool, seed=3)
    names = [(job.question.id, job.harness.digest, job.seed) for job in jobs]
    assert names == [(q.id, item.harness.digest, 3) for q in QUESTIONS[:2] for item in pool]
