"""TextGrad on a program in which blame has to be carried back to the module at fault."""

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
from luthier.methods.textgrad import CARD, TextgradParams, build
from luthier.methods.textgrad.backward import BackwardCredit
from luthier.search.candidate import Candidate
from luthier.search.contracts import TextDraft
from luthier.search.credit import OutcomeCredit
from luthier.search.programs import ProgramBinding
from luthier.search.proposers.grammar import GrammarProposer
from luthier.search.proposers.llm_proposer import ModelProposer
from luthier.search.selectors import Latest, NotWorse
from luthier.targets.scripted import Fault, ScriptedTarget, prompt_text
from tests.luthier.methods.assembly_line import GRAMMAR, NOTE, ONLY, Line
from tests.luthier.methods.two_modules import Dying

STEPS = 6
SETTINGS = TextgradParams(iterations=STEPS)


@pytest.fixture
def lines(tmp_path: Path):
    """A maker of lines in folders of their own."""
    return lambda name: Line(tmp_path / name)


def offline(line: Line, settings: TextgradParams = SETTINGS):
    return build(settings, line.parts(proposer=GrammarProposer(GRAMMAR)))


def write(request):
    """A proposer that does what the remarks ask for."""
    text = prompt_text(request)
    return f"Gather. {NOTE}" if "note something" in text else f"Phrase. {ONLY}"


def criticise(request):
    """A critic that finds the two faults from what it is shown of a call."""
    text = prompt_text(request)
    call = text.split("The call is named ")[1].split(". Its instruction")[0]
    own = "instruction of this call" in text
    output = text.split("Its output:\n")[1].split("\n\n")[0]
    if "(gather)" in call:
        return "It has to note something." if own and output == "(nothing)" else "nothing"
    if "(phrase)" in call and own:
        return "It says more than the answer."
    return "It is of no use." if not own and ("none" in output or output == "no idea") else "Nothing."


def by_model(line: Line, budget=None, *, settings=SETTINGS, name="run", critic=None, writer=None, wrap=lambda t: t):
    """Search and ledger with models as proposer and critic; `wrap` goes around every target."""
    ledger = line.ledger(budget, name)
    targets = {
        "proposer": writer or ScriptedTarget(write, name="w"),
        "critic": critic or ScriptedTarget(criticise, name="c"),
    }
    meters = {
        role: line.meter(ledger, wrap(target), role=role, split="train", phase="search")
        for role, target in targets.items()
    }
    parts = line.parts(proposer=ModelProposer(meters["proposer"], temperature=0.0), critic_meter=meters["critic"])
    return build(settings, parts), {"ledger": ledger, "target": wrap(line.target), "demonstrations": False}


def search(line: Line, budget=None, **options):
    made, session = by_model(line, budget, **options)
    return line.search(made, budget, name=options.get("name", "run"), **session)


def test_the_card_and_the_register_name_it() -> None:
    assert (CARD.name, CARD.kind, CARD.phases) == ("textgrad", "program", ("search",))
    assert METHODS["textgrad"].search is build


@pytest.mark.parametrize("seed", range(3))
def test_blame_reaches_the_modules_at_fault(lines, seed: int) -> None:
    line = lines(str(seed))
    result = line.search(offline(line), seed=seed)
    assert result.rows[1].best == 0.0
    assert result.score == 1.0
    assert NOTE in result.best.text("gather")
    assert ONLY in result.best.text("phrase")
    edited = {row.detail["component"] for row in result.rows if row.event == "propose"}
    assert edited == {"gather", "phrase"}


@pytest.mark.parametrize("components", ["round_robin", "all"])
def test_with_the_outcome_for_everyone_the_same_loop_does_not_find_it(lines, components: str) -> None:
    scores = []
    for seed in range(3):
        line = lines(str(seed))
        whole = replace(offline(line), credit=OutcomeCredit(steps=line.binding.steps), components=components)
        scores.append(line.search(whole, seed=seed).score)
    assert max(scores) < 1.0


class Spoiler:
    """Makes every module worse."""

    name = "spoiler"

    def propose(self, parent, component, evidence, *, rng, purpose):
        return TextDraft(f"{component}. Spoilt by {purpose}.")


