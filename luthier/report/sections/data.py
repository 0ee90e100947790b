"""What the report reads, checked: a missing or foreign file is one error that names the stage to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from luthier.errors import InputError
from luthier.evaluation.evaluate import Composition, Result, Summary
from luthier.evaluation.statistics import Difference, Interval
from luthier.files import read_rows_as
from luthier.method import MethodCard
from luthier.methods import card
from luthier.question import SPLITS, Question, read_questions
from luthier.reading import read_object, shaped
from luthier.teaching.rows import TeacherRow, TeachLog

OPPONENTS = ("target_alone", "best_fixed", "nearest_row", "router")
"""What a trained generator is told beside, untrained all of them."""
BASELINES = (*OPPONENTS, "random_graph")
TRAINING = "training.json"


@dataclass(frozen=True, slots=True)
class Oracle:
    """The best of the pool per question: an upper bound that looks at the scores."""

    configurations: int
    pooled: Interval


@dataclass(frozen=True, slots=True)
class Scores:
    """A method's `scores.json`.

    Attributes:
        best_fixed: Name of the configuration that validation chose. seed: Training seed.
        test, validation: Summary by contender. oracle: Upper bound over the pool.
        pool: Test mean by configuration. differences: Paired, by "<ours>_minus_<theirs>".
        compositions, novel: What each phase wrote; those that no teacher row holds and that solve their family.
    """

    best_fixed: str
    seed: int
    test: Mapping[str, Summary]
    validation: Mapping[str, Summary]
    oracle: Oracle
    pool: Mapping[str, float]
    differences: Mapping[str, Difference]
    compositions: Mapping[str, tuple[Composition, ...]]
    novel: Mapping[str, tuple[Composition, ...]]

    @property
    def learned(self) -> tuple[str, ...]:
        """The contenders that were trained, in the order of training."""
        return tuple(name for name in self.test if name not in BASELINES)

    @property
    def final(self) -> str:
        """The contender after the last phase."""
        return self.learned[-1]


@dataclass(frozen=True, slots=True)
class TrainingRecord:
    """One phase's `training.json`.

    Attributes:
        phase: "sft". folder: The checkpoint. seed: Of the training. parent: Digest of the folder it started from.
        inputs: Digest of each input by name. settings: As used. curve: One row per logged step.
        trainable: Number of trained weights. rows: Training rows or questions.
    """

    phase: str
    folder: Path
    seed: int
    parent: str
    inputs: Mapping[str, str]
    settings: Mapping[str, Any]
    curve: Sequence[Mapping[str, float]]
    trainable: int
    rows: int


@dataclass(frozen=True, slots=True)
class Teaching:
    """What the teacher did: the filter's counts and the rows that it kept."""

    log: TeachLog
    rows: tuple[TeacherRow, ...]

    @property
    def families(self) -> Mapping[str, int]:
        """Teacher rows by family."""
        sizes: dict[str, int] = {}
        for row in self.rows:
            sizes[row.family] = sizes.get(row.family, 0) + 1
        return sizes


