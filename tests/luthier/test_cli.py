"""Every command on real small inputs: what it prints, and how it fails."""

from __future__ import annotations

import importlib.util
import json
import re
import sqlite3
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from luthier.cli import main
from luthier.evaluation.compare import compare
from luthier.evaluation.method_run import MethodRun, write_contender
from luthier.harnesses.pool.configurations import pool
from luthier.ledger.ledger import Amount, Context, Entry, Ledger, Price
from luthier.ledger.store import Store
from luthier.question import Question, write_questions
from luthier.report.comparison.summary import lines
from luthier.target import Usage
from luthier.tasks import TASKS

GRAPH = "x = words(question)   # read\ny=sort( x )\nanswer = first(y)\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.txt").write_text(GRAPH)
    return tmp_path


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_tasks_are_listed(capsys):
    assert run(capsys, "tasks", "list") == (0, "".join(f"{name}\n" for name in sorted(TASKS)), "")


def test_a_task_is_validated(capsys):
    status, out, _ = run(capsys, "tasks", "validate", "mixed", "--count", "34", "--split", "test")
    assert (status, out) == (0, "mixed: 34 of 34 test questions are sound\n")


def test_all_of_a_published_task_is_validated_unless_a_count_is_given(capsys, tmp_path):
    targets = ["Yes", "No", "Yes"] * 10
    rows = [{"input": f"q{number}", "target": target} for number, target in enumerate(targets)]
    source = tmp_path / "navigate.json"
    source.write_text(json.dumps({"examples": [*rows, rows[0], {**rows[1], "target": "Yes"}]}))
    status, out, _ = run(capsys, "tasks", "validate", "bbh", "--source", str(source))
    *splits, merged, contradicted = out.splitlines()
    counts = [re.fullmatch(r"bbh: (\d+) of \1 (\w+) questions are sound", line) for line in splits]
    assert [count[2] for count in counts] == ["train", "validation", "test"]
    assert sum(int(count[1]) for count in counts) == 29
    assert merged.startswith("bbh: 1 copies of questions merged")
    assert contradicted.startswith("bbh: 1 questions left out because their rows contradict each other")
    assert status == 0
    status, out, _ = run(
        capsys, "tasks", "validate", "bbh", "--source", str(source), "--split", "train", "--count", "3"
    )
    assert (status, out.splitlines()[0]) == (0, "bbh: 3 of 3 train questions are sound")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tasks", "validate", "mixd"), "task 'mixd' is unknown. Fix: did you mean mixed?"),
        (("tasks", "validate", "mixed", "--source", "gdc"), "field families: 'gdc' is unknown"),
        (("tasks", "validate", "mixed", "--count", "-1"), "field count: -1 is negative. Fix: ask for 0 or more"),
        (("graph", "check", "none.txt"), "none.txt: cannot read the graph"),
        (("graph", "check", "."), "cannot read the graph"),
        (("graph", "draw", "g.txt", "g.png"), "g.png: cannot draw a .png. Fix: use .svg or .mmd"),
        (("graph", "draw", "g.txt", "g"), "g: cannot draw a file without suffix. Fix: use .svg or .mmd"),
        (("compare",), "data/compare/contenders: nothing was compared yet. Fix: run `make compare` first"),
        (("compare", "none"), "none: nothing was compared yet"),
        (("compare", "."), "no contender in this folder"),
        (("ledger",), ".cache/store.sqlite: there is no store yet. Fix: run a stage first"),
        (("store", "repair"), ".cache/store.sqlite: there is no store yet"),
    ],
)
def test_a_mistake_is_one_message_and_status_1(capsys, here, arguments, words):
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (1, "")
    assert err.startswith("luthier: ")
    assert words in err


