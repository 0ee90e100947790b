"""The command line: `luthier <noun> <verb>`. Heavy imports wait until a command needs them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from luthier.errors import BudgetExhausted, InputError, LuthierError

if TYPE_CHECKING:
    from luthier.harnesses.graph.harness import GraphHarness
    from luthier.ledger.store import Store

GENERATED = 170
"""Questions of a split that `tasks validate` draws where there is no end of them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status. Expected failures print one message that says what to do."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if not hasattr(arguments, "run"):
        parser.print_help()
        return 0
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


class _Commands:
    """Subcommands that all have a description and an example."""

    def __init__(self, parser: argparse.ArgumentParser, *, required: bool = True) -> None:
        self._made = parser.add_subparsers(metavar="command", required=required)

    def add(
        self, name: str, about: str, example: str, run: Callable[[argparse.Namespace], int] | None = None
    ) -> argparse.ArgumentParser:
        parser = self._made.add_parser(
            name,
            help=about,
            description=f"{about[0].upper()}{about[1:]}.",
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if run is not None:
            parser.set_defaults(run=run)
        return parser


class _Version(argparse.Action):
    """Reads the version only when asked: the package's metadata costs as much as all the rest of `--help`."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"luthier {version('luthier')}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="luthier",
        description="Train or search the harness of a frozen language model, on one ledger.",
        epilog="`luthier COMMAND --help` shows a command's options and an example.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and end")
    commands = _Commands(parser, required=False)

    asking = commands.add(
        "ask", "put a question to a trained generator, a search result or the pool", 'luthier ask "..."', _ask
    )
    asking.epilog = _ASK_EXAMPLES
    asking.add_argument("question", nargs="*", help="a question each; - reads them from standard input, one a line")
    asking.add_argument("--file", type=Path, help="one question a line, or rows with references (.jsonl)")
    asking.add_argument(
        "--with",
        dest="writer",
        default="",
        metavar="WHO",
        help="METHOD@ALIAS, METHOD/PHASE, a model id, search:METHOD[/SEED], pool:NAME, program (default: the champion)",
    )
    asking.add_argument("--method", default="", help="whose champion answers (default: the first of params.yaml)")
    asking.add_argument("--json", action="store_true", help="one JSON object a question")

    tasks = _Commands(commands.add("tasks", "list the tasks, or prove their references", "luthier tasks list"))
    tasks.add("list", "names of all tasks", "luthier tasks list", _tasks_list)
    validate = tasks.add(
        "validate",
        "each reference must score 1, an empty answer 0",
        "luthier tasks validate gsm8k --source gsm8k.jsonl --split test",
        _tasks_validate,
    )
    validate.add_argument("task", nargs="?", default="mixed")
    validate.add_argument("--source", default="", help="local file, folder or hub id")
    validate.add_argument("--split", choices=("train", "validation", "test"), help="this one alone (default: all)")
    validate.add_argument(
        "--count", type=int, help=f"questions of a split (default: all; {GENERATED} where they are generated)"
    )

    pool = _Commands(commands.add("pool", "the hand-written configurations", "luthier pool list"))
    pool.add("list", "name, calls and purpose of each", "luthier pool list", _pool_list)

    graph = _Commands(commands.add("graph", "check, draw or convert a graph text", "luthier graph check my.txt"))
    check = graph.add(
        "check", "parse and validate; print the canonical text", "luthier graph check my.txt --json", _graph_check
    )
    check.add_argument("file", type=Path)
    check.add_argument("--json", action="store_true", help="print the JSON form instead")
    draw = graph.add("draw", "write a picture: .svg or .mmd (Mermaid)", "luthier graph draw my.txt my.svg", _graph_draw)
    draw.add_argument("file", type=Path)
    draw.add_argument("out", type=Path)

    lineage = commands.add(
        "lineage",
        "print where a checkpoint comes from, down to the questions",
        "luthier lineage mas_architect/reinforce",
        _lineage,
    )
    lineage.add_argument("model", help="like mas_architect/reinforce, mas_architect@champion or a model id")
    lineage.add_argument("--json", action="store_true", help="everything, with whole digests, for a machine")
    verify = commands.add(
        "verify",
        "build a checkpoint again in a clean clone and compare digests",
        "luthier verify mas_architect/sft",
        _verify,
    )
    verify.add_argument("model")

    contest = commands.add(
        "compare",
        "learned methods and searches at equal total budgets, from built runs",
        "luthier compare --baseline program --page comparison.html",
        _compare,
    )
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

    ledger = commands.add("ledger", "what was spent, by account, role, method and phase", "luthier ledger", _ledger)
    ledger.add_argument(
        "--write-off",
        action="store_true",
        help="no longer count what was in flight when processes were killed against any budget; it stays on record",
    )
    store = _Commands(commands.add("store", "the record of calls and executions", "luthier store repair"))
    store.add("repair", "drop corrupted rows; they are paid again when needed", "luthier store repair", _repair)
    return parser


_ASK_EXAMPLES = """examples:
  luthier ask "How many letters has the last word of this list in alphabetical order: pear, fig, apple?"
  luthier ask --file questions.txt --with mas_architect/sft
  luthier ask --file data/questions/test.jsonl --with pool:sort-last --json
  cat questions.txt | luthier ask - --with search:mipro"""


def _ask(arguments: argparse.Namespace) -> int:
    import json

    from luthier.ask import ask, questions_in, questions_of
    from luthier.context import StageContext
    from luthier.method import Trains
    from luthier.methods import having
    from luthier.report.transcript import transcript, transcript_row

    texts = [text for text in arguments.question if text != "-"]
    if "-" in arguments.question:
        texts += [line for line in sys.stdin.read().splitlines() if line.strip()]
    questions = questions_in(arguments.file) if arguments.file else []
    if texts or not questions:
        questions += questions_of(texts)
    with StageContext("ask", arguments.method) as context:
        context.method = context.method or context.params.ask.methods[0]
        having(context.method, Trains)
        asked = ask(context, arguments.writer, questions, say=lambda line: print(line, file=sys.stderr))
        prices = context.price_tags()
    for place, (question, result, scored) in enumerate(zip(questions, asked.results, asked.scored, strict=True)):
        if arguments.json:
            row = transcript_row(question.text, result, prices, scored=scored)
            print(json.dumps({"writer": asked.writer, **row}, ensure_ascii=False, default=str))
        else:
            shown = transcript(question.text, result, prices, scored=scored, reference=question.reference)
            print(("" if place else f"writer    {asked.writer}\n") + shown + "\n")
    graded = [result.execution.score or 0.0 for result, known in zip(asked.results, asked.scored, strict=True) if known]
    if len(graded) > 1 and not arguments.json:
        print(f"{sum(graded):g} of {len(graded)} right")
    return 0


def _tasks_list(_: argparse.Namespace) -> int:
    from luthier.tasks import TASKS

    print("\n".join(sorted(TASKS)))
    return 0


def _tasks_validate(arguments: argparse.Namespace) -> int:
    from luthier.question import SPLITS
    from luthier.task import Published, validate
    from luthier.tasks import open_task

    task = open_task(arguments.task, arguments.source)
    sound = True
    for split in (arguments.split,) if arguments.split else SPLITS:
        whole = task.size(split) if isinstance(task, Published) else GENERATED
        questions = task.questions(split, whole if arguments.count is None else arguments.count, 7)
        problems = validate(task, questions)
        for problem in problems:
            print(f"{problem.question.id} ({problem.question.family}): {problem.problem}")
        right = len(questions) - len(problems)
        print(f"{arguments.task}: {right} of {len(questions)} {split} questions are sound")
        sound = sound and not problems
    for note in task.notes() if isinstance(task, Published) else ():
        print(f"{arguments.task}: {note}")
    return 0 if sound else 1


def _pool_list(_: argparse.Namespace) -> int:
    from luthier.harnesses.pool.configurations import pool

    for item in pool():
        calls = f"needs {item.needs}" if item.needs else f"{item.calls_min}-{item.calls_max} calls"
        print(f"{item.name:28} {item.family:14} {calls:12} {item.about}")
    return 0


def _graph(path: Path) -> GraphHarness:
    from luthier.harnesses.graph.harness import GraphHarness
    from luthier.reading import read_text

    return GraphHarness.parse(read_text(path, what="the graph", fix="correct the path"))


def _graph_check(arguments: argparse.Namespace) -> int:
    import json

    from luthier.harnesses.graph.json_form import to_json

    graph = _graph(arguments.file)
    print(json.dumps(to_json(graph), ensure_ascii=False, indent=2) if arguments.json else graph.text)
    return 0


def _graph_draw(arguments: argparse.Namespace) -> int:
    from luthier.files import write_atomically
    from luthier.harnesses.graph.picture import to_mermaid, to_svg

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
    import shutil

    from luthier.lineage import to_json, tree

    width = shutil.get_terminal_size((100, 24)).columns
    print(to_json(arguments.model) if arguments.json else tree(arguments.model, width=width))
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from luthier.lineage import verify

    verification = verify(arguments.model, say=print)
    print(verification.render())
    return 0 if verification.identical else 1


def _compare(arguments: argparse.Namespace) -> int:
    from luthier.evaluation.compare import compare
    from luthier.evaluation.method_run import read_contenders
    from luthier.files import write_atomically
    from luthier.question import read_questions
    from luthier.report.comparison.page import render_comparison
    from luthier.report.comparison.summary import lines

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


def _ledger(arguments: argparse.Namespace) -> int:
    from luthier.ledger.ledger import Ledger

    ledger = Ledger(_open_store(), run="luthier ledger")
    if arguments.write_off:
        forgiven = ledger.write_off()
        for run, amount in forgiven.items():
            print(f"written off in {run}: {amount.calls:,} calls")
        if not forgiven:
            print("nothing was lost")
    runs = ledger.runs()
    print(ledger.render(runs) if runs else "nothing was spent yet")
    return 0


def _repair(_: argparse.Namespace) -> int:
    from luthier.ledger.repair import repair

    repaired = repair(_store_path())
    print(f"{repaired.dropped} corrupted rows dropped")
    for run in repaired.entered:
        print(f"the ledger of {run}: the amounts of its dropped entries stay, in one entry")
    if repaired.damaged:
        print(f"the damaged file is {repaired.damaged}; delete it when you do not need it")
    return 0


def _open_store() -> Store:
    from luthier.ledger.store import Store

    return Store(_store_path())


def _store_path() -> Path:
    path = Path(".cache/store.sqlite")
    if not path.exists():
        raise InputError(
            "there is no store yet", where=str(path), fix="run a stage first, for example `dvc repro grid`"
        )
    return path


if __name__ == "__main__":
    raise SystemExit(main())
