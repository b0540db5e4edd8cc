"""A room imports only from rooms above it, wherever the import stands: that is what keeps the halves apart."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import fedrec

ROOMS = ["core", "data", "wrap", "methods", "evaluate", "channel", "clients", "server", "simulate", "serve"]
ROOMS += ["figures", "runs", "study", "report", "deploy", "bench", "cli"]
SOURCE = Path(fedrec.__file__).parent
# Files outside of rooms: the surface (imported lazily), and what tests inherit.
OUTSIDE = {"__init__.py", "testing"}


def imported(tree: ast.AST) -> set[str]:
    """The modules of fedrec that a file names, also inside functions and for type checkers."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("fedrec.")}


def files() -> list[Path]:
    return sorted(p for p in SOURCE.rglob("*.py") if p.relative_to(SOURCE).parts[0] not in OUTSIDE)


def test_every_folder_is_a_room() -> None:
    folders = {p.name for p in SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__"} - OUTSIDE
    assert folders == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_above(room: str) -> None:
    allowed = ROOMS[: ROOMS.index(room) + 1]
    for path in (p for p in files() if p.relative_to(SOURCE).parts[0] == room):
        for name in imported(ast.parse(path.read_text(encoding="utf-8"))):
            target = name.split(".")[1]
            if target in ROOMS or (SOURCE / target).is_dir():
                assert target in allowed, f"{path.relative_to(SOURCE)} imports {name}, a room below"


def test_methods_are_named_only_where_methods_live() -> None:
    """Devices, server and loop know no method by its class: they ask what it declares."""
    concrete = {p.stem for p in (SOURCE / "methods").glob("*.py") if p.stem != "__init__"}
    for path in files():
        room = path.relative_to(SOURCE).parts[0]
        if room in ("methods", "wrap"):
            continue
        for name in imported(ast.parse(path.read_text(encoding="utf-8"))):
            parts = name.split(".")
            named = parts[1] == "methods" and len(parts) > 2 and parts[2] in concrete
            assert not named, f"{path.relative_to(SOURCE)} names {name}"
            assert parts[1] != "wrap", f"{path.relative_to(SOURCE)} names {name}"


def test_no_file_is_long() -> None:
    lengths = {p: len(p.read_text(encoding="utf-8").splitlines()) for p in SOURCE.rglob("*.py")}
    assert {p.name: n for p, n in lengths.items() if n > 350} == {}
