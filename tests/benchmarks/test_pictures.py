"""The committed picture is what its command makes of the recorded rows."""

import json
import re

import pytest

from benchmarks.pictures import PICTURE, draw, read_points
from benchmarks.workspace import ROOT

TEST, UNSEEN = 170, 30


def test_the_committed_picture_is_that_of_the_rows():
    assert PICTURE.read_text(encoding="utf-8") == draw(read_points())


def test_every_row_is_in_the_picture():
    points = read_points()
    text = draw(points)
    assert len(points) >= 10
    assert len(re.findall("<circle", text)) == sum(point.spent is not None for point in points)
    assert all(f">{point.method}</text>" in text for point in points)


def test_lookups_and_the_headline_are_the_recorded_ones():
    lines = (ROOT / "benchmarks" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    recorded = {row["name"]: row for row in map(json.loads, lines)}
    means = {point.method: point.mean for point in read_points()}
    for method, name in (("nearest teacher row", "nearest_row"), ("router over grid rows", "router")):
        parts = [recorded[f"lookup_{name}_{axis}"] for axis in ("test", "unseen_families")]
        assert [part["n"] for part in parts] == [TEST, UNSEEN]
        pooled = sum(part["value"] * part["n"] for part in parts) / (TEST + UNSEEN)
        assert means[method] == pytest.approx(pooled, abs=0.05)
    assert means["MAS-Architect"] == pytest.approx(recorded["compare_table"]["ours"], abs=0.05)
    assert means["MIPROv2"] == pytest.approx(recorded["compare_table"]["peer"], abs=0.05)
