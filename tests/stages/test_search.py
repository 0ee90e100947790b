"""The stage `search`: what it writes, when it ends, how it goes on, and one clear message for each bad input."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from luthier.context import StageContext
from luthier.errors import InputError, TargetError
from luthier.files import digest_folder, locked
from luthier.harnesses.pool.task_programs import PROGRAM_TASKS, SINGLE, program_for, read_program_file
from luthier.harnesses.program.harness import ProgramHarness
from luthier.settings.load import load_params
from luthier.targets.scripted import Fault
from luthier.task import Score
from luthier.tasks.generated.mixed import MixedSuite
from stages import search
from stages.entry import run_stage
from tests.stages.search_world import (
    SEARCH_ASK,
    SEARCH_PROFILE,
    SEARCHES,
    bill,
    budgets,
    log,
    result,
    search_landscape,
)

ROOT = Path(__file__).parents[2]


def run(method: str, *arguments: str) -> int:
    return run_stage("search", search.work, ["--method", method, *arguments], per_method=True, searches=True)


def message(capsys, method: str, *arguments: str) -> str:
    """What a stage that must fail says, in one line."""
    assert run(method, *arguments) == 1
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    return said[0]


# --- what it writes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", SEARCHES)
def test_a_search_writes_log_result_and_program_the_same_in_fresh_folders(begin, method):
    found = []
    for name in ("one", "two"):
        folder = begin(name)
        said = search_landscape(method)
        files = sorted(path.name for path in (folder / search.OUT / method / "17").iterdir())
        assert files == ["log.jsonl", "program.txt", "result.json"]
        found.append((digest_folder(folder / search.OUT), bill(method)))
    assert found[0] == found[1]
    rows = log(method)
    assert [row["event"] for row in (rows[0], rows[-1])] == ["start", "stop"]
    assert [row["step"] for row in rows] == list(range(len(rows)))
    assert (said["score"], said["reason"], said["unit"]) == (rows[-1]["best"], rows[-1]["outcome"], "calls")
    assert said["curve"][-1]["score"] == said["score"] == pytest.approx(4 / 6), "one family was learned"
    assert [(stand["budget"], stand["score"]) for stand in said["stands"]] == [
        (60, said["score"]),
        (300, said["score"]),
    ]
    text = Path(search.OUT, method, "17", "program.txt").read_text()
    assert ProgramHarness.parse(text).text == text == said["stands"][-1]["program"]
    assert text != program_for("mixed").text
    assert sum(line[4] for line in found[0][1]) == rows[-1]["spent"]["calls"]


def test_each_seed_of_the_comparison_is_a_search_of_its_own(begin):
    begin(profile=SEARCH_PROFILE.replace("seeds: [17]", "seeds: [17, 18]"))
    search_landscape("gepa")
    assert [result("gepa", seed)["seed"] for seed in (17, 18)] == [17, 18]
    choices = [[row["detail"].get("questions") for row in log("gepa", seed)] for seed in (17, 18)]
    assert choices[0] != choices[1]


def test_the_stage_runs_on_the_target_of_the_profile_and_repeats_for_nothing(begin, capsys):
    begin()
    assert run("gepa") == 0
    assert "search: gepa 17 ended (finished) with 33.3% on validation" in capsys.readouterr().out
    before = digest_folder(Path("data")), bill("gepa")
    with StageContext("search", "gepa") as context:
        paid = context.store.count("calls")
    assert run("gepa") == 0
    with StageContext("search", "gepa") as context:
        assert context.store.count("calls") == paid
    assert (digest_folder(Path("data")), bill("gepa")) == before


def test_a_second_process_waits_for_a_search_that_runs(begin, monkeypatch):
    """Two writers of one log would leave steps twice in it, which no later run could read."""
    begin()
    search_landscape("gepa")
    (lock,) = Path(search.LOGS).glob("*.lock")
    before = log("gepa")
    held, release, told = threading.Event(), threading.Event(), []

    def hold():
        with locked(lock):
            held.set()
            release.wait(60)

    def wait(holder):
        told.append(holder)
        release.set()

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(60)
    monkeypatch.setattr(search, "_wait", wait)
    search_landscape("gepa")
    holder.join()
    assert told == [str(os.getpid())]
    assert log("gepa") == before


@pytest.mark.parametrize(("feedback", "shown"), [("trace", True), ("text", False), ("score", False)])
def test_only_a_proposer_that_may_read_traces_is_given_cases(begin, feedback, shown):
    longer = SEARCH_PROFILE.replace("gepa: { iterations: 6 }", "gepa: { iterations: 40 }").replace("[60, 300]", "[900]")
    begin(profile=longer.replace("  train: 9", f"  scope: {{ feedback: {feedback} }}\n  train: 9"))
    search_landscape("gepa")
    drafts = [row["detail"]["text"] for row in log("gepa") if row["event"] == "propose"]
    started = program_for("mixed").modules["route"].instruction.count("\n\n")
    routed = [text for text in drafts if text.startswith("Name the tools")]
    assert routed
    assert any(text.count("\n\n") > started for text in routed) == shown


def test_a_dry_run_says_what_one_validation_needs_and_spends_nothing(begin, capsys):
    begin(profile=budgets(5))
    assert run("gepa", "--dry-run") == 0
    out = capsys.readouterr().out
    assert "one validation pass needs up to 18 calls" in out
    assert "1 searches of at most 5 calls each" in out
    assert "the budget is smaller than one validation pass" in out
    assert not search.OUT.exists()
    assert bill("gepa") == []


# --- budgets -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", SEARCHES)
def test_no_budget_is_passed_by_one_call(begin, method):
    reasons = []
    for limit in (18, 19, 23, 26, 37, 45):
        begin(f"limit-{limit}", profile=budgets(limit))
        reasons.append(search_landscape(method)["reason"])
        spent = sum(line[4] for line in bill(method))
        assert spent == log(method)[-1]["spent"]["calls"] <= limit
        assert spent >= 6, "one validation pass fits"
    assert reasons[0].startswith("calls: 18 allowed, up to ")


@pytest.mark.parametrize("method", ["mipro", "textgrad", "optoprime", "gepa"])
def test_the_calls_of_proposer_and_critic_stand_within_the_budget(begin, method):
    server = "\nproposer: { engine: scripted, model: Work in small steps. }\n"
    for limit in (36, 47):
        profile = (budgets(limit) + server).replace(f"  {method}: {{", f"  {method}: {{ proposer: model,")
        begin(f"limit-{limit}", profile=profile)
        said = search_landscape(method)
        assert sum(line[4] for line in bill(method)) == log(method)[-1]["spent"]["calls"] <= limit
        assert "proposer" in said["roles"].split(", ")


@pytest.mark.parametrize("method", SEARCHES)
def test_another_budget_gives_what_it_gives_in_a_fresh_folder_and_pays_no_call_twice(begin, method):
    """Raised or lowered, in a folder whose store holds the answers of the budgets before."""
    whole = {}
    for values in ((20, 26), (20, 26, 300)):
        begin(f"fresh-{len(values)}", profile=budgets(*values))
        search_landscape(method)
        whole[values] = digest_folder(search.OUT)
    stored = []
    for values in ((20, 26), (20, 26, 300), (20, 26)):
        begin("changed", profile=budgets(*values))
        search_landscape(method)
        assert digest_folder(search.OUT) == whole[values]
        with StageContext("search", method) as context:
            stored.append(context.store.count("calls"))
    assert stored[0] < stored[1] == stored[2]


@pytest.mark.parametrize("method", SEARCHES)
def test_a_price_ends_a_search_and_gives_its_stands(begin, method):
    begin("free")
    search_landscape(method)
    tokens = log(method)[-1]["spent"]
    limit = round(0.85 * (10 * tokens["prompt_tokens"] + 20 * tokens["completion_tokens"]) / 1e6, 6)
    price = ", prompt_usd_per_million: 10, completion_usd_per_million: 20 }"
    begin("priced", profile=budgets(limit, unit="price").replace("model: gcd }", f"model: gcd{price}"))
    said = search_landscape(method)
    assert said["reason"].startswith("price: ")
    spent = said["stands"][0]["spent"]["picodollars"] / 1e12
    assert 0 < spent <= limit
    assert log(method)[-1]["spent"]["picodollars"] / 1e12 == spent


def test_a_budget_smaller_than_one_validation_leaves_the_program_as_it_starts(begin, capsys):
    begin(profile=budgets(5, 17))
    for method in SEARCHES:
        said = search_landscape(method)
        assert said["reason"].startswith("calls: 17 allowed, up to ")
        assert (said["score"], said["curve"]) == (None, [])
        start = program_for("mixed").text
        assert Path(search.OUT, method, "17", "program.txt").read_text() == start
        assert [(s["budget"], s["score"], s["validations"], s["program"]) for s in said["stands"]] == [
            (5, None, 0, start),
            (17, None, 0, start),
        ]
        assert f"search: {method} 17 ended" in capsys.readouterr().out


# --- resume --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", SEARCHES)
def test_a_search_whose_machine_breaks_anywhere_ends_as_if_it_had_not(begin, method):
    begin("whole")
    search_landscape(method)
    whole = digest_folder(search.OUT), bill(method)
    begin("broken")
    for call in (0, 7, 13):
        with pytest.raises(TargetError, match="down"):
            search_landscape(method, Fault("down", frozenset({call})))
        assert not search.OUT.exists(), "a search that did not end gives no result"
    search_landscape(method)
    assert (digest_folder(search.OUT), bill(method)) == whole


# --- bad input -----------------------------------------------------------------------------------------


def test_no_budget_is_refused_before_anything_is_spent(begin, capsys):
    begin(profile=budgets())
    assert (
        "profiles/tiny.yaml: field compare.budgets: empty, so a search has no end. Fix: name total budgets"
        in message(capsys, "gepa")
    )
    assert "field compare.budgets: empty" in message(capsys, "gepa", "--dry-run")
    assert not Path(".cache/store.sqlite").exists()


def test_a_wrong_budget_or_unit_names_its_field(begin, capsys):
    for profile, words in [
        (budgets(60, unit="cals"), "profiles/tiny.yaml: field compare.unit: Input should be 'price', 'calls'"),
        (budgets(60, 60), "budgets [60.0, 60.0] must be different numbers of at least 0"),
        (budgets(-1), "budgets [-1.0] must be different numbers"),
        (
            budgets(1, unit="price"),
            "profiles/tiny.yaml, field target.prompt_usd_per_million: role 'target' has no price",
        ),
    ]:
        begin(profile=profile)
        assert words in message(capsys, "gepa")


def test_an_unknown_search_names_the_near_one(begin, capsys):
    begin(ask=SEARCH_ASK.replace("gepa", "gpea"))
    assert "params.yaml: field searches: 'gpea' is unknown (did you mean 'gepa'?)" in message(capsys, "gepa")
    begin()
    for arguments in ((), ("--dry-run",)):
        assert "field searches: 'gpea' is unknown (did you mean 'gepa'?)" in message(capsys, "gpea", *arguments)
        assert "field searches: 'mas_architect' is unknown" in message(capsys, "mas_architect", *arguments)


def test_an_unknown_setting_of_a_search_names_the_near_one(begin, capsys):
    begin(profile=SEARCH_PROFILE.replace("gepa: { iterations", "gepa: { iteration"))
    assert "field search.gepa.iteration: unknown (did you mean 'iterations'?)" in message(capsys, "gepa")


def test_a_model_that_proposes_must_be_named(begin, capsys):
    begin(profile=SEARCH_PROFILE.replace("gepa: {", "gepa: { proposer: model,"))
    words = (
        "profiles/tiny.yaml: field search.gepa.proposer: 'model', but no model is named. Fix: add a section `proposer`"
    )
    assert words in message(capsys, "gepa")
    assert bill("gepa") == []


def test_missing_questions_are_named(begin, capsys):
    folder = begin()
    (folder / "data" / "questions" / "validation.jsonl").unlink()
    assert "data/questions/validation.jsonl: cannot read the question file" in message(capsys, "gepa")


def test_a_program_longer_than_the_scope_is_refused_before_it_spends(begin, capsys):
    longest = max(len(module.instruction) for module in program_for("mixed").modules.values())
    scope = f"search:\n  scope: {{ max_characters: {longest - 1} }}"
    begin(profile=SEARCH_PROFILE.replace("search:", scope))
    words = f"field max_characters: {longest - 1}, but the text of 'route' has {longest} before any edit"
    assert words in message(capsys, "gepa")
    assert bill("gepa") == []


@pytest.mark.parametrize("profile", sorted(path.stem for path in (ROOT / "profiles").glob("*.yaml")))
def test_every_shipped_program_starts_within_the_scope_of_a_shipped_profile(tmp_path, profile):
    shutil.copytree(ROOT / "profiles", tmp_path / "profiles")
    (tmp_path / "params.yaml").write_text(f"profile: {profile}\nmethods: [mas_architect]\n")
    limit = load_params(tmp_path).profile.search.scope.max_characters
    for name in (*PROGRAM_TASKS, SINGLE):
        for module in read_program_file(name).modules.values():
            assert len(module.instruction) + 200 <= limit, "room for a part of each slot of the offline grammar"


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (lambda *_: 1 / 0, "the metric raised ZeroDivisionError"),
        (lambda *_: Score(float("nan")), "the metric gave nan"),
    ],
    ids=["raises", "nan"],
)
@pytest.mark.parametrize("method", SEARCHES)
def test_a_broken_metric_ends_any_search_with_one_error_and_its_repair_goes_on(
    begin, monkeypatch, method, broken, problem
):
    begin("whole")
    search_landscape(method)
    whole = digest_folder(search.OUT), bill(method)
    begin("broken")
    with monkeypatch.context() as patch:
        patch.setattr(MixedSuite, "score", broken)
        with pytest.raises(InputError, match=problem):
            search_landscape(method)
    search_landscape(method)
    assert (digest_folder(search.OUT), bill(method)) == whole


def test_no_training_questions_are_refused_before_anything_is_paid(begin):
    folder = begin()
    (folder / "data" / "questions" / "train.jsonl").write_text("")
    with pytest.raises(InputError, match=r"data/questions/train\.jsonl: the question file is empty"):
        search_landscape("textgrad")
    assert bill("textgrad") == []
