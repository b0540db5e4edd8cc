"""A federation of devices that repeats a simulation: each user's interactions on a device of its own, the same draws.

Only here do devices have the run's seed for a key. What comes of it must be what the simulator gives, to the bit.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.save import unpack
from fedrec.core.slots import Array
from fedrec.data.interactions import Interactions
from fedrec.data.split import Split, split
from fedrec.deploy.device import Device
from fedrec.deploy.state import Folder
from fedrec.deploy.terms import Terms
from fedrec.simulate.moment import Round
from fedrec.simulate.simulation import Simulation


def some_of(data: Interactions, devices: int) -> Interactions:
    """The same catalogue with the first users alone."""
    end = int(data.indptr[min(devices, data.n_users)])
    return replace(
        data,
        indptr=data.indptr[: devices + 1],
        items=data.items[:end],
        times=None if data.times is None else data.times[:end],
        user_ids=data.user_ids[:devices],
    )


def make_server(path: Path, terms: Terms, parts: Split) -> Folder:
    catalog, data = parts.catalog, parts.data
    sizes = (catalog.n_users, catalog.positives, catalog.ordered)
    return Folder.make(path, terms, list(data.item_ids), data.titles, *sizes)


def make_devices(path: Path, terms: Terms, parts: Split) -> list[Path]:
    """A folder for each user that could be split."""
    data, made = parts.data, []
    for number, user in enumerate(parts.users):
        rows = slice(data.indptr[user], data.indptr[user + 1])
        times: Sequence[int | None] = (
            [None] * (rows.stop - rows.start) if data.times is None else data.times[rows].tolist()
        )
        met = list(zip(data.items[rows].tolist(), times, strict=True))
        owner = data.user_ids[user]
        name, folder = f"d{number:05}", path / f"d{number:05}"
        Device.make(
            folder, terms, list(data.item_ids), data.titles, met,
            name=name, owner=owner.item() if hasattr(owner, "item") else str(owner), secret=terms.seed,
        ).close()  # fmt: skip
        made.append(folder)
    return made


def simulated(
    data: Interactions, terms: Terms, rounds: int, records: list[Round] | None = None
) -> Simulation:
    """What the simulator makes of the same terms; what it says of its rounds is added to the records."""
    simulation = Simulation(
        terms.made, split(data, terms.protocol, terms.seed), terms.seed, channel=terms.stages
    )
    for _ in range(rounds):
        record = simulation.play(evaluate=True)
        if records is not None:
            records.append(record)
    return simulation


def furthest(folder: Folder, devices: Sequence[Path], simulation: Simulation) -> dict[str, float]:
    """How far the federation is from the simulation, by array: 0 is to the bit."""
    saved, there = folder.load(), simulation.moment
    assert saved is not None
    found = {f"server {n}": _apart(saved.server.held[n], v) for n, v in there.server.held.items()}
    for number, path in enumerate(devices):
        device = Device(path)
        rounds = device.file.rounds()
        device.close()
        if not rounds:
            continue
        with np.load(io.BytesIO(rounds[-1].after), allow_pickle=False) as stored:
            state = unpack({n: stored[n] for n in stored.files})
        for name, lines in there.devices.lines.items():
            key = f"devices' {name}"
            found[key] = max(found.get(key, 0.0), _apart(state.lines[name][0], lines[number]))
        for name, store in there.devices.rows.items():
            key = f"devices' {name} rows"
            mine, theirs = state.rows[name].get(np.array([0])), store.get(np.array([number]))
            same = np.array_equal(mine.items.items, theirs.items.items)
            found[key] = max(found.get(key, 0.0), _apart(mine.values, theirs.values) if same else np.inf)
    return found


def _apart(a: Array | NDArray[np.float32], b: Array) -> float:
    if a.shape != b.shape:
        return float("inf")
    return 0.0 if a.tobytes() == b.tobytes() else max(float(np.abs(a - b).max(initial=0)), 1e-45)
