"""A checkpoint that workers write together: a file for each cell, the server's part, and a list of all, last.

A folder ``round-7`` counts once ``current.json`` names its files and their sums. Cells hang on the data alone, so
that any number of workers, or one process, can go on from it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedrec.clients import save as devices
from fedrec.clients.state import DeviceState
from fedrec.core.errors import FedrecError
from fedrec.core.files import replacing, write
from fedrec.core.ragged import Ids
from fedrec.data.cells import Cells
from fedrec.simulate.moment import Moment, Selected
from fedrec.simulate.packing import damaged, file_sum, pack_server, unpack

SERVER = "server.npz"
CURRENT = "current.json"
NOBODY = DeviceState({}, {})
MOMENTS = ("last", "after", "before")


def begin_checkpoint(folder: Path, round: int) -> Path:
    """A new folder for the files of a checkpoint."""
    folder.mkdir(exist_ok=True)
    path, n = folder / f"round-{round}", 1
    while path.exists():
        path, n = folder / f"round-{round}-{n}", n + 1
    path.mkdir()
    return path


def save_cells(path: Path, cells: Cells, states: Mapping[str, DeviceState]) -> dict[str, str]:
    """What the devices of some cells hold at some moments; the sums of the files."""
    found = {}
    for number, users in cells.runs():
        arrays: dict[str, Any] = {}
        for name, state in states.items():
            arrays |= devices.pack(state.only(users), f"{name}/")
        file = path / f"cell-{number:02}.npz"
        with replacing(file) as stream:
            np.savez(stream, users=np.array(len(users)), moments=np.array(list(states)), **arrays)
        found[file.name] = file_sum(file)
    return found


def finish_checkpoint(
    path: Path, cells: Ids, sums: dict[str, str], last: Moment, selected: Selected | None
) -> None:
    """Write the server's part, and let the checkpoint count."""
    with replacing(path / SERVER) as stream:
        np.savez(stream, **pack_server(last, selected))
    sums = {SERVER: file_sum(path / SERVER), **sums}
    folder = path.parent
    write(folder / CURRENT, json.dumps({"file": path.name, "cells": cells.tolist(), "sha256": sums}))
    only_this(path)


def only_this(path: Path) -> None:
    """Older checkpoints, and what was left half-written, go."""
    for old in path.parent.glob("round-*"):
        if old != path:
            shutil.rmtree(old) if old.is_dir() else old.unlink()


def pointed_to(folder: Path, cells: Ids) -> tuple[Path, dict[str, str] | None]:
    """The checkpoint that counts, and the sums of its files; none of those where one process wrote one file."""
    try:
        current = json.loads((folder / CURRENT).read_text(encoding="utf-8"))
        path = folder / current["file"]
        if not isinstance(current["sha256"], dict):
            if file_sum(path) != current["sha256"]:
                raise ValueError
            return path, None
        if current["cells"] != cells.tolist():
            raise FedrecError(f"the checkpoint in {folder} is of other users: start the run anew")
        return path, current["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        raise damaged(folder) from None


def load_server(path: Path, sums: Mapping[str, str] | None) -> tuple[Moment, Selected | None]:
    """The server's part of both moments; devices are left where they are."""
    file = path if sums is None else path / SERVER
    try:
        if sums is not None and file_sum(file) != sums[SERVER]:
            raise ValueError
        with np.load(file, allow_pickle=False) as stored:
            return unpack(stored, lambda name: NOBODY)
    except (OSError, ValueError, KeyError):
        raise damaged(path.parent) from None


def load_cells(
    path: Path, cells: Cells, first: int, sums: Mapping[str, str] | None
) -> dict[str, DeviceState]:
    """What devices of some cells held, by the name of the moment; ``first``: the number of the first among all."""
    try:
        if sums is None:  # one process wrote all of them
            with np.load(path, allow_pickle=False) as stored:
                mine = first + np.arange(cells.borders[-1])
                return {
                    name: devices.unpack(stored, f"{name}/").only(mine)
                    for name in MOMENTS
                    if f"{name}/round" in stored
                }
        return _side_by_side(path, [f"cell-{number:02}.npz" for number, _ in cells.runs()], sums)
    except (OSError, ValueError, KeyError):
        raise damaged(path.parent) from None


def load_all(path: Path, sums: Mapping[str, str]) -> tuple[Moment, Selected | None]:
    """Both halves, in one process."""
    states = _side_by_side(path, sorted(name for name in sums if name != SERVER), sums)
    if file_sum(path / SERVER) != sums[SERVER]:
        raise ValueError
    with np.load(path / SERVER, allow_pickle=False) as stored:
        return unpack(stored, states.__getitem__)


def _side_by_side(path: Path, names: Sequence[str], sums: Mapping[str, str]) -> dict[str, DeviceState]:
    parts: dict[str, list[DeviceState]] = {}
    sizes = []
    for name in names:
        if file_sum(path / name) != sums[name]:
            raise ValueError
        with np.load(path / name, allow_pickle=False) as stored:
            sizes.append(int(stored["users"]))
            for moment in stored["moments"].tolist():
                parts.setdefault(moment, []).append(devices.unpack(stored, f"{moment}/"))
    return {moment: DeviceState.side_by_side(states, sizes) for moment, states in parts.items()}
