"""Compiled functions without an entrance are called by compiled functions alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedrec

SOURCE = Path(fedrec.__file__).parent
TREES = {path: ast.parse(path.read_text("utf-8")) for path in SOURCE.rglob("*.py")}
TESTS = {path: ast.parse(path.read_text("utf-8")) for path in Path(__file__).parents[1].rglob("*.py")}


def decorated(node: ast.AST, *by: str) -> bool:
    return isinstance(node, ast.FunctionDef) and any(
        ast.unparse(d).startswith(by) for d in node.decorator_list
    )


def parts(tree: ast.Module) -> set[str]:
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and decorated(node, "part(")}


PARTS = {
    ".".join(("fedrec", *path.relative_to(SOURCE).with_suffix("").parts)): parts(tree)
    for path, tree in TREES.items()
}


def interpreted(node: ast.AST) -> Iterator[ast.AST]:
    """All that Python itself runs."""
    for child in ast.iter_child_nodes(node):
        if not decorated(child, "nb.njit", "part("):
            yield child
            yield from interpreted(child)


def named(tree: ast.Module) -> set[str]:
    """Parts that a file defines or imports and that Python, not compiled code, names."""
    known = parts(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            known |= {alias.name for alias in node.names} & PARTS.get(node.module or "", set())
    return {node.id for node in interpreted(tree) if isinstance(node, ast.Name)} & known


@pytest.mark.parametrize("trees", [TREES, TESTS], ids=["source", "tests"])
def test_python_calls_no_part(trees: dict[Path, ast.Module]) -> None:
    assert {path: found for path, tree in trees.items() if (found := named(tree))} == {}


def test_one_that_is_called_would_be_found() -> None:
    tree = ast.parse("from fedrec.core.rng import shuffle\n@part()\ndef f(): f()\ndef g(): f(), shuffle()\n")
    assert named(tree) == {"f", "shuffle"}
