"""The stages through their own entry points: what they write, and one clear message for each bad input."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from luthier import cli
from luthier.context import StageContext
from luthier.files import digest_folder, read_rows
from luthier.question import read_questions
from stages import evaluate, grid, questions, reinforce, sft, teach
from stages.entry import run_stage
from tests.stages.conftest import ASK, PROFILE


def run(module, *arguments: str) -> int:
    name = module.__name__.rpartition(".")[2]
    per_method = name not in ("questions", "grid")
    extra = ("--method", "mas_architect") if per_method else ()
    return run_stage(name, module.work, [*extra, *arguments], per_method=per_method)


def failure(capsys, module, *arguments: str) -> str:
    """The message of a stage that must fail; nothing but one line."""
    assert run(module, *arguments) == 1
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert message.startswith(f"{module.__name__.rpartition('.')[2]}: ")
    return message


def forecast_of(capsys, module) -> dict[str, float | None]:
    """The column "of full" of a stage's forecast, by unit; None where it is unknown."""
    capsys.readouterr()
    assert run(module, "--dry-run") == 0
    rows = [re.split(r"  +", line.strip()) for line in capsys.readouterr().out.splitlines()]
    table = {row[0]: row[2].replace(",", "") for row in rows if len(row) == 3}
    return {unit: None if value == "unknown" else float(value) for unit, value in table.items()}


@pytest.fixture
def asked(project) -> Path:
    """A project whose questions are drawn."""
    folder = project()
    assert run(questions) == 0
    return folder


# --- what they do ----------------------------------------------------------------------------------------------


def test_questions_are_drawn_proved_and_the_same_each_time(asked):
    splits = {split: read_questions(Path(f"data/questions/{split}.jsonl")) for split in ("train", "validation", "test")}
    assert {split: len(rows) for split, rows in splits.items()} == {"train": 17, "validation": 17, "test": 17}
    assert len({row.id for rows in splits.values() for row in rows}) == 51
    before = digest_folder(Path("data"))
    assert run(questions) == 0
    assert digest_folder(Path("data")) == before


def test_the_grid_runs_everything_once_and_again_for_nothing(asked):
    assert run(grid) == 0
    rows = list(read_rows(Path("data/grid/executions.jsonl")))
    assert len(rows) == (17 + 17) * 3
    summary = json.loads(Path("data/grid/summary.json").read_text())
    assert summary["best_on_validation"] in ("direct", "gcd", "sort-words")
    before = digest_folder(Path("data/grid"))
    with StageContext("grid") as context:
        paid = context.ledger.spent()
    assert paid.calls > 0
    assert run(grid) == 0
    with StageContext("grid") as context:
        assert context.ledger.spent() == paid
    assert digest_folder(Path("data/grid")) == before


def test_a_dry_run_spends_and_writes_nothing(asked, capsys):
    assert run(grid, "--dry-run") == 0
    out = capsys.readouterr().out
    assert "17 questions x 3 configurations = 51 executions" in out
    assert "remaining" in out
    assert not Path("data/grid").exists()
    with StageContext("grid") as context:
        assert context.ledger.spent().calls == 0


