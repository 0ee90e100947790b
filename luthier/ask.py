"""`ask`: put questions to what was trained, searched or written by hand, on the frozen target of the profile.

The calls are the ones that an evaluation makes (same prompts, limits, seed and engine), so the answers are, too.
They pay from the account `use`, and what the store already holds costs nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from luthier.context import CACHE, StageContext, spec_of
from luthier.errors import InputError
from luthier.evaluation.evaluate import Result, evaluate
from luthier.execution import Execution
from luthier.executors.execute import Job, execute, require_results
from luthier.generator import ConstantGenerator, Generator
from luthier.harnesses import parse
from luthier.harnesses.pool.configurations import pool, select
from luthier.harnesses.pool.task_programs import program_for
from luthier.lineage import CANDIDATE, CHAMPION, find, weights_of
from luthier.lineage.checkpoint import Checkpoint
from luthier.method import Trains
from luthier.methods import having
from luthier.question import Question, read_questions
from luthier.reading import read_text
from luthier.targets.support.checkpoints import open_checkpoint
from luthier.task import Score
from luthier.tasks import open_task

POOL, SEARCH, PROGRAM = "pool:", "search:", "program"
SEARCH_FOLDER = Path("data/search")


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of the questions.

    Attributes:
        writer: Who wrote the harnesses, as a person would name it.
        results: One a question, in order. scored: Whether each had a reference, so that its score means something.
    """

    writer: str
    results: tuple[Result, ...]
    scored: tuple[bool, ...]


def questions_of(texts: Sequence[str]) -> list[Question]:
    """Questions without a reference, one a text.

    Raises:
        InputError: there is none, or one is empty.
    """
    if not texts:
        raise InputError("there is no question", where="ask", fix='give one: luthier ask "..."')
    questions = []
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            raise InputError(f"question {number} is empty", where="ask", fix="write it, or leave it out")
        questions.append(Question.make(task="ask", text=text.strip(), reference="", split="test"))
    return questions


def questions_in(path: Path) -> list[Question]:
    """Questions of a file: rows with references (`.jsonl`, as in data/questions), or one question a line.

    Raises:
        InputError: the file is missing, empty or broken; it is named.
    """
    if path.suffix == ".jsonl":
        return read_questions(path)
    lines = read_text(path, what="the questions", fix="correct the path", encoding="utf-8-sig").splitlines()
    texts = [line for line in lines if line.strip()]
    if not texts:
        raise InputError("the file holds no question", where=str(path), fix="write one question a line")
    return questions_of(texts)


def ask(
    context: StageContext, writer: str, questions: Sequence[Question], say: Callable[[str], None] = lambda line: None
) -> Asked:
    """Have a harness written for each question and run it.

    Args:
        context: Opened for `ask`, with the method whose generator writes.
        writer: "" for the method's champion (else its candidate), "METHOD@ALIAS", "METHOD/PHASE" or a model id for a
            checkpoint, "search:METHOD" or "search:METHOD/SEED" for what a search found, "pool:NAME" for a hand-written
            configuration, "program" for the program that searches start from.
        questions: With or without reference.
        say: Told in one line what is being opened.

    Raises:
        InputError: there is no such writer, or its files are gone; near names are listed.
        TargetError: the machine failed. BudgetExhausted: the budget ended.
    """
    name, generator = _writer(context, writer, say)
    meter = context.meter("target", "use")

    def run(jobs: Sequence[Job]) -> list[Execution]:
        return execute(jobs, _scorer(context), meter, context.limits, width=context.params.profile.grid.width)

    results = evaluate(generator, questions, run, context.params.ask.seed)
    require_results([result.execution for result in results], "ask")
    return Asked(name, tuple(results), tuple(bool(question.reference) for question in questions))


def _scorer(context: StageContext) -> Callable[[Question, str], Score]:
    """Each question by its own task; what has no reference cannot be scored and gets a 0 that is never shown."""

    def score(question: Question, answer: str) -> Score:
        if not question.reference:
            return Score(0.0, "no reference, so not scored")
        task = context.task if question.task == context.params.ask.task.name else open_task(question.task)
        return task.score(question, answer)

    return score


# --- who writes ------------------------------------------------------------------------------------------------


def _writer(context: StageContext, writer: str, say: Callable[[str], None]) -> tuple[str, Generator]:
    if writer.startswith(POOL):
        name = writer.removeprefix(POOL)
        (configuration,) = select([name])
        assert configuration.harness is not None, "`select` refuses what has no graph"
        return f"{name}, a configuration of the pool", ConstantGenerator(name, configuration.harness)
    if writer == PROGRAM:
        program = program_for(context.params.ask.task.name)
        return f"the hand-written program of {context.params.ask.task.name}", ConstantGenerator(PROGRAM, program)
    if writer.startswith(SEARCH):
        return _searched(context, writer.removeprefix(SEARCH))
    if writer in {item.name for item in pool()}:
        raise InputError(f"{writer!r} is a configuration of the pool", where="--with", fix=f"write {POOL}{writer}")
    checkpoint = find(writer, root=context.root) if writer else _best(context, say)
    return _trained(context, checkpoint, say)


def _best(context: StageContext, say: Callable[[str], None]) -> Checkpoint:
    """The champion; before there is one, the candidate."""
    problem: InputError | None = None
    for alias in (CHAMPION, CANDIDATE):
        try:
            found = find(f"{context.method}@{alias}", root=context.root)
        except InputError as error:
            problem = error
            continue
        if alias != CHAMPION:
            say(f"ask: {context.method} has no champion yet, so its {alias} answers")
        return found
    raise InputError(
        f"nothing was trained yet for {context.method}",
        where="mlruns",
        fix=f"run `make run`, or ask a configuration of the pool: --with {POOL}direct",
    ) from problem


def _trained(context: StageContext, checkpoint: Checkpoint, say: Callable[[str], None]) -> tuple[str, Generator]:
    folder = weights_of(checkpoint, context.root)
    name = f"{checkpoint.method}/{checkpoint.phase}"
    say(f"ask: opening {name} ({checkpoint.model_id})")
    target = context.adopt(open_checkpoint(folder, spec_of(context.params.profile.target), context.root / CACHE))
    meter = context.meter("generator", "use", target=target)
    return name, having(checkpoint.method, Trains).generator(checkpoint.phase, meter, context)


def _searched(context: StageContext, name: str) -> tuple[str, Generator]:
    method, _, seed = name.partition("/")
    folder = context.root / SEARCH_FOLDER
    found = sorted(path.parent.relative_to(folder).as_posix() for path in folder.glob("*/*/program.txt"))
    chosen = [item for item in found if item == name or (not seed and item.startswith(f"{method}/"))]
    if not chosen:
        near = difflib.get_close_matches(name, [*found, *(item.partition("/")[0] for item in found)], n=1)
        fix = f"did you mean {SEARCH}{near[0]}?" if near else f"found: {', '.join(found)}"
        raise InputError(
            f"there is no search {name!r}", where=str(SEARCH_FOLDER), fix=fix if found else "run `dvc repro search`"
        )
    text = read_text(folder / chosen[0] / "program.txt", fix="run `dvc repro search` again")
    return f"the program of search {chosen[0]}", ConstantGenerator(f"{SEARCH}{chosen[0]}", parse("program", text))
