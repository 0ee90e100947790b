"""Digests of source files that change with what the code does, and not with what it says about itself.

A Python file is digested as its syntax tree, without what can't decide a result: comments, layout, docstrings and other
lone texts, what only type checkers import, and the annotations of variables inside functions and of functions without a
decorator. Annotations of classes and modules stay (pydantic and dataclasses read them), those of decorated functions
too (a decorator may read them), and so do the docstrings of a file that reads a docstring. All else is kept, also the
order of definitions: rather one run too many than one too few.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

from luthier.files import digest_file, digest_text
from luthier.stage_code.imports import is_type_checking, parse, runtime_nodes

_DOCSTRING_READERS = frozenset({"__doc__", "getdoc"})
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def digest_source(path: Path) -> str:
    """SHA-256 of what a source file does, 64 hex digits; of its bytes if it is no Python file.

    Raises:
        InputError: a `.py` file is not Python.
    """
    if path.suffix != ".py":
        return digest_file(path)
    tree = parse(path)
    reads_docstrings = any(_name_of(node) in _DOCSTRING_READERS for node in runtime_nodes(tree))
    bare = _Bare(keep_texts=reads_docstrings).visit(tree)
    return digest_text(json.dumps(_as_lists(bare), ensure_ascii=False))


class _Bare(ast.NodeTransformer):
    """Takes out of a tree what decides no result."""

    def __init__(self, *, keep_texts: bool) -> None:
        self._keep_texts = keep_texts
        self._inside = 0

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        lone_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if lone_text and not self._keep_texts else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        return node.orelse or None if is_type_checking(node.test) else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        inside, self._inside = self._inside, 0  # a class's annotations are read, wherever it stands
        self.generic_visit(node)
        self._inside = inside
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if self._inside:
            node.annotation = ast.Constant(None)
        return node

    def _function(self, node: _Function) -> ast.AST:
        self._inside += 1
        self.generic_visit(node)
        self._inside -= 1
        if not node.decorator_list:
            node.returns = None
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg):
                    argument.annotation = None
        return node


def _as_lists(node: Any) -> Any:
    """A tree as nested lists, without empty fields, so that a later Python's new ones change nothing."""
    if isinstance(node, ast.AST):
        fields = [[name, _as_lists(value)] for name, value in ast.iter_fields(node) if name not in ("kind", "ctx")]
        return [type(node).__name__, *[field for field in fields if field[1] not in (None, [])]]
    if isinstance(node, list):
        return [_as_lists(item) for item in node]
    return node if node is None else repr(node)


def _name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
