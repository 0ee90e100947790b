"""The committed picture is what its command makes of the recorded rows."""

import re

from benchmarks.pictures import PICTURE, draw, read_points


def test_the_committed_picture_is_that_of_the_rows():
    assert PICTURE.read_text(encoding="utf-8") == draw(read_points())


def test_every_row_is_in_the_picture():
    points = read_points()
    text = draw(points)
    assert len(points) >= 10
    assert len(re.findall("<circle", text)) == sum(point.spent is not None for point in points)
    assert all(f">{point.method}</text>" in text for point in points)
