"""Moments as arrays by name, and sums of files: what checkpoints of either form are made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedrec.clients.state import DeviceState
from fedrec.core.errors import FedrecError
from fedrec.server import server
from fedrec.simulate.moment import Moment, Selected


def moments(last: Moment, selected: Selected | None) -> dict[str, Moment]:
    """What a checkpoint holds, by name: the last moment, the selected one where that is another, the one before it."""
    found = {"last": last}
    if selected is not None and selected.round != last.round:
        found["after"] = selected.moment
    if selected is not None and selected.moment.before is not None:
        found["before"] = selected.moment.before
    return found


def pack_server(last: Moment, selected: Selected | None) -> dict[str, Any]:
    """The server's half."""
    arrays: dict[str, Any] = {}
    for name, moment in moments(last, selected).items():
        arrays |= server.pack(moment.server, f"{name}/")
    if selected is not None:
        figures = {"value": selected.value, "validation": selected.validation}
        arrays["selected"] = np.array(json.dumps(figures))
    return arrays


def unpack(
    stored: Mapping[str, Any], devices: Callable[[str], DeviceState]
) -> tuple[Moment, Selected | None]:
    """The last and the selected moment; ``devices`` gives those of a moment by its name."""

    def moment(name: str) -> Moment:
        return Moment(server.unpack(stored, f"{name}/"), devices(name))

    last = moment("last")
    if "selected" not in stored:
        return last, None
    best = json.loads(str(stored["selected"]))
    after = moment("after") if "after/round" in stored else last
    before = moment("before") if "before/round" in stored else None
    return last, Selected(Moment(after.server, after.devices, before), best["value"], best["validation"])


def file_sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damaged(folder: Path) -> FedrecError:
    return FedrecError(
        f"the checkpoint in {folder} is damaged: start the run anew with another --out "
        "(figures of a finished run are still in its result.json)"
    )
