"""What a module reaches, in packages small enough to say it by hand."""

import subprocess
import sys
from pathlib import Path

import pytest

from luthier.errors import InputError
from luthier.stage_code.imports import Sources

FILES = {
    "house/__init__.py": "",
    "house/start.py": (
        "import os, json.decoder, numpy.linalg\nfrom house import wall\nfrom house.rooms.bath import tap\n"
    ),
    "house/wall.py": "def f():\n    from .roof import beam as b\n    return b\n",
    "house/roof.py": "try:\n    import yaml\nexcept ImportError:\n    yaml = None\nbeam = 1\n",
    "house/rooms/__init__.py": "import house.door\n",
    "house/rooms/bath.py": "tap = 1\n",
    "house/door.py": "",
    "house/typed.py": (
        "import typing\nfrom typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import house.door\nelse:\n    import house.wall\n"
        "if typing.TYPE_CHECKING:\n    import torch\n"
    ),
    "house/unused.py": "",
}


@pytest.fixture
def write(tmp_path):
    def make(files: dict[str, str]) -> Sources:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return Sources(tmp_path, ["house"])

    return make


def test_imports_are_followed_also_in_functions_and_through_packages(write):
    found = write(FILES).reach(["house.start"])
    assert found.modules == (
        "house", "house.door", "house.roof", "house.rooms", "house.rooms.bath", "house.start", "house.wall",
    )  # fmt: skip
    assert found.libraries == ("numpy", "yaml")


def test_what_only_type_checkers_import_is_not_reached(write):
    found = write(FILES).reach(["house.typed"])
    assert found.modules == ("house", "house.roof", "house.typed", "house.wall")
    assert found.libraries == ("yaml",)


def test_a_step_that_does_not_count_is_not_taken(write):
    found = write(FILES).reach(
        ["house.start"], lambda source, module: (source, module) != ("house.start", "house.wall")
    )
    assert "house.wall" not in found.modules
    assert "house.roof" not in found.modules


def test_files_belong_to_those_who_name_them(write):
    sources = write(
        {
            "house/__init__.py": "",
            "house/paint.py": "from pathlib import Path\nP = Path(__file__).parents[1] / 'colours.txt'.read_text()\n",
            "house/deeds.py": "from importlib.resources import files\n\nT = files('house') / 'papers' / f'{1}.txt'\n",
            "house/shell.py": "from pathlib import Path\nP = Path(__file__).parents[1] / 'inside.py'\n",
            "house/inside.py": "import house.paint\n",
            "house/plain.py": "",
            "house/colours.txt": "red",
            "house/papers/1.txt": "mine",
            "house/nobody.json": "{}",
            "elsewhere/__init__.py": "",
            "elsewhere/reads.py": "from importlib.resources import files\nT = files('house').joinpath('colours.txt')\n",
        }
    )
    sources = Sources(sources.root, ["house", "elsewhere"])
    orphan = "house/nobody.json"  # nobody names it, so everyone who comes by has it
    assert sources.reach(["house.plain"]).data == (orphan,)
    assert sources.reach(["house.paint"]).data == ("house/colours.txt", orphan)
    assert sources.reach(["house.deeds"]).data == (orphan, "house/papers/1.txt")
    assert sources.reach(["elsewhere.reads"]).data == ("house/colours.txt", orphan)
    assert sources.reach(["house.shell"]).modules == ("house", "house.inside", "house.paint", "house.shell")


def test_computed_imports_are_followed_as_far_as_they_can_be_read(write):
    start = "from importlib import import_module\n"
    sources = write(
        {
            **FILES,
            "house/by_name.py": start + "def f(name):\n    return import_module(f'house.rooms.{name}')\n",
            "house/by_text.py": start + "import_module('house.wall')\n",
            "house/by_list.py": "PLUGINS = ['house.wall']\n",
            "house/by_magic.py": start + "def f(name):\n    return import_module(name)\n",
            "house/magician.py": "import house.by_magic\n",
        }
    )
    assert "house.rooms.bath" in sources.reach(["house.by_name"]).modules
    assert "house.roof" in sources.reach(["house.by_text"]).modules
    assert "house.roof" in sources.reach(["house.by_list"]).modules
    with pytest.raises(InputError, match="by a name that cannot be read") as caught:
        sources.reach(["house.magician"])
    assert caught.value.where == f"{sources.root / 'house' / 'by_magic.py'}:3"


@pytest.mark.parametrize(("name", "message"), [("house.none", "no module 'house.none'"), ("house.bad", "not a Python")])
def test_what_cannot_be_read_is_one_error(write, name, message):
    with pytest.raises(InputError, match=message):
        write({"house/__init__.py": "", "house/bad.py": "def"}).reach([name])


def test_the_project_reaches_what_python_really_imports(tmp_path):
    """Held against the interpreter: nothing that importing a stage loads is missing in what was read."""
    root = Path(__file__).resolve().parents[3]
    sources = Sources(root, ["luthier", "stages", "flows"])
    for stage in ("stages.sft", "stages.compare"):
        code = f"import sys, {stage}; print(*[n for n in sys.modules if n.split('.')[0] in ('luthier', 'stages')])"
        loaded = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
        names = set(loaded.stdout.split())
        assert len(names) > 50
        assert names <= {*sources.reach([stage]).modules}