@pytest.mark.slow
def test_the_whole_pipeline_runs_and_repeats_byte_for_byte(project, tiny_base, capsys):
    project(profile=PROFILE.replace("MODEL", str(tiny_base)))
    chain = (questions, grid, teach, sft, reinforce, evaluate)
    digests = []
    for _ in range(2):
        assert [run(module) for module in chain] == [0] * len(chain)
        folders = [Path(name) for name in ("data/teach", "models/sft", "models/reinforce", "data/evaluate")]
        digests.append([digest_folder(folder) for folder in folders])
    assert digests[0] == digests[1]
    log = json.loads(Path("data/teach/mas_architect/log.json").read_text())
    assert log["counts"]["rows"] == len(list(read_rows(Path("data/teach/mas_architect/rows.jsonl")))) > 0
    scores = json.loads(Path("data/evaluate/mas_architect/scores.json").read_text())
    assert sorted(scores["test"]) == [
        "best_fixed", "nearest_row", "random_graph", "reinforce", "router", "sft", "target_alone",
    ]  # fmt: skip
    assert {*scores["lookups"]} == {"nearest_row", "router"}
    best = max(scores["lookups"], key=lambda name: (scores["lookups"][name]["validation"], name))
    assert {f"sft_minus_{best}", f"reinforce_minus_{best}"} <= {*scores["differences"]}
    assert {table["pooled"]["n"] for table in scores["test"].values()} == {17}
    assert scores["oracle_over_pool"]["upper_bound"] is True
    assert len(list(read_rows(Path("data/evaluate/mas_architect/executions.jsonl")))) == 7 * 17
    record = json.loads(Path("models/reinforce/mas_architect/training.json").read_text())
    assert record["parent"] == digest_folder(Path("models/sft/mas_architect"))
    with StageContext("evaluate", "mas_architect") as context:
        lines = {(line.account, line.role) for line in context.ledger.totals()}
    assert {("test", "target"), ("test", "generator"), ("train", "generator")} <= lines
    trained = {}
    for stage in ("sft", "reinforce"):
        with StageContext(stage, "mas_architect") as context:
            mine = [line for line in context.ledger.totals() if line.role == "generator"]
            trained |= {line.phase: (line.account, line.alone.calls, line.paid.calls) for line in mine}
    rows = log["counts"]["rows"]
    assert trained["sft update"] == ("train", 2 * rows, 4 * rows), "two epochs; both runs of the stage trained"
    assert trained["reinforce"] == ("train", 2 * 8, 2 * 2 * 8)
    assert 0 < trained["reinforce update"][1] <= 2 * 8, "equal samples are one row"
    # A lock file stays: removing it could part two processes that wait for the same training.
    left = [path for path in Path(".cache/training").iterdir() if path.suffix != ".lock"]
    assert not left, "the journals went with the trainers' state"
    capsys.readouterr()
    assert cli.main(["ledger"]) == 0
    table = capsys.readouterr().out
    assert "uncached" in table
    assert "unknown" in table, "a price that nobody gave is unknown, not 0"
    for stage, module in (("sft", sft), ("reinforce", reinforce), ("evaluate", evaluate)):
        with StageContext(stage, "mas_architect") as context:
            before, real = context.ledger.spent(), context.ledger.spent("alone")
        forecast = forecast_of(capsys, module)
        if stage == "sft":
            known = (real.calls, real.prompt_tokens, real.completion_tokens)
            assert tuple(forecast[unit] for unit in ("calls", "prompt tokens", "completion tokens")) == known
        assert forecast["completion tokens"] >= real.completion_tokens, stage
        assert forecast["rollouts"] >= real.rollouts, stage
        assert forecast["seconds"] > 0, "the pace is known from the runs above"
        assert forecast["price (USD)"] is None, "nobody gave one"
        with StageContext(stage, "mas_architect") as context:
            assert context.ledger.spent() == before


# --- bad input -------------------------------------------------------------------------------------------------


def test_an_unknown_task_names_the_near_one(project, capsys):
    project(ask=ASK + "task: { name: mixd }\n")
    assert "task 'mixd' is unknown. Fix: did you mean mixed?" in failure(capsys, questions)
    assert "task 'mixd' is unknown" in failure(capsys, questions, "--dry-run")


def test_an_unknown_method_names_the_near_one(project, capsys):
    project()
    assert run_stage("teach", teach.work, ["--method", "mas_architct"], per_method=True) == 1
    assert "'mas_architct' is unknown (did you mean 'mas_architect'?)" in capsys.readouterr().err


def test_an_unknown_profile_and_a_typo_name_the_near_ones(project, capsys):
    project(ask=ASK.replace("tiny", "tny"))
    assert "params.yaml: field profile: 'tny' is unknown (did you mean 'tiny'?)" in failure(capsys, grid)
    project(profile=PROFILE.replace("epochs", "epoch"))
    assert "profiles/tiny.yaml: field mas_architect.sft.epoch: unknown (did you mean 'epochs'?)" in failure(
        capsys, grid
    )


def test_a_missing_broken_empty_or_doubled_question_file_is_named(asked, capsys):
    path = Path("data/questions/train.jsonl")
    good = path.read_text()
    for text, words in [
        (good.replace('"split"', '"splt"', 1), "data/questions/train.jsonl:1: field splt: unknown. Fix: did you mean"),
        (good[:-20], "data/questions/train.jsonl:17: not a JSON object"),
        ("", "data/questions/train.jsonl: the question file is empty"),
        (good + good.splitlines()[2] + "\n", "data/questions/train.jsonl:18: field id: "),
    ]:
        path.write_text(text)
        assert words in failure(capsys, grid)
    path.unlink()
    assert "data/questions/train.jsonl: cannot read the question file" in failure(capsys, grid)
    assert not Path("data/grid").exists()


def test_a_budget_too_small_for_one_step_stops_before_it_and_loses_nothing(asked, capsys):
    asked.joinpath("params.yaml").write_text(ASK + "budget: { calls: 0 }\n")
    message = failure(capsys, grid)
    assert "budget exhausted: the next call needs 1 calls in account 'data', the limit is 0" in message
    assert "Fix: raise budget.calls" in message
    assert not Path("data/grid").exists()
    asked.joinpath("params.yaml").write_text(ASK + "budget: { calls: 20 }\n")
    failure(capsys, grid)
    with StageContext("grid") as context:
        assert context.ledger.spent().calls == 20, "all that the limit allows, and no call more"
    asked.joinpath("params.yaml").write_text(ASK)
    assert run(grid) == 0
    with StageContext("grid") as context:
        assert context.ledger.spent().calls == 34 * 3, "what was paid before the stop is not paid again"


