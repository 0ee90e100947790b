import re

import pytest

from luthier.evaluation.statistics import Interval
from luthier.report.html.charts import (
    Series,
    difference_bar,
    interval_bar,
    line_chart,
    outcome_bar,
    ticks,
    trailing_mean,
)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 1.0, (0.0, 0.5, 1.0)),
        (0.0, 30.0, (0.0, 10.0, 20.0, 30.0)),
        (0.0, 0.39, (0.0, 0.1, 0.2, 0.3, 0.4)),
        (-0.015, 0.018, (-0.02, -0.01, 0.0, 0.01, 0.02)),
        (0.0, 0.0, (0.0, 0.5, 1.0)),
    ],
)
def test_ticks_are_round_and_hold_the_data(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected)


def test_trailing_mean_by_hand():
    assert trailing_mean([1.0, 3.0, 5.0, 7.0], 3) == [1.0, 2.0, 3.0, 5.0]


def test_interval_bar_puts_mean_and_whiskers_to_scale():
    drawn = interval_bar(Interval(0.5, 0.25, 0.75, 20), "learned")
    assert 'width="100"' in drawn  # half of 200
    assert re.findall(r'x1="([\d.]+)"[^>]*class="whisker"', drawn) == ["50", "50", "150"]
    assert 'aria-label="50.0 % [25.0, 75.0]"' in drawn


def test_difference_bar_has_zero_in_the_middle():
    drawn = difference_bar(Interval(-0.5, -0.75, 0.0, 20))
    assert 'cx="50"' in drawn
    assert re.findall(r'x1="([\d.]+)"[^>]*class="whisker"', drawn) == ["25", "25", "100"]
    assert "−50.0 points [−75.0, 0.0]" in drawn


def test_outcome_bar_shares_its_width():
    drawn = outcome_bar({"ok": 3, "invalid": 1})
    assert re.findall(r'x="([\d.]+)"[^>]*width="([\d.]+)"[^>]*outcome (\w+)', drawn) == [
        ("0", "150", "ok"),
        ("150", "50", "invalid"),
    ]


def test_a_short_curve_shows_its_points_and_a_long_one_its_mean():
    short = line_chart("Loss", [Series("loss", ((1.0, 2.0), (2.0, 1.0)))], unit="nats")
    assert short.count("<circle") == 2
    assert "thin" not in short
    values = tuple((float(step), float(step % 2)) for step in range(1, 21))
    assert line_chart("Reward", [Series("reward", values)], unit="mean").count("<polyline") == 2


def test_curves_stay_inside_their_frame_also_below_zero():
    values = tuple((float(step), (-1) ** step * step / 100) for step in range(1, 31))
    drawn = line_chart("Loss", [Series("loss", values)], unit="nats", top=None)
    lines = re.findall(r'points="([^"]+)"', drawn)
    assert lines
    for points in lines:
        for point in points.split():
            x, y = map(float, point.split(","))
            assert 46 <= x <= 328.01
            assert 20 <= y <= 176.01


def test_one_logged_step_is_a_chart_too():
    assert "<circle" in line_chart("Loss", [Series("loss", ((1.0, 0.0),))], unit="nats")


def test_several_curves_have_a_legend_and_a_text_alternative():
    drawn = line_chart("Both", [Series("a", ((1.0, 1.0),)), Series("b", ((1.0, 2.0),), 2)], unit="x")
    assert drawn.count("<li>") == 2
    assert 'aria-label="Both: a from 1 to 1; b from 2 to 2"' in drawn
