"""Device state as plain arrays, for a checkpoint or a file of its own. No pickle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedrec.clients.state import DeviceState
from fedrec.clients.store import RowStore
from fedrec.core.files import replacing

LINES, ROWS = "private", "rows"


def pack(state: DeviceState, prefix: str = "") -> dict[str, Any]:
    """Arrays by name; the values of rows are fetched from their store when they are written."""
    arrays: dict[str, Any] = {f"{prefix}{LINES}/{n}": v for n, v in state.lines.items()}
    for name, store in state.rows.items():
        arrays |= {f"{prefix}{ROWS}/{name}/{part}": v for part, v in store.pieces().items()}
    return arrays


def unpack(stored: Mapping[str, Any], prefix: str = "") -> DeviceState:
    lines, stores = {}, set()
    for key in stored:
        if not key.startswith(prefix):
            continue
        kind, _, slot = key.removeprefix(prefix).partition("/")
        if kind == LINES:
            lines[slot] = stored[key]
        elif kind == ROWS:
            stores.add(slot.rpartition("/")[0])
    rows = {n: RowStore.from_pieces(_Under(stored, f"{prefix}{ROWS}/{n}/")) for n in sorted(stores)}
    return DeviceState(lines, rows)


def save_state(path: Path, state: DeviceState) -> None:
    with replacing(path) as file:
        np.savez(file, **pack(state))


def load_state(path: Path) -> DeviceState:
    with np.load(path, allow_pickle=False) as stored:
        return unpack(stored)


class _Under(dict[str, Any]):
    """The arrays whose names begin alike, read when asked for and not kept."""

    def __init__(self, stored: Mapping[str, Any], prefix: str) -> None:
        self._stored, self._prefix = stored, prefix

    def __missing__(self, name: str) -> Any:
        return self._stored[self._prefix + name]