def test_a_raised_limit_counts_what_was_spent_before(asked, capsys):
    for limit in (5, 8):
        asked.joinpath("params.yaml").write_text(f"{ASK}budget: {{ calls: {limit} }}\n")
        failure(capsys, grid)
        with StageContext("grid") as context:
            assert context.ledger.spent().calls == limit


def test_a_full_disk_is_one_message(project):
    folder = project()
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024));"
        "from stages import questions; from stages.entry import run_stage;"
        "raise SystemExit(run_stage('questions', questions.work, []))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 1
    assert "questions: data/questions/train.jsonl: cannot write the file (File too large). Fix: free" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((folder / "data" / "questions").iterdir()) == []


def test_a_corrupted_row_of_the_store_is_named_and_repaired(asked, capsys):
    assert run(grid) == 0
    before = digest_folder(Path("data/grid"))
    with sqlite3.connect(".cache/store.sqlite") as db:
        key = db.execute("SELECT key FROM executions ORDER BY key LIMIT 1").fetchone()[0]
        db.execute("UPDATE executions SET row = replace(row, '\"ok\"', '\"no\"') || ' ' WHERE key = ?", [key])
    db.close()
    message = failure(capsys, grid)
    assert "does not match its digest" in message
    assert "luthier store repair" in message
    assert cli.main(["store", "repair"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "1 corrupted rows dropped"
    assert run(grid) == 0
    assert digest_folder(Path("data/grid")) == before


def test_no_teacher_rows_says_what_to_raise(asked, capsys):
    folder = asked / "data" / "teach" / "mas_architect"
    folder.mkdir(parents=True)
    (folder / "rows.jsonl").write_text("")
    assert "no teacher rows. Fix: raise grid.train or teach.variations" in failure(capsys, sft)


def test_a_generator_that_is_no_folder_is_named(asked, capsys):
    folder = asked / "data" / "teach" / "mas_architect"
    folder.mkdir(parents=True)
    (folder / "rows.jsonl").write_text('{"prompt": "p", "completion": "c"}\n')
    assert "field generator.model: no folder 'MODEL'" in failure(capsys, sft)


def test_an_evaluation_without_the_target_alone_is_refused_before_it_spends(asked, capsys):
    assert "data/grid/summary.json: cannot read the file" in failure(capsys, evaluate)
    assert run(grid) == 0
    project_file = asked / "profiles" / "tiny.yaml"
    project_file.write_text(PROFILE.replace("direct, gcd", "gcd"))
    assert "field grid.configurations: 'direct' is missing" in failure(capsys, evaluate)
    project_file.write_text(PROFILE.replace("gcd, sort-words", "lcm"))
    summary = Path("data/grid/summary.json")
    summary.write_text(json.dumps({"best_on_validation": "gcd"}))
    assert "field best_on_validation: 'gcd' is none of the profile's configurations" in failure(capsys, evaluate)
    with StageContext("evaluate", "mas_architect") as context:
        assert context.ledger.spent("paid", "test").calls == 0


def test_a_price_limit_names_the_price_that_evaluate_lacks_before_it_spends(asked, capsys):
    assert run(grid) == 0
    per_million = "prompt_usd_per_million: 1, completion_usd_per_million: 2"
    priced = PROFILE.replace('model: "2" }', f'model: "2", {per_million} }}')
    (asked / "profiles" / "tiny.yaml").write_text(priced)
    (asked / "params.yaml").write_text(ASK + "budget: { price: 1.0 }\n")
    field = "profiles/tiny.yaml, field mas_architect.generator.prompt_usd_per_million: role 'generator' has no price"
    assert field in failure(capsys, evaluate)
    with StageContext("evaluate", "mas_architect") as context:
        assert context.ledger.spent("paid", "test").calls == 0
    (asked / "profiles" / "tiny.yaml").write_text(priced.replace("max_tokens: 10", f"max_tokens: 10, {per_million}"))
    assert "data/teach/mas_architect" in failure(capsys, evaluate), "priced, it goes on to the rows that it needs"
    with StageContext("evaluate", "mas_architect") as context:
        assert (context.ledger.spent("alone", "test").price or 0) > 0


def test_an_unknown_configuration_names_the_near_one(asked, capsys):
    (asked / "profiles" / "tiny.yaml").write_text(PROFILE.replace("sort-words", "sort-word"))
    assert "configuration 'sort-word' is unknown. Fix: did you mean sort-words" in failure(capsys, grid)