@dataclass(frozen=True, slots=True)
class MethodData:
    """Everything of one method. `teaching` is None for a method without that phase."""

    card: MethodCard
    scores: Scores
    results: Mapping[str, tuple[Result, ...]]
    teaching: Teaching | None
    records: tuple[TrainingRecord, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that the results were measured at."""
        return tuple(sorted({result.execution.seed for rows in self.results.values() for result in rows}))

    @property
    def targets(self) -> tuple[str, ...]:
        """Fingerprints of the frozen models that answered; more than one is transfer."""
        found = {result.execution.target for rows in self.results.values() for result in rows}
        return tuple(sorted(found - {""}))


@dataclass(frozen=True, slots=True)
class ReportData:
    """All inputs of the page. `grid` is the grid's `summary.json`."""

    questions: Mapping[str, tuple[Question, ...]]
    grid: Mapping[str, Any]
    methods: tuple[MethodData, ...]

    @property
    def families(self) -> tuple[str, ...]:
        """Families of the test questions, in the order in which the task gives them."""
        return tuple(dict.fromkeys(question.family for question in self.questions["test"]))

    def majority(self, family: str) -> tuple[str, int, int]:
        """The most frequent reference among the family's test questions, how often it stands there, and of how many."""
        references = Counter(q.reference for q in self.questions["test"] if q.family == family)
        answer, times = min(references.items(), key=lambda item: (-item[1], item[0]))
        return answer, times, references.total()

    def kind(self, family: str) -> str:
        """The family's kind as the task states it, "" when it states none."""
        first = next(question for question in self.questions["test"] if question.family == family)
        return str(first.metadata.get("kind", ""))


def pooled(standing: Summary) -> Interval:
    """A standing's mean over questions with its interval."""
    return Interval(standing.pooled["mean"], standing.pooled["low"], standing.pooled["high"], int(standing.pooled["n"]))


def read_report_data(root: Path, methods: Sequence[str]) -> ReportData:
    """Read and check what the pipeline wrote.

    Args:
        root: The project's folder.
        methods: Names of the methods to report, in order.

    Raises:
        InputError: a file is missing, broken, or does not fit the others; file, field and stage are named.
    """
    questions: dict[str, tuple[Question, ...]] = {
        split: tuple(_questions(root / "data/questions" / f"{split}.jsonl")) for split in SPLITS
    }
    grid = _json(root / "data/grid/summary.json", "grid", ("best_on_validation", "compared", "outcomes", "scores"))
    return ReportData(questions, grid, tuple(_method(root, name, questions["test"]) for name in methods))


def _method(root: Path, name: str, test: Sequence[Question]) -> MethodData:
    about = card(name)
    folder = root / "data/evaluate" / name
    scores = _scores(folder / "scores.json")
    results = _results(folder / "executions.jsonl", scores, test)
    teaching = _teaching(root / "data/teach" / name) if "teach" in about.phases else None
    records = tuple(_record(phase, root / "models" / phase / name) for phase in about.checkpoints)
    return MethodData(about, scores, results, teaching, records)


def _scores(path: Path) -> Scores:
    names = ("best_fixed_configuration", "seed", "test", "validation", "oracle_over_pool", "pool", "differences")
    row = _json(path, "evaluate", (*names, "compositions", "novel_compositions"))
    with shaped("written by another version", where=str(path), fix=_run("evaluate")):
        oracle = row["oracle_over_pool"]
        scores = Scores(
            best_fixed=row["best_fixed_configuration"],
            seed=row["seed"],
            test={name: Summary(**value) for name, value in row["test"].items()},
            validation={name: Summary(**value) for name, value in row["validation"].items()},
            oracle=Oracle(oracle["configurations"], Interval(**oracle["pooled"])),
            pool=row["pool"],
            differences={
                name: Difference(Interval(**value["interval"]), value["rescued"], value["regressed"])
                for name, value in row["differences"].items()
            },
            compositions=_compositions(row["compositions"]),
            novel=_compositions(row["novel_compositions"]),
        )
    missing = [name for name in BASELINES[:2] if name not in scores.test]
    if missing or not scores.learned:
        raise InputError(
            f"field test: no {missing[0] if missing else 'trained contender'}", where=str(path), fix=_run("evaluate")
        )
    return scores


def _compositions(row: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, tuple[Composition, ...]]:
    return {phase: tuple(Composition(**item) for item in items) for phase, items in row.items()}


def _results(path: Path, scores: Scores, test: Sequence[Question]) -> dict[str, tuple[Result, ...]]:
    groups: dict[str, list[Result]] = {name: [] for name in scores.test}
    for result in read_rows_as(path, Result.from_row, fix=_run("evaluate")):
        if result.contender in groups:
            groups[result.contender].append(result)
    wanted = {question.id for question in test}
    for name, rows in groups.items():
        if {result.question for result in rows} != wanted:
            raise InputError(
                f"contender {name!r} did not answer the present test questions", where=str(path), fix=_run("evaluate")
            )
    return {name: tuple(rows) for name, rows in groups.items()}


def _teaching(folder: Path) -> Teaching:
    log = _json(folder / "log.json", "teach", ("counts", "acceptance", "by_family"))
    rows = tuple(read_rows_as(folder / "rows.jsonl", lambda row: TeacherRow(**row), fix=_run("teach")))
    return Teaching(TeachLog(log["counts"], log["acceptance"], log["by_family"]), rows)


def _record(phase: str, folder: Path) -> TrainingRecord:
    row = _json(folder / TRAINING, phase, ("seed", "parent", "inputs", "settings", "curve", "trainable_parameters"))
    return TrainingRecord(
        phase=phase,
        folder=folder,
        seed=row["seed"],
        parent=row["parent"],
        inputs=row["inputs"],
        settings=row["settings"],
        curve=row["curve"],
        trainable=row["trainable_parameters"],
        rows=row.get("rows", row.get("questions", 0)),
    )


def _questions(path: Path) -> list[Question]:
    if not path.is_file():
        raise InputError("the file is missing", where=str(path), fix=_run("questions"))
    return read_questions(path)


def _json(path: Path, stage: str, fields: Sequence[str]) -> dict[str, Any]:
    value = read_object(path, fix=_run(stage))
    missing = [name for name in fields if name not in value]
    if missing:
        raise InputError(f"field {missing[0]}: missing", where=str(path), fix=_run(stage))
    return value


def _run(stage: str) -> str:
    return f"run `dvc repro {stage}`"
