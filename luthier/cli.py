"""The command line: `luthier <noun> <verb>`. Heavy imports wait until a command needs them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from luthier.errors import BudgetExhausted, InputError, LuthierError

if TYPE_CHECKING:
    from luthier.harnesses.graph import GraphHarness
    from luthier.store import Store


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status. Expected failures print one message that says what to do."""
    arguments = _parser().parse_args(argv)
    try:
        status = int(arguments.run(arguments) or 0)
        sys.stdout.flush()
        return status
    except (LuthierError, BudgetExhausted) as error:
        print(f"luthier: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader (`| head`) has had enough; nothing may be flushed to it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="luthier", description="Train or search the harness of a frozen language model, on one ledger."
    )
    nouns = parser.add_subparsers(metavar="command", required=True)

    tasks = nouns.add_parser("tasks", help="list the tasks, or prove their references").add_subparsers(required=True)
    tasks.add_parser("list", help="names of all tasks").set_defaults(run=_tasks_list)
    validate = tasks.add_parser("validate", help="each reference must score 1, an empty answer 0")
    validate.add_argument("task", nargs="?", default="mixed")
    validate.add_argument("--source", default="", help="local file, folder or hub id")
    validate.add_argument("--split", default="train", choices=("train", "validation", "test"))
    validate.add_argument("--count", type=int, default=170)
    validate.set_defaults(run=_tasks_validate)

    pool = nouns.add_parser("pool", help="the hand-written configurations").add_subparsers(required=True)
    pool.add_parser("list", help="name, calls and purpose of each").set_defaults(run=_pool_list)

    graph = nouns.add_parser("graph", help="check, draw or convert a graph text").add_subparsers(required=True)
    check = graph.add_parser("check", help="parse and validate; print the canonical text")
    check.add_argument("file", type=Path)
    check.add_argument("--json", action="store_true", help="print the JSON form instead")
    check.set_defaults(run=_graph_check)
    draw = graph.add_parser("draw", help="write a picture: .svg or .mmd (Mermaid)")
    draw.add_argument("file", type=Path)
    draw.add_argument("out", type=Path)
    draw.set_defaults(run=_graph_draw)

    lineage = nouns.add_parser("lineage", help="print where a checkpoint comes from, down to the questions")
    lineage.add_argument("model", help="like mas_architect/reinforce, mas_architect@champion or a model id")
    lineage.set_defaults(run=_lineage)
    verify = nouns.add_parser("verify", help="build a checkpoint again in a clean clone and compare digests")
    verify.add_argument("model")
    verify.set_defaults(run=_verify)

    contest = nouns.add_parser("compare", help="learned methods and searches at equal total budgets, from built runs")
    contest.add_argument(
        "folder",
        nargs="*",
        type=Path,
        default=[Path("data/compare/contenders")],
        help="data/compare/contenders of a build; of builds of other tasks, too, to compare over several tasks",
    )
    contest.add_argument("--baseline", default="target_alone", help="method that the others are compared with")
    contest.add_argument("--unit", default="price", choices=("price", "tokens", "seconds"), help="of spend")
    contest.add_argument("--resamples", type=int, default=2000)
    contest.add_argument("--page", type=Path, help="also write the page to this file")
    contest.set_defaults(run=_compare)

    ledger = nouns.add_parser("ledger", help="what was spent, by account, role, method and phase")
    ledger.set_defaults(run=_ledger)
    store = nouns.add_parser("store", help="the record of calls and executions").add_subparsers(required=True)
    store.add_parser("repair", help="drop corrupted rows; they are paid again when needed").set_defaults(run=_repair)
    return parser


def _tasks_list(_: argparse.Namespace) -> int:
    from luthier.tasks import TASKS

    print("\n".join(sorted(TASKS)))
    return 0


