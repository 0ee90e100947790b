"""Critics: what a model is asked and how it is read, and where the rules send criticism."""

from __future__ import annotations

from pathlib import Path

import pytest

from luthier.errors import InputError
from luthier.ledger.budget import Budget
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import CallsExhausted, Meter
from luthier.ledger.store import Store
from luthier.search.call_graph import CallGraph
from luthier.search.critics import CriticQuestion, ModelCritic, OfflineCritic, complaint, question_text
from luthier.targets.scripted import Fault, ScriptedTarget, prompt_text
from tests.luthier.search.program_runs import graph_of

ROUTE = """
wiring: |
  kind = route(question)
    if kind == "sort" -> sorted else plain
  sorted: draft = order(question)
    -> done
  plain: draft = tell(question)
  done: answer = say(draft, kind)
modules:
  route: {inputs: [question], outputs: [kind]}
  order: {inputs: [question], outputs: [reply]}
  tell: {inputs: [question], outputs: [reply]}
  say: {inputs: [draft, kind], outputs: [answer]}
"""


@pytest.fixture
def graph(tmp_path: Path) -> CallGraph:
    """Routed to `order`, whose output cannot be read."""

    def reply(request):
        text = prompt_text(request)
        return "sort" if text.endswith("Kind:") else "" if text.endswith("Reply:") else "{loss} it is"

    return graph_of(tmp_path, ROUTE, reply)


def asks(graph: CallGraph) -> dict[str, CriticQuestion]:
    order, say = graph.calls[1], graph.calls[2]
    edges = {edge.name: edge for edge in say.edges}
    return {
        "say": CriticQuestion(graph, "L", say, "C", "Say {it}."),
        "draft": CriticQuestion(graph, "L", say, "C", "Say {it}.", edges["draft"]),
        "kind": CriticQuestion(graph, "L", say, "C", "Say {it}.", edges["kind"]),
        "order": CriticQuestion(graph, "L", order, "C", "Order."),
        "route": CriticQuestion(graph, "L", order, "C", "Order.", order.edges[0]),
    }


def critic_of(tmp_path: Path, reply, budget: Budget | None = None, role="critic", **options) -> ModelCritic:
    store = Store(tmp_path / "critic.db")
    ledger = Ledger(store, budget, run="t", counts="alone")
    target = ScriptedTarget(reply, name="reader", faults=options.pop("faults", ()))
    meter = Meter(target, store, ledger, role=role, account="search", method="m", phase="p", split="train")
    return ModelCritic(meter, **options)


def test_a_model_is_shown_instruction_inputs_output_and_criticism(graph: CallGraph) -> None:
    text = question_text(asks(graph)["draft"], 1500)
    for part in ("Say {it}.", "  kind: sort", "{loss} it is", "What was wrong with this output: C", "said of that: L"):
        assert part in text
    assert text.endswith("Its input draft was made by sorted (order): (nothing)\nWhat is wrong with this input?")


def test_a_choice_is_asked_about_with_what_the_program_looks_for(graph: CallGraph) -> None:
    text = question_text(asks(graph)["route"], 1500)
    assert "looked at kind (it looks for: sort), and n1 (route) had written: sort" in text


def test_long_values_are_cut(graph: CallGraph) -> None:
    assert "{lo [cut]" in question_text(asks(graph)["say"], 3)


def test_all_questions_of_a_round_are_one_batch_and_in_the_bill(graph: CallGraph, tmp_path: Path) -> None:
    critic = critic_of(tmp_path, lambda request: "Nothing." if "instruction of" in prompt_text(request) else " bad ")
    drafts = critic.criticise(list(asks(graph).values()), ["a", "b", "c", "d", "e"])
    assert [draft.text for draft in drafts] == ["", "bad", "bad", "", "bad"]
    assert critic.meter.target.batches == [5]
    (line,) = critic.meter.ledger.totals()
    assert (line.role, line.account, line.alone.calls) == ("critic", "search", 5)


def test_a_failed_call_is_a_draft_with_a_problem(graph: CallGraph, tmp_path: Path) -> None:
    critic = critic_of(tmp_path, lambda request: "bad", faults=[Fault("error", pattern="this input")])
    drafts = critic.criticise(list(asks(graph).values()), ["a", "b", "c", "d", "e"])
    assert [bool(draft.problem) for draft in drafts] == [False, True, True, False, False]


def test_a_critic_cannot_pass_its_limit(graph: CallGraph, tmp_path: Path) -> None:
    critic = critic_of(tmp_path, lambda request: "bad", Budget(calls=3))
    with pytest.raises(CallsExhausted):
        critic.criticise(list(asks(graph).values()), ["a", "b", "c", "d", "e"])
    assert critic.meter.ledger.spent("alone").calls == 3


def test_another_role_is_refused_and_settings_hold_no_addresses(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give role='critic'"):
        critic_of(tmp_path, str, role="judge")
    assert "object at" not in repr(critic_of(tmp_path, str))


@pytest.mark.parametrize("text", ["nothing", " Nothing.\n", "**None**", "no complaint", ""])
def test_nothing_is_no_complaint(text: str) -> None:
    assert complaint(text) == ""


def test_nothing_inside_a_sentence_is_one() -> None:
    assert complaint("It says nothing.") == "It says nothing."


def test_the_rules_send_criticism_to_the_evident_fault_and_nowhere_else(graph: CallGraph) -> None:
    drafts = OfflineCritic().criticise(list(asks(graph).values()), ["-"] * 5)
    said = dict(zip(asks(graph), (draft.text for draft in drafts), strict=True))
    assert said["say"] == said["kind"] == said["route"] == ""
    assert said["draft"] == "It reached done (say) as draft, and what followed was wrong: L"
    assert said["order"] == "Nothing could be read as reply. L"


def test_the_rules_send_criticism_through_a_choice(tmp_path: Path) -> None:
    def reply(request):
        return "sort, please" if prompt_text(request).endswith("Kind:") else "it"

    graph = graph_of(tmp_path, ROUTE, reply)
    tell = graph.calls[1]
    (draft,) = OfflineCritic().criticise([CriticQuestion(graph, "L", tell, "C", "Tell.", tell.edges[0])], ["-"])
    assert draft.text == "It reached plain (tell) through the choice by kind, and what followed was wrong: L"