@pytest.mark.parametrize(("acceptance", "decided"), [("validation", "rejected"), ("always", "accepted")])
def test_a_step_that_validation_finds_worse_is_undone_or_kept(lines, acceptance: str, decided: str) -> None:
    line = lines("a")
    right = line.binding.candidate().with_texts({"gather": f"Gather. {NOTE}", "phrase": f"Phrase. {ONLY}"})
    line.binding = ProgramBinding(line.binding.build(right))
    made = build(TextgradParams(iterations=2, acceptance=acceptance), line.parts(proposer=Spoiler()))
    result = line.search(replace(made, credit=OutcomeCredit(), perfect=2.0))
    assert [row.outcome for row in result.rows if row.event == "decide"] == [decided, decided]
    assert (result.score, result.best) == (1.0, right)
    edited = [row.candidate for row in result.rows if row.event == "evaluate" and row.phase == "minibatch"]
    assert (edited[1] == right.digest) == (acceptance == "validation")


def test_calls_per_role_are_those_of_the_formula(lines) -> None:
    """One step on three questions of 4 and 2 module calls; each call asks for itself and for what modules gave it."""
    line = lines("a")
    result = search(line, settings=TextgradParams(iterations=1))
    (row,) = [row for row in result.rows if row.event == "criticise"]
    batch = next(row for row in result.rows if row.phase == "minibatch").detail["questions"]
    counting = sum(question.text.startswith("count") for question in line.train if question.id in batch)
    naming = 3 - counting
    # To count: phrase and its draft; tally (fine), its note and the choice; gather and the choice (fine); route (fine).
    # To name: phrase and its draft (fine), so nobody asks about name and route.
    assert result.criticisms == {"empty": 3 * counting + naming, "said": 5 * counting + naming}
    bill = {role: alone.calls for _, role, phase, alone in line.bill() if phase == "search"}
    assert bill == {"critic": len(row.detail["criticisms"]), "proposer": 2}
    assert row.detail["edited"] == ["gather", "phrase"]
    assert result.score == 1.0


def test_a_module_without_criticism_is_not_edited(lines) -> None:
    line = lines("a")
    result = search(line, critic=ScriptedTarget(lambda request: "nothing", name="kind"))
    assert result.outcomes == {}
    assert set(result.criticisms) == {"empty"}
    assert result.reason == "finished"


def test_twice_gives_equal_logs_and_bills(lines) -> None:
    first, second = lines("a"), lines("b")
    for line in (first, second):
        search(line, Budget(calls=200))
    assert first.log() == second.log()
    assert first.bill() == second.bill()


def test_a_warm_store_gives_the_same_log_and_bill(lines) -> None:
    line = lines("a")
    for name in ("cold", "warm"):
        search(line, Budget(calls=200), name=name)
    assert line.log("cold") == line.log("warm")
    assert line.bill("cold") == line.bill("warm")


@pytest.mark.parametrize(
    ("who", "at"),
    [("c", 0), ("c", 2), ("c", 7), ("w", 0), ("w", 1), ("scripted", 3), ("scripted", 30), ("scripted", 70)],
)
def test_killed_and_resumed_ends_as_if_it_had_not_been(lines, who: str, at: int) -> None:
    whole, killed = lines("whole"), lines("killed")
    settings = TextgradParams(iterations=4, acceptance="always")
    expected = search(whole, Budget(calls=300), settings=settings)
    with pytest.raises(KeyboardInterrupt):
        search(killed, Budget(calls=300), settings=settings, wrap=lambda t: Dying(t, at) if t.name == who else t)
    assert len(killed.log().splitlines()) < len(whole.log().splitlines())
    assert search(killed, Budget(calls=300), settings=settings) == expected
    assert killed.log() == whole.log()
    assert killed.bill() == whole.bill()


@pytest.mark.parametrize("limits", [{"calls": n} for n in (0, 40, 44, 53, 60)] + [{"rollouts": 10}])
def test_no_limit_is_overshot_and_a_larger_budget_goes_on(lines, limits) -> None:
    whole, grown = lines("whole"), lines("grown")
    expected = search(whole, Budget(calls=150), settings=TextgradParams(iterations=3))
    result = search(grown, Budget(**limits), settings=TextgradParams(iterations=3))
    (unit, allowed), *_ = limits.items()
    assert grown.spent().get(unit) <= allowed
    assert result.reason != "finished"
    assert result.rows[:-1] == expected.rows[: len(result.rows) - 1]
    assert search(grown, Budget(calls=150), settings=TextgradParams(iterations=3)) == expected
    assert grown.log() == whole.log()
    assert grown.bill() == whole.bill()