def _tasks_validate(arguments: argparse.Namespace) -> int:
    from luthier.task import validate
    from luthier.tasks import open_task

    task = open_task(arguments.task, arguments.source)
    questions = task.questions(arguments.split, arguments.count, 7)
    problems = validate(task, questions)
    for problem in problems:
        print(f"{problem.question.id} ({problem.question.family}): {problem.problem}")
    print(
        f"{arguments.task}: {len(questions) - len(problems)} of {len(questions)} {arguments.split} questions are sound"
    )
    return 1 if problems else 0


def _pool_list(_: argparse.Namespace) -> int:
    from luthier.harnesses.configurations import pool

    for item in pool():
        calls = f"needs {item.needs}" if item.needs else f"{item.calls_min}-{item.calls_max} calls"
        print(f"{item.name:28} {item.family:14} {calls:12} {item.about}")
    return 0


def _graph(path: Path) -> GraphHarness:
    from luthier.harnesses.graph import GraphHarness

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the graph ({error})", where=str(path), fix="correct the path") from error
    return GraphHarness.parse(text)


def _graph_check(arguments: argparse.Namespace) -> int:
    import json

    from luthier.harnesses.graph_json import to_json

    graph = _graph(arguments.file)
    print(json.dumps(to_json(graph), ensure_ascii=False, indent=2) if arguments.json else graph.text)
    return 0


def _graph_draw(arguments: argparse.Namespace) -> int:
    from luthier.files import write_atomically
    from luthier.harnesses.picture import to_mermaid, to_svg

    if arguments.out.suffix not in (".svg", ".mmd"):
        raise InputError(
            f"cannot draw a {arguments.out.suffix or 'file without suffix'}",
            where=str(arguments.out),
            fix="use .svg or .mmd",
        )
    graph = _graph(arguments.file)
    write_atomically(arguments.out, to_svg(graph) if arguments.out.suffix == ".svg" else to_mermaid(graph))
    return 0


def _lineage(arguments: argparse.Namespace) -> int:
    from luthier.lineage import tree

    print(tree(arguments.model))
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from luthier.lineage import verify

    verification = verify(arguments.model, say=print)
    print(verification.render())
    return 0 if verification.identical else 1


def _compare(arguments: argparse.Namespace) -> int:
    from luthier.contender import read_contenders
    from luthier.contest import compare
    from luthier.files import write_atomically
    from luthier.question import read_questions
    from luthier.report.comparison_page import render_comparison
    from luthier.report.comparison_summary import lines

    for folder in arguments.folder:
        if not folder.is_dir():
            raise InputError("nothing was compared yet", where=str(folder), fix="run `make compare` first")
    contenders = [contender for folder in arguments.folder for contender in read_contenders(folder)]
    comparison = compare(contenders, arguments.baseline, unit=arguments.unit, resamples=arguments.resamples)
    if arguments.page is not None:
        asked = [*(folder.parent.parent / "questions" for folder in arguments.folder), Path("data/questions")]
        files = [folder / name for folder in dict.fromkeys(asked) for name in ("test.jsonl", "held_out.jsonl")]
        questions = [question for path in files if path.exists() for question in read_questions(path)]
        write_atomically(arguments.page, render_comparison(comparison, contenders, questions))
    print("\n".join(lines(comparison)))
    return 0


def _ledger(_: argparse.Namespace) -> int:
    from luthier.ledger import Ledger

    ledger = Ledger(_open_store(), run="luthier ledger")
    runs = ledger.runs()
    print(ledger.render(runs) if runs else "nothing was spent yet")
    return 0


def _repair(_: argparse.Namespace) -> int:
    print(f"{_open_store().repair()} corrupted rows dropped")
    return 0


def _open_store() -> Store:
    from luthier.store import Store

    path = Path(".cache/store.sqlite")
    if not path.exists():
        raise InputError(
            "there is no store yet", where=str(path), fix="run a stage first, for example `dvc repro grid`"
        )
    return Store(path)


if __name__ == "__main__":
    raise SystemExit(main())