@pytest.mark.parametrize(
    "arguments", [("tasks",), ("tsks",), ("graph", "check"), ("tasks", "validate", "--split", "x")]
)
def test_a_wrong_command_line_shows_the_usage(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: luthier")


def test_without_a_command_it_shows_what_there_is(capsys):
    status, out, err = run(capsys)
    assert (status, err) == (0, "")
    assert out.startswith("usage: luthier")
    assert "put a question to a trained generator" in out


def test_the_version_is_the_package_s(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"luthier {version('luthier')}\n"


COMMANDS = ["ask", "tasks list", "tasks validate", "pool list", "graph check", "graph draw"]
COMMANDS += ["lineage", "verify", "compare", "ledger", "store repair"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_description_and_an_example(capsys, command):
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    said = capsys.readouterr().out
    assert f"  luthier {command}" in said.partition("example")[2]
    assert said.split("\n\n")[1].rstrip().endswith(".")


def test_the_pool_is_listed_with_its_calls(capsys):
    status, out, _ = run(capsys, "pool", "list")
    lines = out.splitlines()
    assert status == 0
    assert [line.split()[0] for line in lines] == [item.name for item in pool()]
    assert lines[0].split()[:4] == ["direct", "single", "1-1", "calls"]
    assert any("needs code" in line for line in lines)


def test_a_graph_is_checked_printed_and_converted(capsys, here):
    status, out, _ = run(capsys, "graph", "check", "g.txt")
    assert (status, out) == (0, "x = words(question)\ny = sort(x)\nanswer = first(y)\n")
    status, out, _ = run(capsys, "graph", "check", "g.txt", "--json")
    assert status == 0
    assert [node["run"] if "run" in node else node["name"] for node in json.loads(out)["nodes"]] == [
        "words",
        "sort",
        "first",
    ]


def test_a_broken_graph_names_line_and_fix(capsys, here):
    (here / "g.txt").write_text("x = words(question)\nanswer = frist(x)\n")
    status, _, err = run(capsys, "graph", "check", "g.txt")
    assert status == 1
    assert "line 2" in err
    assert "first" in err
    (here / "g.txt").write_bytes(b"\xff\xfe")
    assert "cannot read the graph" in run(capsys, "graph", "check", "g.txt")[2]


def test_a_graph_is_drawn(capsys, here):
    assert run(capsys, "graph", "draw", "g.txt", "out/g.svg")[0] == 0
    assert (here / "out" / "g.svg").read_text().lstrip().startswith("<svg")
    assert run(capsys, "graph", "draw", "g.txt", "g.mmd")[0] == 0
    assert "sort" in (here / "g.mmd").read_text()


def test_an_unknown_checkpoint_says_what_is_known(capsys, here):
    (here / "params.yaml").write_text("profile: p\n")
    (here / "dvc.yaml").write_text("stages: {}\n")
    status, _, err = run(capsys, "lineage", "mas_architect/sft")
    assert (status, "no checkpoint 'mas_architect/sft'" in err) == (1, True)


# --- compare ---------------------------------------------------------------------------------------------------


def contest(folder: Path, **options) -> tuple[list[MethodRun], list[Question]]:
    """A synthetic contest as the stage would leave it in a folder; its runs and questions."""
    path = Path(__file__).parent / "report" / "synthetic_contest.py"
    spec = importlib.util.spec_from_file_location("synthetic_contest", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    runs, questions = module.contest(seeds=(17,), size=12, **options)
    for item in runs:
        write_contender(folder, item)
    return runs, questions


def test_a_comparison_is_printed_again_from_its_files(capsys, here):
    runs, _ = contest(here / "data" / "compare" / "contenders")
    status, out, err = run(capsys, "compare", "--unit", "tokens", "--resamples", "100")
    assert (status, err) == (0, "")
    assert out.splitlines() == lines(compare(runs, "target_alone", unit="tokens", resamples=100))
    assert not (here / "reports").exists(), "no page unless it is asked for"


def test_a_comparison_is_drawn_against_the_baseline_that_is_named(capsys, here):
    _, questions = contest(here / "c")
    write_questions(here / "data" / "questions" / "test.jsonl", questions[:6])
    write_questions(here / "data" / "questions" / "held_out.jsonl", questions[6:])
    page = here / "out" / "page.html"
    options = ("--unit", "tokens", "--resamples", "100", "--page", str(page))
    status, _, err = run(capsys, "compare", "c", "--baseline", "gepa", *options)
    assert (status, err) == (0, "")
    assert "12 test questions; baseline GEPA" in page.read_text()
    assert "what is the answer to case" in page.read_text(), "the texts of the questions stand in the page"


def test_builds_of_several_tasks_are_compared_together(capsys, here):
    folders = [here / name / "data" / "compare" / "contenders" for name in ("one", "two")]
    runs, questions = contest(folders[0])
    for item in runs:
        write_contender(folders[1], replace(item, task="other"))
    write_questions(folders[1].parent.parent / "questions" / "test.jsonl", questions)
    page = here / "page.html"
    options = ("--unit", "tokens", "--resamples", "100", "--page", str(page))
    status, out, err = run(capsys, "compare", *map(str, folders), *options)
    assert (status, err) == (0, "")
    both = [*runs, *(replace(item, task="other") for item in runs)]
    comparison = compare(both, "target_alone", unit="tokens", resamples=100)
    assert {item.tasks for item in comparison.overall} == {2}
    assert out.splitlines() == lines(comparison)
    assert "what is the answer to case" in page.read_text()


def test_a_comparison_that_cannot_be_made_is_one_message(capsys, here):
    contest(here / "c", transfer=False)
    status, out, err = run(capsys, "compare", "c", "--resamples", "100")
    assert (status, out) == (1, "")
    assert "unknown in price" in err
    assert "Fix: state the price in the profile" in err
    status, out, err = run(capsys, "compare", "c", "--unit", "tokens", "--baseline", "gpea", "--resamples", "100")
    assert (status, out) == (1, "")
    assert "baseline 'gpea' has no run" in err
    broken = next((here / "c").glob("*.jsonl"))
    broken.write_text("{")
    status, out, err = run(capsys, "compare", "c", "--unit", "tokens")
    assert (status, out) == (1, "")
    assert broken.name in err


# --- ledger and store ------------------------------------------------------------------------------------------


def spend(store: Store, run: str, purpose: str, *, cached: bool = False, priced: bool = False) -> None:
    ledger = Ledger(store, run=run, prices={"target": Price(1.0, 2.0)} if priced else None)
    amount = ledger.amount("target", Usage(1, 1000, 100, 2.0))
    entry = Entry(Context("data", "target", "", run), purpose, "answer", cached, Amount() if cached else amount, amount)
    ledger.settle([], [entry])


def test_the_ledger_sums_all_runs_paid_and_uncached(capsys, here):
    store = Store(here / ".cache" / "store.sqlite")
    assert run(capsys, "ledger") == (0, "nothing was spent yet\n", "")
    spend(store, "grid", "a", priced=True)
    spend(store, "teach", "b")
    spend(store, "teach", "a", cached=True)
    store.close()
    status, out, _ = run(capsys, "ledger")
    rows = [line.split() for line in out.splitlines()[1:]]
    assert status == 0
    assert rows == [
        ["data", "target", "grid", "paid", "0", "1", "1,000", "100", "2.0", "0.0012"],
        ["data", "target", "grid", "uncached", "0", "1", "1,000", "100", "2.0", "0.0012"],
        ["data", "target", "teach", "paid", "0", "1", "1,000", "100", "2.0", "unknown"],
        ["data", "target", "teach", "uncached", "0", "2", "2,000", "200", "4.0", "unknown"],
    ]


def test_corrupted_rows_are_dropped_and_counted(capsys, here):
    from luthier.ledger.store import StoredCall
    from luthier.target import Completion, Request

    store = Store(here / ".cache" / "store.sqlite")
    answer = Completion("x", "stop", Usage(1, 1, 1))
    store.put_calls([StoredCall(f"k{n}", "f", Request("p"), answer) for n in range(3)])
    store.close()
    with sqlite3.connect(here / ".cache" / "store.sqlite") as db:
        db.execute("UPDATE calls SET fingerprint = 'g' WHERE key = 'k1'")
    db.close()
    status, out, problem = run(capsys, "store", "repair")
    assert (status, problem) == (0, "")
    assert out.splitlines() == [
        "1 corrupted rows dropped",
        "the damaged file is .cache/store.sqlite.damaged; delete it when you do not need it",
    ]
    assert run(capsys, "store", "repair") == (0, "0 corrupted rows dropped\n", "")
    assert set(Store(here / ".cache" / "store.sqlite").calls(["k0", "k1", "k2"])) == {"k0", "k2"}


# --- the process -----------------------------------------------------------------------------------------------

HEAVY = (
    "torch",
    "mlflow",
    "prefect",
    "transformers",
    "openvino",
    "datasets",
    "trl",
    "reasoning_gym",
    "dvc",
    "pydantic",
    "numpy",
)


def test_the_help_and_the_package_import_nothing_heavy():
    code = (
        "import sys, luthier, luthier.cli\n"
        "try:\n    luthier.cli.main(['--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        f"print('loaded:', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: luthier")
    assert done.stdout.splitlines()[-1] == "loaded: []"


def test_a_reader_that_has_had_enough_causes_no_traceback():
    command = f"{sys.executable} -m luthier.cli pool list | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("direct ")
    assert done.stderr == ""