def test_criticism_that_the_machine_failed_in_part_ends_the_search_and_only_that_is_asked_again(lines) -> None:
    line = lines("a")
    faulty = ScriptedTarget(criticise, name="c", faults=[Fault("error", pattern=r"\(tally\)", times=3)])
    settings = TextgradParams(iterations=3)
    with pytest.raises(TargetError, match="failed the critic"):
        search(line, Budget(calls=200), critic=faulty, settings=settings)
    assert not [row for row in line.log().splitlines() if json.loads(row)["event"] == "criticise"]
    healthy = lines("b")
    never_broken = ScriptedTarget(criticise, name="c")
    expected = search(healthy, Budget(calls=200), critic=never_broken, settings=settings)
    for _ in range(3):
        try:
            result = search(line, Budget(calls=200), critic=faulty, settings=settings)
            break
        except TargetError:
            continue
    assert "failed" not in result.criticisms
    assert (result.score, result.criticisms) == (expected.score, expected.criticisms)
    assert faulty.calls == never_broken.calls + 3


def test_a_critic_that_fails_ends_the_search_and_a_repaired_one_goes_on(lines) -> None:
    line = lines("a")
    broken = ScriptedTarget(criticise, name="c", faults=[Fault("error", pattern=".")])
    with pytest.raises(TargetError, match="failed the critic"):
        search(line, critic=broken)
    rows = [json.loads(row) for row in line.log().splitlines()]
    assert not [row for row in rows if row["event"] == "criticise"]
    assert search(line).score == 1.0


@pytest.mark.parametrize(("text", "outcome"), [("", "empty"), ("Comment.", "new"), ("word " * 900, "too-long")])
def test_useless_proposals_are_counted_and_end(lines, text: str, outcome: str) -> None:
    line = lines("a")
    result = search(line, writer=ScriptedTarget(lambda request: text, name="w"), settings=TextgradParams(iterations=3))
    assert result.reason == "finished"
    assert result.outcomes[outcome] >= 2
    assert set(result.outcomes) <= {outcome, "repeated"}


def test_the_same_text_again_is_counted_and_ends(lines) -> None:
    line = lines("a")
    result = search(
        line, writer=ScriptedTarget(lambda request: "Phrase.", name="w"), settings=TextgradParams(iterations=5)
    )
    assert result.reason == "finished"
    assert result.outcomes["repeated"] >= 5


def test_a_proposer_that_fails_ends_the_search(lines) -> None:
    broken = ScriptedTarget(write, name="w", faults=[Fault("error", pattern=".")])
    with pytest.raises(TargetError, match="failed the proposer"):
        search(lines("a"), writer=broken)


@pytest.mark.parametrize("selector", ["pareto", "best", "beam", "latest"])
def test_it_goes_with_every_selector(lines, selector: str) -> None:
    line = lines("a")
    result = line.search(offline(line, TextgradParams(selector=selector, iterations=12)))
    assert result.score == 1.0


def test_defaults_are_the_published_pair(lines) -> None:
    made = build(TextgradParams(), lines("a").parts())
    assert (made.selector, made.acceptance, made.batch, made.components) == (Latest(), NotWorse(), 3, "all")
    assert isinstance(made.credit, BackwardCredit)
    assert "offline" in made.credit.critic.name


def test_test_questions_are_never_touched_and_demonstrations_stay(lines) -> None:
    line = lines("a")
    result = line.search(offline(line))
    known = {question.id for question in (*line.train, *line.validation)}
    assert {id for row in result.rows if row.event == "evaluate" for id in row.detail["questions"]} <= known
    assert isinstance(result.best, Candidate)
    assert result.best.demonstrations == ()


def digest(folder: str) -> str:
    """Of a whole search by models, prompts included; run as a script under another hash seed."""
    line = Line(Path(folder))
    search(line, Budget(calls=120), settings=TextgradParams(iterations=2))
    entries = [(entry.purpose, entry.alone.prompt_tokens) for entry in line.ledger().entries()]
    return hashlib.sha256(f"{line.log()}{entries}".encode()).hexdigest()


def test_equal_prompts_under_another_hash_seed(tmp_path: Path) -> None:
    code = "import sys; from tests.luthier.methods.test_textgrad import digest; print(digest(sys.argv[1]))"
    made = {
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / seed)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert made == {f"{digest(str(tmp_path / 'here'))}\n"}
