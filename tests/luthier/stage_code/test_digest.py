import pytest

from luthier.errors import InputError
from luthier.stage_code.digest import digest_source

CODE = '''\
"""What it is."""
from __future__ import annotations
from typing import TYPE_CHECKING
from dataclasses import dataclass, field

if TYPE_CHECKING:
    from somewhere import Thing

LIMIT = 3
"""The most of it."""


@dataclass
class Row:
    """A row."""

    count: int = field(default=1)  # at least one


def scale(row: Row, by: int = 2) -> int:
    """Scaled."""
    factor: int = by
    return row.count * factor


@dataclass
class Empty:
    """Nothing."""
'''


@pytest.fixture
def digest(tmp_path):
    def of(text: str) -> str:
        (tmp_path / "m.py").write_text(text)
        return digest_source(tmp_path / "m.py")

    return of


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("What it is.", "What it is and does."),
        ("A row.", "One row."),
        ("Scaled.", "Scaled by a factor."),
        ("The most of it.", "At most so many."),
        ("  # at least one", ""),
        ("from somewhere import Thing", "from somewhere import Thing, Other"),
        ("scale(row: Row, by: int = 2) -> int:", "scale(\n    row: 'Thing',\n    by=2,\n):"),
        ("factor: int", "factor: float"),
        ("(default=1)", "( default = 1 )"),
        ('    """Scaled."""\n', ""),
    ],
)
def test_what_a_file_says_about_itself_does_not_count(digest, old, new):
    assert old in CODE
    assert digest(CODE.replace(old, new)) == digest(CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("LIMIT = 3", "LIMIT = 3.0"),
        ("LIMIT = 3", "LIMIT = '3'"),
        ("count: int", "count: float"),  # pydantic and dataclasses read it
        ("by: int = 2", "by: int = 3"),
        ("row.count * factor", "row.count + factor"),
        ("by: int = 2", "*, by: int = 2"),
        ("@dataclass\nclass Row", "class Row"),
        ("factor: int = by", "factor: int = by\n    del by"),
    ],
)
def test_what_a_file_does_counts(digest, old, new):
    assert old in CODE
    assert digest(CODE.replace(old, new)) != digest(CODE)


def test_a_docstring_that_is_read_counts(digest):
    reader = CODE + "\n\ndef f() -> None:\n    print(scale.__doc__)\n"
    assert digest(reader.replace("Scaled.", "Other.")) != digest(reader)


def test_annotations_that_a_decorator_may_read_count(digest):
    code = "@checked\ndef f(a: int) -> int:\n    return a\n"
    assert digest(code) != digest(code.replace("a: int", "a: float"))
    assert digest(code) != digest(code.replace("-> int", "-> float"))


def test_annotations_of_a_class_inside_a_function_count(digest):
    code = "def f():\n    class Row(Model):\n        a: int\n    return Row\n"
    assert digest(code) != digest(code.replace("a: int", "a: float"))


def test_other_files_count_byte_by_byte(tmp_path):
    path = tmp_path / "pool.txt"
    path.write_text("# a\n")
    first = digest_source(path)
    path.write_text("# b\n")
    assert digest_source(path) != first


def test_a_broken_file_is_one_error(tmp_path):
    (tmp_path / "m.py").write_text("def")
    with pytest.raises(InputError, match="not a Python file") as caught:
        digest_source(tmp_path / "m.py")
    assert caught.value.where == str(tmp_path / "m.py")
