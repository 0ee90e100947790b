"""Scales, steps and labels by hand."""

import pytest

from luthier.report.html.plot import heights_above, keep_apart, linear, logarithmic, marker, spanning, steps


def test_a_linear_axis_has_round_ends():
    axis = linear(0.0, 0.73, 0.0, 80.0)
    assert (axis.low, axis.high) == (0.0, pytest.approx(0.8))
    assert axis.place(0.4) == pytest.approx(40)
    assert axis.place(2.0) == 80.0  # beyond the end stays at the end


def test_a_logarithmic_axis_gives_equal_factors_equal_room():
    axis = logarithmic(30.0, 60_000.0, 0.0, 100.0)
    assert (axis.low, axis.high) == (10.0, 100_000.0)
    assert [axis.place(value) for value in (10, 100, 1000, 10_000, 100_000)] == pytest.approx([0, 25, 50, 75, 100])
    assert axis.marks == (10, 100, 1000, 10_000, 100_000)
    assert logarithmic(20.0, 90.0, 0.0, 1.0).marks == (10, 20, 50, 100)
    assert axis.place(0.0) == 0.0


@pytest.mark.parametrize(
    ("values", "log"), [([1.0, 20.0], False), ([1.0, 21.0], True), ([0.0, 5.0], False), ([], False)]
)
def test_the_scale_follows_the_spread(values, log):
    assert spanning(values, 0.0, 1.0).log is log


def test_steps_keep_each_value_until_the_next():
    assert steps([(1, 5), (3, 7)], 4) == [(1, 5), (3, 5), (3, 7), (4, 7)]
    assert steps([], 4) == []


def test_labels_keep_apart_and_in_order():
    assert keep_apart([50.0, 52.0, 10.0], 0.0, 100.0) == [50.0, 64.0, 10.0]
    assert keep_apart([99.0, 98.0], 0.0, 100.0) == [100.0, 86.0]


def test_labels_of_near_points_are_stacked():
    # 9 over its point; 20 to the right of another: a line of 14 above that one; far away: 9 over its point again.
    assert heights_above([(120.0, 95.0), (100.0, 100.0), (200.0, 80.0)]) == [77.0, 91.0, 71.0]
    assert heights_above([(100.0, 100.0), (110.0, 60.0)]) == [91.0, 51.0]
    assert heights_above([]) == []


def test_kinds_have_their_own_shapes():
    shapes = {kind: str(marker(kind, 5.0, 5.0, "said")) for kind in ("learned", "searched", "fixed")}
    assert shapes["learned"].startswith("<circle")
    assert "rotate" not in shapes["searched"]
    assert "rotate" in shapes["fixed"]
