"""Two states on disk: the last (to go on) and the selected (to rank). Plain arrays, replaced atomically."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError
from fedrec.engine.round import Selected
from fedrec.engine.state import State
from fedrec.engine.store import RowStore
from fedrec.engine.views import Moment

Arrays = dict[str, NDArray[Any]]


def save_checkpoint(folder: Path, state: State, selected: Selected | None) -> None:
    """Write beside the old one, then point to the new: a reader sees the one or the other, whole."""
    folder.mkdir(exist_ok=True)
    arrays = _pack("last", state)
    if selected is not None:
        before, after = selected.moment.before, selected.moment.after
        figures = {"value": selected.value, "validation": selected.validation}
        arrays["selected"] = np.array(json.dumps(figures))
        if after.round != state.round:
            arrays |= _pack("after", after)
        if before is not None:
            arrays |= _pack("before", before)
    path = folder / f"round-{state.round}.npz"
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
    current = {"file": path.name, "sha256": _sum(temporary)}
    temporary.replace(path)
    pointer = folder / "current.tmp"
    pointer.write_text(json.dumps(current), encoding="utf-8")
    pointer.replace(folder / "current.json")
    for old in folder.glob("round-*"):
        if old != path:
            old.unlink()


def load_checkpoint(folder: Path) -> tuple[State, Selected | None]:
    """The last and the selected state, checked against their sum."""
    pointer = folder / "current.json"
    if not pointer.exists():
        raise FedrecError(f"{folder.parent} has no checkpoint: start the run anew with another --out")
    try:
        current = json.loads(pointer.read_text(encoding="utf-8"))
        path = folder / current["file"]
        if _sum(path) != current["sha256"]:
            raise ValueError
        with np.load(path, allow_pickle=False) as stored:  # arrays are read when asked for
            return _unpack_all(stored)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        raise FedrecError(
            f"the checkpoint in {folder} is damaged: start the run anew with another --out"
        ) from None


def _unpack_all(stored: Mapping[str, Any]) -> tuple[State, Selected | None]:
    state = _unpack("last", stored)
    assert state is not None
    if "selected" not in stored:
        return state, None
    best = json.loads(str(stored["selected"]))
    after = _unpack("after", stored) or state
    return state, Selected(Moment(_unpack("before", stored), after), best["value"], best["validation"])


def _pack(name: str, state: State) -> dict[str, Any]:
    arrays: dict[str, Any] = {f"{name}/round": np.array(state.round)}
    arrays |= {f"{name}/shared/{n}": v for n, v in state.shared.items()}
    arrays |= {f"{name}/server/{n}": v for n, v in state.server.items()}
    arrays |= {f"{name}/private/{n}": v for n, v in state.private.items()}
    for n, store in state.rows.items():
        arrays |= {f"{name}/rows/{n}/{part}": v for part, v in store.pieces().items()}
    return arrays


def _unpack(name: str, stored: Mapping[str, Any]) -> State | None:
    if f"{name}/round" not in stored:
        return None
    stores: set[str] = set()
    parts: dict[str, Arrays] = {"shared": {}, "server": {}, "private": {}}
    for key in stored:
        head, _, rest = key.partition("/")
        if head != name:
            continue
        kind, _, slot = rest.partition("/")
        if kind in parts:
            parts[kind][slot] = stored[key]
        elif kind == "rows":
            stores.add(slot.rpartition("/")[0])
    rows = {n: RowStore.from_pieces(_Under(stored, f"{name}/rows/{n}/")) for n in sorted(stores)}
    return State(int(stored[f"{name}/round"]), **parts, rows=rows)


class _Under(dict[str, Any]):
    """The arrays whose names begin alike, read when asked for and not kept."""

    def __init__(self, stored: Mapping[str, Any], prefix: str) -> None:
        self._stored, self._prefix = stored, prefix

    def __missing__(self, name: str) -> Any:
        return self._stored[self._prefix + name]


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
