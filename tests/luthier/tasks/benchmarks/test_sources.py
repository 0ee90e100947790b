from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from luthier.errors import InputError
from luthier.question import Split
from luthier.tasks.benchmarks.sources import Form, SourceRow, read_records
from luthier.tasks.splits import assign, content_split, named_split

FORM = Form("", (".json", ".jsonl", ".csv", ".tsv", ".parquet", ".jsonl.gz"), columns=("a", "b"))


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_every_form_gives_the_same_rows(tmp_path: Path) -> None:
    row = {"a": 'say "hi"\u2028', "b": "2"}
    write(tmp_path / "1.json", json.dumps({"canary": "c", "examples": [row]}))
    write(tmp_path / "2.json", json.dumps([row]))
    write(tmp_path / "3.json", json.dumps(row))
    write(tmp_path / "4.jsonl", json.dumps(row, ensure_ascii=False) + "\n\n")
    write(tmp_path / "5.csv", '"say ""hi""\u2028",2\n')
    write(tmp_path / "6.tsv", 'b\ta\n2\tsay "hi"\u2028\n')
    (tmp_path / "7.jsonl.gz").write_bytes(gzip.compress(json.dumps(row).encode()))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "8.parquet")
    records = read_records(str(tmp_path), FORM)
    assert [dict(record.row) for record in records] == [row] * 8
    assert records[4].where == f"{tmp_path / '5.csv'}:1"
    assert records[5].where == f"{tmp_path / '6.tsv'}:2"


def test_byte_order_marks_are_no_part_of_a_row(tmp_path: Path) -> None:
    row = json.dumps({"a": "1", "b": "2"})
    write(tmp_path / "1.jsonl", f"\ufeff{row}\n\ufeff{row}\n")  # two files that were joined
    write(tmp_path / "2.json", f"\ufeff[{row}]")
    write(tmp_path / "3.csv", "\ufeffa,b\n1,2\n")
    (tmp_path / "4.jsonl.gz").write_bytes(gzip.compress(f"\ufeff{row}".encode()))
    assert [dict(record.row) for record in read_records(str(tmp_path), FORM)] == [{"a": "1", "b": "2"}] * 5


def test_groups_and_splits_come_from_names(tmp_path: Path) -> None:
    for name in ("test/algebra/1.json", "anatomy_dev.json", "navigate/train-00000-of-00001.json", "plain.json"):
        write(tmp_path / name, "{}")
    found = {(r.group, r.split) for r in read_records(str(tmp_path), FORM)}
    assert found == {("algebra", "test"), ("anatomy", "validation"), ("navigate", "train"), ("plain", None)}


def test_a_folder_named_exactly_like_a_split_is_that_split(tmp_path: Path) -> None:
    write(tmp_path / "test" / "algebra" / "1.json", "{}")
    write(tmp_path / "my_test_data" / "algebra.json", "{}")
    assert [r.split for r in read_records(str(tmp_path / "test"), FORM)] == ["test"]
    assert [r.split for r in read_records(str(tmp_path / "my_test_data"), FORM)] == [None]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.jsonl", '{"a": 1}\n{"a": \n', r"x\.jsonl:2: not a JSON object .*Fix: restore the line"),
        ("x.jsonl", "[1]\n", r"x\.jsonl:1: not a JSON object"),
        ("x.jsonl", " \n", r"x\.jsonl: the file is empty"),
        ("x.json", '{\n"examples": [\n', r"x\.json:3: not JSON"),
        ("x.json", '{"examples": 3}', r"field examples: not a list with rows"),
        ("x.json", "[1]", r"x\.json, row 1: not a JSON object"),
        ("x.json", "[]", r"not a list with rows"),
        ("x.csv", "1,2\n1,2,3\n", r"x\.csv:2: 3 columns instead of 2.*Fix: write the columns a, b"),
        ("x.tsv", "a\tb\n", r"no rows"),
        ("x.parquet", "not parquet", r"x\.parquet: not a Parquet file"),
        ("x.jsonl.gz", "not gzip", r"x\.jsonl\.gz: cannot read the file"),
        ("x.txt", "hello", r"\.txt is not a known form.*Fix: use \.json"),
    ],
)
def test_a_broken_file_is_named_with_its_line_and_the_fix(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_records(str(write(tmp_path / name, text)), FORM)


def test_a_missing_path_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such file or folder.*Fix: correct the path, or give a hub id"):
        read_records(str(tmp_path / "absent.jsonl"), FORM)
    with pytest.raises(InputError, match=r"no such file or folder"):
        read_records("data/absent.jsonl", FORM)
    with pytest.raises(InputError, match=r"the folder holds no data file"):
        read_records(str(tmp_path), FORM)


def test_fields_are_checked_by_name() -> None:
    record = SourceRow("f:3", "g", {"a": " ", "b": 4, "c": "text"})
    assert record.text("absent", "c") == "text"
    for name, message in (("a", "f:3: field a: ' ' is not a text or is empty"), ("b", "field b: 4")):
        with pytest.raises(InputError, match=message):
            record.text(name)
    with pytest.raises(InputError, match=r"field z: missing\. Fix: add it; the row has a, b, c"):
        record.text("z")


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train-00000-of-00001.parquet", "train"),
        ("hotpot_dev_distractor_v1.json", "validation"),
        ("x/val.csv", "validation"),
        ("train/test.json", "test"),
        ("contest.json", None),
        ("latest/part_a.jsonl", None),
    ],
)
def test_split_names(name: str, split: Split | None) -> None:
    assert named_split(name) == split


def test_missing_splits_are_carved_and_the_test_split_is_left_alone() -> None:
    contents = [f"question {number}" for number in range(2000)]

    def share(own: Split | None, *available: Split) -> dict[str, float]:
        sides = [assign(content, own, frozenset(available)) for content in contents]
        return {side: round(sides.count(side) / len(sides), 1) for side in sorted(set(sides))}

    everything = {"test": 0.2, "train": 0.6, "validation": 0.2}
    assert share(None) == share("train", "train") == everything
    assert share("train", "train", "test") == {"train": 0.8, "validation": 0.2}
    assert share("train", "train", "validation") == {"train": 1.0}
    assert share("validation", "train", "validation") == {"test": 0.5, "validation": 0.5}
    assert share("validation", "validation", "test") == {"validation": 1.0}
    assert share("test", "test") == share("test", "train", "test") == {"test": 1.0}


def test_content_decides_the_same_split_on_every_machine() -> None:
    # First 8 bytes of their SHA-256 modulo 5: a 0, d 4, e 2, m 3 (by sha256sum).
    assert [content_split(text) for text in "adem"] == ["train", "test", "train", "validation"]


@pytest.mark.slow
def test_the_hub_reader_runs_the_real_datasets_library_offline(tmp_path: Path) -> None:
    for name in ("train", "test"):
        write(tmp_path / "set" / f"{name}.jsonl", json.dumps({"a": name}) + "\n")
    program = (
        "import sys; from luthier.errors import InputError; from luthier.tasks.benchmarks.sources import *\n"
        "form = Form('', ('.jsonl',))\n"
        "print([(r.row['a'], r.split) for r in read_hub(sys.argv[1], form)])\n"
        "try: read_records('nobody/nothing', form)\n"
        "except InputError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "set")],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = done.stdout.splitlines()
    assert first == "[('test', 'test'), ('train', 'train')]"
    assert second.startswith("nobody/nothing: cannot load the hub data set (")
    assert "or give a local file or folder" in second
