"""What code a module reaches, read from the sources without running them.

Followed are imports anywhere in a file (also inside functions), the `__init__` of every package on the way, modules and
package data that are named by a text (`files("luthier.report")`, `Path(__file__).with_name("presets.yaml")`), and
`import_module` with a name that can be read. What only type checkers import is left out: it never runs.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from luthier.errors import InputError

_COMPUTED = ("import_module", "__import__")


@dataclass(frozen=True, slots=True)
class Reached:
    """Everything that a module reaches, itself included, each list sorted.

    Attributes:
        modules: Dotted names of the project's own modules.
        data: Other files of its packages, relative to the project.
        libraries: Top-level names of packages of others.
    """

    modules: tuple[str, ...]
    data: tuple[str, ...]
    libraries: tuple[str, ...]


@dataclass(slots=True)
class _Named:
    """What one file names: modules, in the project and elsewhere, starts of computed names, and all short texts.

    `unreadable` is the line of an import whose name cannot be read, 0 if there is none.
    """

    modules: set[str] = field(default_factory=set)
    prefixes: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    unreadable: int = 0


class Sources:
    """The project's packages.

    Args:
        root: The project's folder.
        packages: Its top-level packages.
    """

    def __init__(self, root: Path, packages: Iterable[str]) -> None:
        self.root = root
        files = [
            path
            for package in packages
            for path in sorted((root / package).rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts
        ]
        self.modules = {_module_name(path.relative_to(root)): path for path in files if path.suffix == ".py"}
        self.data = [PurePosixPath(path.relative_to(root)) for path in files if path.suffix != ".py"]
        self._named: dict[str, _Named] = {}

    def reach(self, starts: Iterable[str], follow: Callable[[str, str], bool] = lambda source, module: True) -> Reached:
        """What these modules reach.

        Args:
            starts: Dotted names.
            follow: Whether the step from a module to another one counts.

        Raises:
            InputError: a start is no module, a file is not Python, or imports by a name that cannot be read.
        """
        found: set[str] = set()
        libraries: set[str] = set()
        frontier = [name for start in starts for name in _with_packages(self._checked(start))]
        while frontier:
            module = frontier.pop()
            if module in found:
                continue
            found.add(module)
            for name in self._modules_named(module):
                if name not in self.modules:
                    libraries.add(name.partition(".")[0])
                elif follow(module, name):
                    frontier.append(name)
        data = {str(path) for module in found for path in self._data_of[module]}
        libraries -= sys.stdlib_module_names
        return Reached(tuple(sorted(found)), tuple(sorted(data)), tuple(sorted(libraries)))

    def _checked(self, name: str) -> str:
        if name not in self.modules:
            raise InputError(f"no module {name!r}", where=str(self.root), fix="name a module of the project")
        return name

    def _modules_named(self, module: str) -> Iterator[str]:
        """The modules that a file reaches in one step: of the project with their packages, and of others."""
        named = self._read(module)
        if named.unreadable:
            raise InputError(
                "imports a module by a name that cannot be read, so what it reaches is unknown",
                where=f"{self.modules[module]}:{named.unreadable}",
                fix='write the package in the call: import_module(f"luthier.methods.{name}")',
            )
        for name in named.modules:
            yield from _with_packages(name) if name in self.modules else [name]
        for text in named.texts:
            if text in self.modules:
                yield from _with_packages(text)
            elif (beside := f"{self._package(module)}.{text.removesuffix('.py')}") in self.modules and text[
                -3:
            ] == ".py":
                yield beside
        for name in self.modules:
            if any(name.startswith(prefix) for prefix in named.prefixes):
                yield name

    def _read(self, module: str) -> _Named:
        if module not in self._named:
            self._named[module] = self._names_in(module)
        return self._named[module]

    def _names_in(self, module: str) -> _Named:
        named = _Named()
        for node in runtime_nodes(parse(self.modules[module])):
            if isinstance(node, ast.Import):
                named.modules |= {self._nearest(alias.name) for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = self._base(node, module)
                named.modules.add(self._nearest(base))
                named.modules |= {inner for a in node.names if (inner := f"{base}.{a.name}") in self.modules}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
                named.texts.add(node.value)
            elif isinstance(node, ast.Call) and _called(node) in _COMPUTED:
                self._note_computed(node, named)
        return named

    def _note_computed(self, call: ast.Call, named: _Named) -> None:
        first = call.args[0] if call.args else None
        start = first.values[0] if isinstance(first, ast.JoinedStr) and first.values else first
        text = start.value if isinstance(start, ast.Constant) and isinstance(start.value, str) else ""
        if isinstance(first, ast.Constant) and text:
            named.modules.add(self._nearest(text))
        elif "." in text and text.partition(".")[0] in self.modules:
            named.prefixes.add(text)
        else:
            named.unreadable = call.lineno

    def _base(self, node: ast.ImportFrom, module: str) -> str:
        if not node.level:
            return node.module or ""
        parts = self._package(module).split(".")
        return ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])

    def _nearest(self, name: str) -> str:
        """The module of the project that an imported name lies in; the name itself if it is another's."""
        while name not in self.modules and name.rpartition(".")[0] in self.modules:
            name = name.rpartition(".")[0]
        return name

    def _package(self, module: str) -> str:
        return module if self.modules[module].name == "__init__.py" else module.rpartition(".")[0]

    @cached_property
    def _data_of(self) -> dict[str, set[PurePosixPath]]:
        """For each module the data files that it names, or whose folder it names, in a package that it knows.

        A file that nobody names belongs to its package's `__init__`, and so to everyone who comes by.
        """
        found: dict[str, set[PurePosixPath]] = {module: set() for module in self.modules}
        for path in self.data:
            package = next(".".join(folder.parts) for folder in path.parents if ".".join(folder.parts) in self.modules)
            inside = path.relative_to(PurePosixPath(*package.split("."))).parts
            owners = []
            for module in self.modules:
                texts = self._read(module).texts
                if (self._package(module) == package or package in texts) and texts & {*inside, "/".join(inside)}:
                    owners.append(module)
            for owner in owners or [package]:
                found[owner].add(path)
        return found


def parse(path: Path) -> ast.Module:
    """The syntax tree of a Python file.

    Raises:
        InputError: it cannot be read, or is not Python.
    """
    try:
        return ast.parse(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError, SyntaxError, ValueError) as error:
        raise InputError(f"not a Python file ({error})", where=str(path), fix="correct the file") from error


def runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a tree but those that only type checkers see."""
    frontier: list[ast.AST] = [tree]
    while frontier:
        node = frontier.pop()
        yield node
        children: Iterable[ast.AST] = ast.iter_child_nodes(node)
        if isinstance(node, ast.If) and is_type_checking(node.test):
            children = node.orelse
        frontier.extend(children)


def is_type_checking(test: ast.expr) -> bool:
    """Whether a condition is `TYPE_CHECKING`."""
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _with_packages(name: str) -> list[str]:
    """A module and the packages that Python imports on the way to it."""
    parts = name.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]
