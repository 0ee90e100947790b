"""Runs of real harnesses on a scripted target. The file is also the program that the kill test starts."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from luthier.errors import BudgetExhausted, SandboxError, StoreError, TargetError
from luthier.execution import Limits
from luthier.executor import RunResult
from luthier.executors.execute import (
    ExecutionsExhausted,
    InvalidHarness,
    Job,
    execute,
    execution_key,
    forecast_executions,
)
from luthier.files import digest_text
from luthier.harnesses import parse
from luthier.ledger.ledger import Amount, Budget, Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.store import Store
from luthier.progress import Progress
from luthier.question import Question
from luthier.stopping import StopRequested, StopSignal
from luthier.target import Request, Usage
from luthier.targets.scripted import Fault, ScriptedTarget, prompt_text
from luthier.task import Score

PROMPT = parse("prompt", "# raw max_tokens=8\nSay {question}")
CHAIN = parse(
    "graph",
    """
    a = drafted(question)
    b = checked(a)
    answer = finished(a, b)

    impl drafted:
      style: raw
      ask: Draft {question}
      parse: line
      max_tokens: 8
    impl checked:
      style: raw
      ask: Check {a}
      parse: line
      max_tokens: 8
    impl finished:
      style: raw
      ask: Finish {a} {b}
      parse: line
      max_tokens: 8
    """.replace("\n    ", "\n"),
)
BAD = InvalidHarness("graph", "nonsense", "line 1: not a node")


def answer(request):
    """Three words that depend on the whole prompt, so that a swapped answer would show downstream."""
    return f"word {digest_text(prompt_text(request))[:6]} end"


def question(number):
    return Question.make(task="toy", text=f"thing {number}", reference=str(number), split="train")


def score(asked, text):
    return Score(float(len(text + asked.text) % 2), f"scored {text}")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store.db")


def meter(store, budget=None, *, target=None, run="r", counts="paid", **options):
    target = target or ScriptedTarget(answer)
    ledger = Ledger(store, budget, run=run, counts=counts)
    return Meter(target, store, ledger, role="target", account="data", method="grid", phase="grid", **options)


def rows(executions):
    return [execution.to_row() for execution in executions]


def test_runs_advance_together_and_come_back_in_order(store):
    m = meter(store)
    jobs = [Job(CHAIN, question(1)), Job(PROMPT, question(2)), Job(BAD, question(3)), Job(CHAIN, question(4))]
    executions = execute(jobs, score, m)
    assert m.target.batches == [3, 2, 2]
    assert [e.outcome for e in executions] == ["ok", "ok", "invalid", "ok"]
    assert [e.question for e in executions] == [job.question.id for job in jobs]
    chain = executions[0]
    assert (chain.usage.calls, len(chain.trace), chain.harness, chain.kind) == (3, 3, CHAIN.digest, "graph")
    assert chain.score == score(jobs[0].question, chain.answer).value
    assert chain.feedback == f"scored {chain.answer}"
    invalid = executions[2]
    assert (invalid.score, invalid.answer, invalid.error, invalid.usage) == (0.0, "", BAD.error, Usage())
    assert m.ledger.spent() == Amount(4, 7, 2 * (3 + 4 + 7) + 3, 21, 0.0, None)


def test_rows_carry_no_wall_time_but_the_ledger_does(store):
    slow = ScriptedTarget(answer, faults=[Fault("slow", pattern="Draft", seconds=0.001)])
    m = meter(store, target=slow)
    (execution,) = execute([Job(CHAIN, question(1))], score, m)
    assert execution.usage.seconds == 0.0
    assert [step.usage.seconds for step in execution.trace] == [0.0] * 3
    assert m.ledger.spent().seconds == 0.001
    other = meter(store, run="other")
    other.target.fingerprint = slow.fingerprint
    execute([Job(CHAIN, question(1))], score, other)
    assert other.ledger.spent("alone").seconds == 0.001


def test_the_width_bounds_a_wave_and_changes_no_row(store, tmp_path):
    jobs = [Job(CHAIN, question(number)) for number in range(7)]
    wide = execute(jobs, score, meter(store))
    narrow_meter = meter(Store(tmp_path / "narrow.db"))
    narrow = execute(jobs, score, narrow_meter, width=2)
    assert max(narrow_meter.target.batches) == 2
    assert rows(narrow) == rows(wide)


def test_progress_moves_within_a_wave_and_counts_every_answer(store):
    """Five runs of three calls each, two at a time in the engine: every wave is told in three parts."""
    jobs = [Job(CHAIN, question(number)) for number in range(5)]
    seen = []
    execute(jobs, score, meter(store, chunk=2), progress=seen.append)
    assert [state.calls for state in seen] == [0, 2, 4, 5, 5, 7, 9, 10, 10, 12, 14, 15, 15]
    assert [state.done for state in seen] == [0] * 12 + [5]


def test_stored_executions_are_not_run_and_cost_nothing(store):
    jobs = [Job(CHAIN, question(number)) for number in range(3)]
    first = meter(store, run="one")
    before = execute(jobs, score, first)
    second = meter(store, run="two")
    seen = []
    assert rows(execute(jobs, score, second, progress=seen.append)) == rows(before)
    assert second.target.calls == 0
    assert seen[-1] == Progress(3, 3, 3, 0, 0)
    assert second.ledger.spent("paid") == Amount()
    assert second.ledger.spent("alone") == first.ledger.spent("alone")


def test_equal_jobs_run_once_and_are_each_entered(store):
    m = meter(store)
    jobs = [Job(PROMPT, question(1)), Job(PROMPT, question(1)), Job(PROMPT, question(2))]
    executions = execute(jobs, score, m)
    assert rows(executions)[0] == rows(executions)[1]
    assert m.target.calls == 2
    assert (m.ledger.spent("paid").rollouts, m.ledger.spent("paid").calls) == (2, 2)
    assert (m.ledger.spent("alone").rollouts, m.ledger.spent("alone").calls) == (3, 3)


def test_a_second_use_in_one_run_counts_as_if_alone(store):
    m = meter(store)
    for _ in range(2):
        execute([Job(CHAIN, question(1))], score, m)
    assert (m.ledger.spent("paid").calls, m.ledger.spent("alone").calls) == (3, 6)


def test_the_key_depends_on_everything_that_the_row_depends_on():
    base = Job(PROMPT, question(1))
    variants = [
        execution_key(base, "m", Limits()),
        execution_key(base, "other", Limits()),
        execution_key(base, "m", Limits(calls=3)),
        execution_key(Job(PROMPT, question(1), seed=1), "m", Limits()),
        execution_key(Job(PROMPT, question(2)), "m", Limits()),
        execution_key(Job(CHAIN, question(1)), "m", Limits()),
        execution_key(Job(BAD, question(1)), "m", Limits()),
    ]
    assert len(set(variants)) == len(variants)


def test_a_failure_is_retried_in_the_next_wave(store):
    target = ScriptedTarget(answer, faults=[Fault("error", pattern="Check", times=2)])
    m = meter(store, target=target)
    (execution,) = execute([Job(CHAIN, question(1))], score, m, infra_retries=2)
    assert execution.outcome == "ok"
    assert rows([execution]) == rows(execute([Job(CHAIN, question(1))], score, meter(store)))
    assert (m.ledger.spent().calls, m.ledger.totals()[0].problems, target.calls) == (5, 2, 5)


def test_a_lasting_failure_is_an_infra_error_never_stored_and_run_again(store):
    target = ScriptedTarget(answer, faults=[Fault("error", pattern="Check", times=2)])
    m = meter(store, target=target)
    jobs = [Job(CHAIN, question(1)), Job(CHAIN, question(1)), Job(PROMPT, question(2))]
    seen = []
    executions = execute(jobs, score, m, infra_retries=1, progress=seen.append)
    assert [(e.outcome, e.score) for e in executions[:2]] == [("infra_error", None)] * 2
    assert "failed on purpose" in executions[0].error
    assert executions[2].outcome == "ok"
    assert seen[-1].failed == 2
    assert (store.count("executions"), m.ledger.spent().rollouts, m.ledger.spent().calls) == (1, 1, 4)
    again = execute(jobs, score, m)
    assert [e.outcome for e in again] == ["ok"] * 3
    assert m.ledger.spent().calls == target.calls == 6


def test_a_missing_sandbox_is_an_infra_error(store):
    def broken(asked, text):
        raise SandboxError("no fence")

    (execution,) = execute([Job(PROMPT, question(1))], broken, meter(store))
    assert (execution.outcome, execution.score, execution.error) == ("infra_error", None, "no fence.")
    assert store.count("executions") == 0


class TwoMoves:
    """An environment of two turns that scores its end state: the share of its moves that were even."""

    kind, version = "prompt", "two-moves-1"

    def start(self, harness, asked, limits, seed):
        moves = []
        for turn in ("first", "second"):
            (reply,) = yield [Request(f"{turn} move after {moves} of {asked.text}", 8)]
            moves.append(reply.text)
        return RunResult("ok", score=sum("even" in move for move in moves) / 2)


def test_an_environment_scores_its_own_end_state(store, monkeypatch):
    monkeypatch.setattr("luthier.executors.scheduler.executor_for", lambda kind: TwoMoves())
    monkeypatch.setattr("luthier.executors.job.executor_for", lambda kind: TwoMoves())
    target = ScriptedTarget(lambda request: "even" if prompt_text(request).startswith("first") else "odd")

    def never(asked, text):
        raise AssertionError("the task is not asked")

    m = meter(store, target=target)
    (execution,) = execute([Job(PROMPT, question(1))], never, m)
    assert (execution.outcome, execution.score, execution.answer, execution.usage.calls) == ("ok", 0.5, "", 2)
    again = meter(store, target=target, run="again")
    assert execute([Job(PROMPT, question(1))], never, again) == [execution], "the store has the score"
    assert again.ledger.spent("paid").calls == 0


def test_an_empty_answer_is_a_noop(store):
    (execution,) = execute([Job(PROMPT, question(1))], score, meter(store, target=ScriptedTarget([])))
    assert (execution.outcome, execution.score, execution.answer) == ("noop", 0.0, "")
    assert store.count("executions") == 1


@pytest.mark.parametrize(("limits", "calls"), [(Limits(calls=2), 2), (Limits(tokens=8), 2), (Limits(steps=1), 1)])
def test_limits_of_an_execution_make_it_incomplete(store, limits, calls):
    m = meter(store)
    (execution,) = execute([Job(CHAIN, question(1))], score, m, limits)
    assert (execution.outcome, execution.score, execution.usage.calls) == ("incomplete", 0.0, calls)
    assert execution.error
    assert m.target.calls == calls


@pytest.mark.parametrize("counts", ["paid", "alone"])
@pytest.mark.parametrize("allowed", range(8))
def test_a_calls_limit_is_never_overshot_and_keeps_what_is_finished(store, allowed, counts):
    jobs = [Job(PROMPT, question(1)), Job(CHAIN, question(2)), Job(PROMPT, question(2)), Job(CHAIN, question(3))]
    m = meter(store, Budget(calls=allowed), counts=counts)
    with pytest.raises(ExecutionsExhausted) as caught:
        execute(jobs, score, m)
    assert caught.value.limit == "calls"
    assert m.target.calls == m.ledger.spent().calls <= allowed
    done = [execution is not None for execution in caught.value.completed]
    assert done == [allowed >= 1, False, allowed >= 3, False] if allowed < 7 else [True, True, True, False]
    assert store.count("executions") == sum(done) == m.ledger.spent().rollouts
    with pytest.raises(BudgetExhausted):
        execute([Job(PROMPT, question(9))], score, m)
    assert m.target.calls <= allowed
    more = meter(store, Budget(calls=8), counts=counts)
    assert None not in execute(jobs, score, more)
    assert (more.ledger.spent().calls, more.ledger.spent("alone").calls) == (8, 8)


@pytest.mark.parametrize("counts", ["paid", "alone"])
def test_a_rollouts_limit_lets_the_admitted_runs_end(store, counts):
    jobs = [Job(CHAIN, question(number)) for number in range(5)]
    m = meter(store, Budget(rollouts=3), counts=counts)
    with pytest.raises(ExecutionsExhausted) as caught:
        execute(jobs, score, m, width=2)
    assert [e is not None for e in caught.value.completed] == [True] * 3 + [False] * 2
    assert (m.ledger.spent().rollouts, m.target.calls) == (3, 9)


def test_counting_as_if_alone_stops_at_the_same_rollout_however_warm_the_store(store):
    jobs = [Job(PROMPT, question(number)) for number in range(5)]
    execute(jobs[:4], score, meter(store, run="earlier"))
    for _ in range(2):
        m = meter(store, Budget(rollouts=3), counts="alone")
        with pytest.raises(ExecutionsExhausted) as caught:
            execute(jobs, score, m)
        assert [e is not None for e in caught.value.completed] == [True] * 3 + [False] * 2
        assert m.ledger.spent("alone").rollouts == 3
    assert len(execute(jobs, score, meter(store, Budget(rollouts=1)))) == 5


def test_a_target_that_is_down_raises_and_gives_its_rollouts_back(store):
    target = ScriptedTarget(answer, faults=[Fault("down", pattern="Check", times=1)])
    m = meter(store, Budget(rollouts=2), target=target)
    jobs = [Job(PROMPT, question(1)), Job(CHAIN, question(1))]
    with pytest.raises(TargetError):
        execute(jobs, score, m)
    assert store.count("executions") == 1
    assert [e.outcome for e in execute(jobs, score, m)] == ["ok", "ok"]


def test_a_full_disk_stops_the_run_and_keeps_what_is_finished(store):
    m = meter(store)
    execute([Job(PROMPT, question(0))], score, m)
    with store.transaction() as db:
        db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0] + 1}")
    jobs = [Job(CHAIN, question(number)) for number in range(40)]
    with pytest.raises(StoreError, match="full"):
        execute(jobs, score, m)
    again = meter(Store(store.path))
    assert len(execute(jobs, score, again)) == 40
    assert again.ledger.spent().calls == 121


def test_a_stop_request_ends_between_waves_and_the_next_start_goes_on(store, tmp_path):
    jobs = [Job(CHAIN, question(number)) for number in range(6)]
    stop = StopSignal(tmp_path / "stop")

    def touch(state):
        if state.done == 2:
            stop.path.touch()

    m = meter(store)
    with pytest.raises(StopRequested):
        execute(jobs, score, m, width=2, progress=touch, stop=stop)
    assert (store.count("executions"), m.target.calls) == (2, 6)
    again = meter(store)
    assert len(execute(jobs, score, again, stop=StopSignal(stop.path))) == 6
    assert again.target.calls == 12


def test_a_forecast_equals_what_is_paid_and_calls_nothing(store):
    m = meter(store)
    execute([Job(PROMPT, question(0)), Job(CHAIN, question(0))], score, m)
    jobs = [Job(h, question(n)) for n in (0, 1, 1, 2) for h in (PROMPT, CHAIN)] + [Job(BAD, question(1))]
    before, calls = m.ledger.spent(), m.target.calls
    forecast = forecast_executions(jobs, m)
    assert m.target.calls == calls
    execute(jobs, score, m)
    spent = m.ledger.spent()
    assert forecast.full.rollouts == 9
    assert forecast.remaining.rollouts == spent.rollouts - before.rollouts == 5
    assert forecast.full.calls == 4 * 1 + 4 * 3
    assert forecast.remaining.calls == spent.calls - before.calls == 8
    assert forecast.remaining.completion_tokens >= spent.completion_tokens - before.completion_tokens
    assert "estimate" in forecast.render()
    done = forecast_executions(jobs, m)
    assert done.remaining == Amount()
    assert done.full.calls == forecast.full.calls


KILL_JOBS, KILL_CHUNK = 30, 8


def kill_meter(folder: Path) -> tuple[Meter, Path]:
    """A meter whose target writes every call that reaches it into a file."""
    counter = folder / "counter"

    def counted(request):
        with counter.open("a") as file:
            file.write(digest_text(prompt_text(request)) + "\n")
        return answer(request)

    target = ScriptedTarget(counted, name="killed")
    return meter(Store(folder / "store.db"), target=target, chunk=KILL_CHUNK), counter


def kill_jobs():
    return [Job(harness, question(number)) for number in range(KILL_JOBS) for harness in (CHAIN, PROMPT)]


def test_a_run_killed_ten_times_pays_no_call_twice_and_ends_the_same(tmp_path):
    (tmp_path / "clean").mkdir()
    clean_meter, clean_counter = kill_meter(tmp_path / "clean")
    clean = execute(kill_jobs(), score, clean_meter, width=12)
    folder = tmp_path / "killed"
    folder.mkdir()
    chance = random.Random(20)
    kills = 0
    while kills < 10:
        process = subprocess.Popen([sys.executable, __file__, str(folder)])
        limit = len(_lines(folder)) + chance.randrange(1, 12)
        while process.poll() is None and len(_lines(folder)) < limit:
            time.sleep(0.001)
        assert process.poll() is None, "the program ended before it was killed ten times"
        process.kill()
        process.wait()
        kills += 1
    process = subprocess.run([sys.executable, __file__, str(folder)], check=True, capture_output=True)
    assert json.loads(process.stdout) == json.loads(json.dumps(rows(clean)))
    m, _ = kill_meter(folder)
    calls = KILL_JOBS * 4
    assert len(clean_counter.read_text().split()) == calls
    paid = [entry for entry in m.ledger.entries() if entry.paid.calls]
    assert len(paid) == len({(e.purpose, e.part) for e in paid}) == calls
    assert m.ledger.totals() == clean_meter.ledger.totals()
    repeated = len(_lines(folder)) - calls
    assert 0 <= repeated <= m.ledger.lost().calls <= kills * KILL_CHUNK
    assert m.ledger.spent("paid").rollouts == len(clean)


def _lines(folder: Path) -> list[str]:
    counter = folder / "counter"
    return counter.read_text().split() if counter.exists() else []


if __name__ == "__main__":
    program_meter, _ = kill_meter(Path(sys.argv[1]))
    print(json.dumps(rows(execute(kill_jobs(), score, program_meter, width=12))))
