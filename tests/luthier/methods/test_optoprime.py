"""OptoPrime on a program in which one report has to show which modules are at fault."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from luthier.errors import TargetError
from luthier.ledger.budget import Budget
from luthier.methods import METHODS
from luthier.methods.optoprime import CARD, OptoprimeParams, build
from luthier.methods.optoprime.report_graph import ReportCredit
from luthier.methods.textgrad.backward import BackwardCredit
from luthier.search.contracts import TextDraft
from luthier.search.credit import OutcomeCredit
from luthier.search.proposers.grammar import GrammarProposer
from luthier.search.proposers.llm_proposer import ModelProposer
from luthier.search.selectors import Always, Latest
from luthier.targets.scripted import Fault, ScriptedTarget, prompt_text
from tests.luthier.methods.assembly_line import GRAMMAR, NOTE, ONLY, Line
from tests.luthier.methods.two_modules import Dying

SETTINGS = OptoprimeParams(iterations=6)


@pytest.fixture
def lines(tmp_path: Path):
    """A maker of lines in folders of their own."""
    return lambda name: Line(tmp_path / name)


def offline(line: Line, settings: OptoprimeParams = SETTINGS):
    return build(settings, line.parts(proposer=GrammarProposer(GRAMMAR)))


def write(request):
    """Reads a report: what wrote nothing has to note something, what says too much has to write only the answer."""
    text = prompt_text(request)
    texts = {}
    if "(gather) read" in text and "and wrote (nothing)" in text:
        texts["gather"] = f"Gather. {NOTE}"
    if "I think that" in text:
        texts["phrase"] = f"Phrase. {ONLY}"
    return f"Because of the report:\n```json\n{json.dumps({'reason': 'x', 'suggestion': texts})}\n```"


def by_model(line: Line, budget=None, *, settings=SETTINGS, name="run", writer=None, wrap=lambda target: target):
    """A search by a model and the options of its session; `wrap` goes around every target."""
    ledger = line.ledger(budget, name)
    target = writer or ScriptedTarget(write, name="w")
    meter = line.meter(ledger, wrap(target), role="proposer", split="train", phase="search")
    parts = line.parts(proposer=ModelProposer(meter, temperature=0.0))
    return build(settings, parts), {"ledger": ledger, "target": wrap(line.target), "demonstrations": False}


def search(line: Line, budget=None, **options):
    made, session = by_model(line, budget, **options)
    return line.search(made, budget, name=options.get("name", "run"), **session)


def test_the_card_and_the_register_name_it() -> None:
    assert (CARD.name, CARD.kind, CARD.phases) == ("optoprime", "program", ("search",))
    assert METHODS["optoprime"].search is build


@pytest.mark.parametrize("seed", range(3))
def test_the_blamed_modules_are_edited_in_one_proposal(lines, seed: int) -> None:
    line = lines(str(seed))
    result = line.search(offline(line), seed=seed)
    assert (result.rows[1].best, result.score) == (0.0, 1.0)
    assert NOTE in result.best.text("gather")
    assert ONLY in result.best.text("phrase")
    proposals = [row.detail["texts"] for row in result.rows if row.event == "propose"]
    assert {name for texts in proposals for name in texts} == {"gather", "phrase"}
    assert any(len(texts) == 2 for texts in proposals)


def test_with_the_outcome_for_everyone_the_same_loop_does_not_find_it(lines) -> None:
    for seed in range(3):
        line = lines(str(seed))
        made = replace(offline(line), credit=OutcomeCredit(steps=line.binding.steps))
        assert line.search(made, seed=seed).score < 1.0


def test_a_model_rewrites_all_modules_in_one_call(lines) -> None:
    line = lines("a")
    result = search(line, settings=OptoprimeParams(iterations=1))
    assert result.score == 1.0
    assert (result.best.text("gather"), result.best.text("phrase")) == (f"Gather. {NOTE}", f"Phrase. {ONLY}")
    bill = {(role, phase): alone for _, role, phase, alone in line.bill()}
    assert bill["proposer", "search"].calls == 1
    assert bill["proposer", "search"].prompt_tokens > 100


def test_the_report_shows_runs_parameters_and_earlier_tries(lines) -> None:
    seen = []

    def notice(request):
        seen.append(prompt_text(request))
        return json.dumps({"comment": f"Comment {len(seen)}."})

    line = lines("a")
    search(line, writer=ScriptedTarget(notice, name="w"), settings=OptoprimeParams(iterations=4, memory=2))
    assert "\ngather: instruction of a call that reads question and writes note; at most 2000 characters" in seen[0]
    assert "  n2: " not in seen[0]
    assert "n1: mood = comment" not in seen[0]
    for number in (1, 2):
        assert f"Run {number}, score 0 of 1" in seen[0]
    assert len(set(seen[0].split("  feedback: ")[1:])) == 3
    assert [text.count("Score 0.000 on other questions") for text in seen] == [1, 2, 2, 2]
    assert "  comment: Comment 1." in seen[2]
    assert "  comment: Comment 1." not in seen[3].partition("# Earlier tries")[0]


def test_without_memory_no_tries_are_shown(lines) -> None:
    seen = []

    def notice(request):
        seen.append(prompt_text(request))
        return "{}"

    search(lines("a"), writer=ScriptedTarget(notice, name="w"), settings=OptoprimeParams(iterations=1, memory=0))
    assert "Earlier tries" not in seen[0]


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("", "unread"),
        ("I would leave all as it is.", "unread"),
        ('{"phrase": "Phrase', "unread"),
        ('{"nobody": "Sing."}', "unread"),
        ('{"phrase": 3}', "unread"),
        ("{}", "empty"),
        ('{"phrase": "  "}', "empty"),
        ('{"phrase": "Phrase."}', "repeated"),
        (json.dumps({"phrase": "word " * 900, "name": "Name it."}), "too-long"),
    ],
)
def test_useless_proposals_are_counted_and_end(lines, text: str, outcome: str) -> None:
    line = lines("a")
    result = search(line, writer=ScriptedTarget(lambda request: text, name="w"), settings=OptoprimeParams(iterations=4))
    assert result.outcomes == {outcome: 4}
    assert (result.reason, result.score) == ("finished", 0.0)
    assert sum(row.event == "evaluate" for row in result.rows) == 1 + 4


def test_a_proposer_that_fails_ends_the_search_and_a_repaired_one_goes_on(lines) -> None:
    line = lines("a")
    broken = ScriptedTarget(write, name="w", faults=[Fault("error", pattern=".")])
    with pytest.raises(TargetError, match="failed the proposer"):
        search(line, writer=broken)
    result = search(line)
    assert ("failed" in result.outcomes, result.score) == (False, 1.0)


def test_a_failure_of_one_component_fails_the_whole_proposal(lines) -> None:
    class Half:
        name = "half"

        def propose(self, parent, component, evidence, *, rng, purpose):
            return TextDraft("", "broken") if component == "phrase" else TextDraft(f"{component} {purpose}")

    line = lines("a")
    with pytest.raises(TargetError, match="broken"):
        line.search(build(SETTINGS, line.parts(proposer=Half())))


def test_twice_and_from_a_warm_store_logs_and_bills_are_equal(lines) -> None:
    first, second = lines("a"), lines("b")
    for line, name in ((first, "cold"), (first, "warm"), (second, "cold")):
        search(line, Budget(calls=200), name=name)
    assert first.log("cold") == first.log("warm") == second.log("cold")
    assert first.bill("cold") == first.bill("warm") == second.bill("cold")


def slow(request):
    """One module at a time, so that several proposals are needed."""
    texts = json.loads(write(request).split("```json\n")[1].split("\n```")[0])["suggestion"]
    return json.dumps(dict(sorted(texts.items())[-1:]))


@pytest.mark.parametrize(("who", "at"), [("w", 0), ("w", 1), ("scripted", 3), ("scripted", 30), ("scripted", 60)])
def test_killed_and_resumed_ends_as_if_it_had_not_been(lines, who: str, at: int) -> None:
    whole, killed = lines("whole"), lines("killed")
    budget, writer = Budget(calls=300), ScriptedTarget(slow, name="w")
    expected = search(whole, budget, writer=writer)
    assert expected.outcomes == {"new": 2}
    with pytest.raises(KeyboardInterrupt):
        search(killed, budget, writer=writer, wrap=lambda target: Dying(target, at) if target.name == who else target)
    assert len(killed.log().splitlines()) < len(whole.log().splitlines())
    assert search(killed, budget, writer=writer) == expected
    assert killed.log() == whole.log()
    assert killed.bill() == whole.bill()


@pytest.mark.parametrize("limits", [{"calls": n} for n in (0, 39, 40, 41, 68, 90)] + [{"rollouts": 10}])
def test_no_limit_is_overshot_and_a_larger_budget_goes_on(lines, limits) -> None:
    whole, grown = lines("whole"), lines("grown")
    settings = OptoprimeParams(iterations=3)
    expected = search(whole, Budget(calls=150), settings=settings)
    result = search(grown, Budget(**limits), settings=settings)
    (unit, allowed), *_ = limits.items()
    assert grown.spent().get(unit) <= allowed
    assert result.reason != "finished"
    assert result.rows[:-1] == expected.rows[: len(result.rows) - 1]
    assert search(grown, Budget(calls=150), settings=settings) == expected
    assert grown.bill() == whole.bill()


@pytest.mark.parametrize("selector", ["pareto", "best", "beam", "latest"])
def test_it_goes_with_every_selector(lines, selector: str) -> None:
    line = lines("a")
    assert line.search(offline(line, OptoprimeParams(selector=selector, iterations=12))).score == 1.0


def test_it_goes_with_criticism_carried_backwards(lines) -> None:
    line = lines("a")
    result = line.search(replace(offline(line), credit=BackwardCredit(line.binding.program)))
    assert result.score == 1.0
    assert "criticise" in {row.event for row in result.rows}


def test_defaults_are_the_published_pair(lines) -> None:
    made = build(OptoprimeParams(), lines("a").parts())
    assert (made.selector, made.acceptance, made.gate, made.memory) == (Latest(), Always(), "validation", 5)
    assert isinstance(made.credit, ReportCredit)


def digest(folder: str) -> str:
    """Of a whole search by a model, prompts included; run as a script under another hash seed."""
    line = Line(Path(folder))
    search(line, Budget(calls=120), settings=OptoprimeParams(iterations=2))
    entries = [(entry.purpose, entry.alone.prompt_tokens) for entry in line.ledger().entries()]
    return hashlib.sha256(f"{line.log()}{entries}".encode()).hexdigest()


def test_equal_prompts_under_another_hash_seed(tmp_path: Path) -> None:
    code = "import sys; from tests.luthier.methods.test_optoprime import digest; print(digest(sys.argv[1]))"
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-c", code, str(tmp_path / "there")]
    there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert there == f"{digest(str(tmp_path / 'here'))}\n"
