"""Two moments on disk: the last (to go on) and the selected (to rank). Plain arrays, replaced atomically."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np

from fedrec.clients import save as devices
from fedrec.core.errors import FedrecError
from fedrec.core.files import replacing, write
from fedrec.simulate.cellfiles import CURRENT, load_all, only_this
from fedrec.simulate.moment import Moment, Selected
from fedrec.simulate.packing import damaged, file_sum, moments, pack_server, unpack


def save_checkpoint(folder: Path, last: Moment, selected: Selected | None) -> None:
    """Write beside the old one, then point to the new: a reader sees the one or the other, whole."""
    folder.mkdir(exist_ok=True)
    arrays = pack_server(last, selected)
    for name, moment in moments(last, selected).items():
        arrays |= devices.pack(moment.devices, f"{name}/")
    path = folder / f"round-{last.round}.npz"
    with replacing(path) as file:
        np.savez(file, **arrays)
    write(folder / CURRENT, json.dumps({"file": path.name, "sha256": file_sum(path)}))
    only_this(path)


def load_checkpoint(folder: Path) -> tuple[Moment, Selected | None]:
    """The last and the selected moment, checked against their sum, whoever wrote them."""
    pointer = folder / CURRENT
    if not pointer.exists():
        raise FedrecError(f"{folder.parent} has no checkpoint: start the run anew with another --out")
    try:
        current = json.loads(pointer.read_text(encoding="utf-8"))
        path, sums = folder / current["file"], current["sha256"]
        if isinstance(sums, dict):
            return load_all(path, sums)
        if file_sum(path) != sums:
            raise ValueError
        with np.load(path, allow_pickle=False) as stored:  # arrays are read when asked for
            return unpack(stored, lambda name: devices.unpack(stored, f"{name}/"))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        raise damaged(folder) from None
