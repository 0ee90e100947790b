"""Files are whole or absent, also on a full disk; rows survive odd characters; a lock excludes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import textwrap

import pytest

from luthier.errors import InputError, StoreError
from luthier.files import (
    digest_file,
    digest_folder,
    digest_text,
    locked,
    md5_file,
    read_rows,
    write_atomically,
    write_json,
    write_rows,
)

ROWS = [{"text": "a\u2028b\u0085c\x0bd\x1ee"}, {"text": "", "n": 1.5}, {}]


def test_rows_survive_every_line_separator(tmp_path):
    path = tmp_path / "new" / "rows.jsonl"
    write_rows(path, ROWS)
    assert list(read_rows(path)) == ROWS
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(("text", "words"), [("{}\n{", "2: not a JSON object"), ("{}\n\n3", "3: not a JSON object")])
def test_a_broken_row_is_named(tmp_path, text, words):
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        list(read_rows(path))
    assert f"{path}:{words}" in str(caught.value)


def test_a_missing_file_says_what_makes_it(tmp_path):
    with pytest.raises(InputError, match=r"cannot read the file .*Fix: run the stage that writes it"):
        list(read_rows(tmp_path / "rows.jsonl"))


def in_a_small_disk(code: str, folder) -> subprocess.CompletedProcess[str]:
    """Run code in a process whose files may not grow above 4 KiB: what a full disk is to a writer."""
    head = (
        "import resource, sys; from pathlib import Path; folder = Path(sys.argv[1]);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
    )
    return subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(code), str(folder)], capture_output=True, text=True, check=False
    )


def test_a_full_disk_is_one_clear_error_and_loses_nothing(tmp_path):
    path = tmp_path / "rows.jsonl"
    write_rows(path, ROWS)
    before = path.read_bytes()
    code = """
        from luthier.errors import StoreError
        from luthier.files import write_rows
        try:
            write_rows(folder / "rows.jsonl", [{"text": "x" * 10_000}])
        except StoreError as error:
            print(error)
    """
    done = in_a_small_disk(code, tmp_path)
    assert done.stdout.startswith(f"{path}: cannot write the file (File too large). Fix: free disk space"), done.stderr
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["rows.jsonl"], "no half-written file stays behind"


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"file/x.json: cannot write the file .*Fix: free disk space or correct"):
        write_json(tmp_path / "file" / "x.json", {})


def test_digests_are_those_of_the_content(tmp_path):
    path = tmp_path / "f"
    write_atomically(path, "abc")
    assert digest_file(path) == digest_text("abc") == hashlib.sha256(b"abc").hexdigest()
    assert md5_file(path) == "900150983cd24fb0d6963f7d28e17f72"


def test_a_folder_digest_sees_names_and_contents_and_not_their_order(tmp_path):
    def folder(name, files):
        for file, text in files:
            write_atomically(tmp_path / name / file, text)
        return digest_folder(tmp_path / name)

    first = folder("one", [("a", "1"), ("sub/b", "2")])
    assert folder("two", [("sub/b", "2"), ("a", "1")]) == first
    assert folder("three", [("a", "1"), ("sub/c", "2")]) != first
    assert folder("four", [("a", "1"), ("sub/b", "3")]) != first


def test_a_lock_excludes_another_process_and_names_its_holder(tmp_path):
    path = tmp_path / "deep" / "lock"
    holder = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from luthier.files import locked
        with locked(Path(sys.argv[1])):
            print("held", flush=True)
            sys.stdin.readline()
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", holder, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    seen: list[str] = []

    def waiting(pid: str) -> None:
        seen.append(pid)
        process.stdin.write("\n")
        process.stdin.flush()

    with locked(path, waiting):
        assert seen == [str(process.pid)]
    assert process.wait(timeout=30) == 0
