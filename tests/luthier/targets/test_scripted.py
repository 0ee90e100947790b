"""The scripted target: its answers, its coalescing, and each failure mode that other tests rely on."""

from __future__ import annotations

import math

import pytest

from luthier.errors import InputError, TargetError
from luthier.target import Completion, Failure, Message, Request
from luthier.targets.scripted import GARBAGE, Fault, ScriptedTarget, prompt_text


def only(target: ScriptedTarget, request: Request) -> Completion:
    (answer,) = target.complete([request])
    assert isinstance(answer, Completion)
    return answer


def test_first_fitting_rule_answers_with_its_groups() -> None:
    target = ScriptedTarget([(r"spell (\w+)", r"<\1>"), (r"spell", "never")], default="no rule")
    assert only(target, Request("please spell cat")).text == "<cat>"
    assert only(target, Request("else")).text == "no rule"


def test_messages_are_matched_with_their_roles() -> None:
    request = Request((Message("system", "be brief"), Message("user", "hello")))
    assert prompt_text(request) == "system: be brief\nuser: hello"
    assert only(ScriptedTarget([(r"^system: be brief\nuser: (\w+)$", r"\1")]), request).text == "hello"


def test_stop_max_tokens_and_usage_are_exact() -> None:
    target = ScriptedTarget(lambda request: "one two  three END four")
    cut = only(target, Request("a b c", max_tokens=2))
    assert (cut.text, cut.finish) == ("one two", "length")
    assert (cut.usage.calls, cut.usage.prompt_tokens, cut.usage.completion_tokens) == (1, 3, 2)
    stopped = only(target, Request("a b c", max_tokens=9, stop=("four", "END")))
    assert (stopped.text, stopped.finish, stopped.usage.completion_tokens) == ("one two  three ", "stop", 3)


def test_equal_greedy_requests_are_served_and_paid_once() -> None:
    target = ScriptedTarget(lambda request: request.prompt if isinstance(request.prompt, str) else "")
    first, other, again = target.complete([Request("x", seed=1), Request("y"), Request("x", seed=2)])
    assert target.calls == 2
    assert target.batches == [2]
    assert [answer.text for answer in (first, other, again) if isinstance(answer, Completion)] == ["x", "y", "x"]
    assert len(first.attempts) == 1
    assert again.attempts == ()
    assert isinstance(again, Completion)
    assert again.usage.prompt_tokens == 1


def test_sampled_requests_are_shared_only_with_equal_seed() -> None:
    target = ScriptedTarget(lambda request: str(request.seed))
    requests = [Request("x", temperature=1.0, seed=seed) for seed in (1, 2, 1)]
    assert [answer.text for answer in target.complete(requests) if isinstance(answer, Completion)] == ["1", "2", "1"]
    assert target.calls == 2


def test_error_fault_by_number_fails_once() -> None:
    target = ScriptedTarget([("", "fine")], faults=[Fault("error", at=frozenset({1}))])
    answers = target.complete([Request("a"), Request("b"), Request("c")])
    assert [type(answer) for answer in answers] == [Completion, Failure, Completion]
    assert answers[1].attempts[0].problem == "the scripted target failed on purpose"
    assert only(target, Request("b")).text == "fine"


def test_error_fault_by_pattern_stops_after_its_times() -> None:
    target = ScriptedTarget([], default="fine", faults=[Fault("error", pattern="b", times=2)])
    kinds = [type(target.complete([Request("b")])[0]) for _ in range(3)]
    assert kinds == [Failure, Failure, Completion]


def test_other_faults_do_what_they_say() -> None:
    down = ScriptedTarget([], faults=[Fault("down", at=frozenset({0}))])
    with pytest.raises(TargetError, match="is down"):
        down.complete([Request("a")])
    garbage = ScriptedTarget([], faults=[Fault("garbage", pattern="a")])
    assert only(garbage, Request("a", choices=("yes",))).text == GARBAGE
    slow = ScriptedTarget([], faults=[Fault("slow", pattern="a", seconds=0.02)])
    assert only(slow, Request("a")).usage.seconds == 0.02
    short = ScriptedTarget([], faults=[Fault("short", at=frozenset({0}))])
    assert len(short.complete([Request("a"), Request("b")])) == 1


def test_choices_bind_the_answer_and_have_logprobs() -> None:
    target = ScriptedTarget([("sky", "blue")], default="neither")
    choices = ("red", "blue", "green")
    assert only(target, Request("sky", choices=choices)).text == "blue"
    assert only(target, Request("sea", choices=choices)).text == "red"
    sky, sea = target.choice_logprobs([Request("sky", choices=choices), Request("sea", choices=choices)])
    assert sky[1] == math.log(0.9)
    assert sum(math.exp(value) for value in sky) == pytest.approx(1.0)
    assert len(set(sea)) == 1


def test_fingerprint_depends_on_name_and_rules() -> None:
    prints = {
        ScriptedTarget([("a", "b")]).fingerprint,
        ScriptedTarget([("a", "c")]).fingerprint,
        ScriptedTarget([("a", "b")], name="other").fingerprint,
        ScriptedTarget([("a", "b")], default="d").fingerprint,
    }
    assert len(prints) == 4
    assert ScriptedTarget([("a", "b")]).fingerprint in prints


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (Request("a", max_tokens=0), "max_tokens"),
        (Request("a", temperature=-1.0), "temperature"),
        (Request("a", top_p=0.0), "top_p"),
        (Request("a", stop=("",)), "stop"),
        (Request("a", choices=("x", "x")), "choices"),
        (Request("a", choices=("x",), json_schema="{}"), "json_schema"),
        (Request("a", json_schema="[1]"), "json_schema"),
        (Request("a", json_schema="{"), "json_schema"),
        (Request(()), "prompt"),
    ],
)
def test_requests_without_one_meaning_are_refused(request_: Request, field: str) -> None:
    with pytest.raises(InputError, match=field):
        ScriptedTarget([]).complete([request_])


def test_bad_rules_are_named() -> None:
    with pytest.raises(InputError, match=r"pattern '\('"):
        ScriptedTarget([("(", "x")])
