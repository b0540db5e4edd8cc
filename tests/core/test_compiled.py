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


# FedRAP's loss is a sum over what its step writes: ``train_additive`` lays those arrays far apart. The products that a
# solver adds to a number, four at a time, are put in order before any of it becomes vector code.
ALLOWED = {"steps_additive.step", "conjugate._apply", "roofline._multiply_add"}


LOOPS = ast.For | ast.While


def writing_loops(function: ast.AST) -> list[ast.AST]:
    """Innermost loops that write to an array what is no constant."""
    return [
        loop
        for loop in ast.walk(function)
        if isinstance(loop, LOOPS)
        and not any(isinstance(inner, LOOPS) for line in loop.body for inner in ast.walk(line))
        and any(writes(line) for line in ast.walk(loop))
    ]


def writes(line: ast.AST) -> bool:
    if not isinstance(line, ast.Assign | ast.AugAssign):
        return False
    targets = line.targets if isinstance(line, ast.Assign) else [line.target]
    entries = [part for target in targets for part in ast.walk(target) if isinstance(part, ast.Subscript)]
    return bool(entries) and not isinstance(line.value, ast.Constant)


@pytest.mark.parametrize("path", TREES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_sums_of_any_order_write_to_no_array(path: Path) -> None:
    """Whether a loop that writes becomes vector code is decided by where its arrays lie: same bits need STEADY."""
    found = [
        f"{path.stem}.{node.name}"
        for node in TREES[path].body
        if decorated(node, "nb.njit(", "part(")
        and any("fastmath=FAST" in ast.unparse(d) for d in node.decorator_list)
        and writing_loops(node)
    ]
    assert set(found) <= ALLOWED, (
        f"{found} add up in any order and write: use STEADY, and sums of core/sums.py"
    )
