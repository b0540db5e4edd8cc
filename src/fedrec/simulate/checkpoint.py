"""Two moments on disk: the last (to go on) and the selected (to rank). Plain arrays, replaced atomically."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedrec.clients import save as devices
from fedrec.core.errors import FedrecError
from fedrec.core.files import replacing, write
from fedrec.server import server
from fedrec.simulate.moment import Moment, Selected


def save_checkpoint(folder: Path, last: Moment, selected: Selected | None) -> None:
    """Write beside the old one, then point to the new: a reader sees the one or the other, whole."""
    folder.mkdir(exist_ok=True)
    arrays = _pack("last", last)
    if selected is not None:
        figures = {"value": selected.value, "validation": selected.validation}
        arrays["selected"] = np.array(json.dumps(figures))
        if selected.round != last.round:
            arrays |= _pack("after", selected.moment)
        if selected.moment.before is not None:
            arrays |= _pack("before", selected.moment.before)
    path = folder / f"round-{last.round}.npz"
    with replacing(path) as file:
        np.savez(file, **arrays)
    write(folder / "current.json", json.dumps({"file": path.name, "sha256": _sum(path)}))
    for old in folder.glob("round-*"):
        if old != path:
            old.unlink()


def load_checkpoint(folder: Path) -> tuple[Moment, Selected | None]:
    """The last and the selected moment, checked against their sum."""
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
            f"the checkpoint in {folder} is damaged: start the run anew with another --out "
            "(figures of a finished run are still in its result.json)"
        ) from None


def _unpack_all(stored: Mapping[str, Any]) -> tuple[Moment, Selected | None]:
    last = _unpack("last", stored)
    if "selected" not in stored:
        return last, None
    best = json.loads(str(stored["selected"]))
    after = _unpack("after", stored) if "after/round" in stored else last
    before = _unpack("before", stored) if "before/round" in stored else None
    return last, Selected(Moment(after.server, after.devices, before), best["value"], best["validation"])


def _pack(name: str, moment: Moment) -> dict[str, Any]:
    return {**server.pack(moment.server, f"{name}/"), **devices.pack(moment.devices, f"{name}/")}


def _unpack(name: str, stored: Mapping[str, Any]) -> Moment:
    return Moment(server.unpack(stored, f"{name}/"), devices.unpack(stored, f"{name}/"))


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
