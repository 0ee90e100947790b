"""Learning curves: charts for the page, and rows for `dvc plots`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from luthier.report.html.charts import Series, line_chart
from luthier.report.html.markup import Html, element
from luthier.report.html.numbers import count, percent
from luthier.report.html.tables import note, section
from luthier.report.sections.data import MethodData, TrainingRecord

COLUMNS = {
    "loss": "loss",
    "reward": "reward",
    "valid": "valid",
    "correct": "correct",
    "flat_groups": "flat_groups",
    "kl": "kl",
    "entropy": "entropy",
    "length": "completions/mean_length",
}
"""Column of `curves.csv` -> name in the trainer's log. TRL's own share of zero-variance groups means something
else under `scale: batch`, so this one is shown."""


@dataclass(frozen=True, slots=True)
class _Chart:
    """A chart of some columns; those that a phase did not log are left out."""

    title: str
    columns: tuple[str, ...]
    unit: str
    top: float | None = None


_CHARTS = {
    "sft": (
        _Chart("Loss", ("loss",), "nats a token"),
        _Chart("Entropy", ("entropy",), "nats a token"),
    ),
    "reinforce": (
        _Chart("Reward, valid, correct", ("reward", "valid", "correct"), "mean over samples", 1.0),
        _Chart("Zero-variance groups (all rewards equal)", ("flat_groups",), "share of groups", 1.0),
        _Chart("Entropy of the policy", ("entropy",), "nats a token"),
        _Chart("Length of a harness", ("length",), "tokens"),
        _Chart("KL against the start", ("kl",), "nats"),
        _Chart("Loss (policy objective)", ("loss",), "nats a token"),
    ),
}
_OTHER = (_Chart("Loss", ("loss",), "nats a token"), _Chart("Reward", ("reward",), "mean over samples"))


def curves(method: MethodData) -> Html:
    """The learning curves of every trained phase."""
    return section(
        f"{method.card.name}-curves",
        f"{method.card.title}: learning curves",
        [_phase(record) for record in method.records],
        note(
            "Long curves are drawn twice: thin is each step, bold the mean of the last five. Steps ask different "
            "questions, so single steps jump."
        ),
    )


def curve_rows(method: MethodData) -> Iterator[dict[str, float | int | str]]:
    """One row per method, phase and step; a value that a phase does not log is ""."""
    for record in method.records:
        for index, logged in enumerate(record.curve, start=1):
            head: dict[str, float | int | str] = {
                "method": method.card.name,
                "phase": record.phase,
                "step": step_of(logged, index),
            }
            yield head | {column: logged.get(key, "") for column, key in COLUMNS.items()}


def flat_share(record: TrainingRecord) -> float | None:
    """Mean share of groups without any variance of reward, None for a phase without groups."""
    values = [row[COLUMNS["flat_groups"]] for row in record.curve if COLUMNS["flat_groups"] in row]
    return sum(values) / len(values) if values else None


def step_of(logged: Mapping[str, float], index: int) -> int:
    """The step that a logged row belongs to; its place when the trainer wrote none."""
    return int(logged.get("step", index))


def _phase(record: TrainingRecord) -> Html:
    charts = [_draw(chart, record) for chart in _CHARTS.get(record.phase, _OTHER)]
    drawn = [chart for chart in charts if chart is not None]
    unit = "questions" if record.phase == "reinforce" else "rows"
    text = f"{count(len(record.curve))} steps, {count(record.rows)} {unit}, {count(record.trainable)} trained weights."
    flat = flat_share(record)
    if flat is not None:
        text += f" {percent(flat)} of the groups had no variance of reward and taught nothing."
    return element(
        "div",
        element("h3", record.phase),
        element("p", text),
        element("div", drawn, class_="charts") if drawn else note("The trainer logged no steps."),
    )


def _draw(chart: _Chart, record: TrainingRecord) -> Html | None:
    series = [
        Series(column.replace("_", " "), points, colour)
        for colour, column in enumerate(chart.columns, start=1)
        if (points := _points(record.curve, COLUMNS[column]))
    ]
    return line_chart(chart.title, series, unit=chart.unit, top=chart.top) if series else None


def _points(curve: Sequence[Mapping[str, float]], key: str) -> tuple[tuple[float, float], ...]:
    return tuple((float(step_of(row, i)), row[key]) for i, row in enumerate(curve, start=1) if key in row)
