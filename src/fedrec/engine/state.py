"""The state of a simulated federation between two rounds. A value: a round makes a new one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from fedrec.core.rng import generator
from fedrec.core.slots import Array, Slot
from fedrec.engine.store import RowStore

START = "start"
FRESH = "fresh"


@dataclass(frozen=True)
class State:
    """What the server holds, and what each device holds, after ``round`` rounds."""

    round: int
    shared: dict[str, Array]
    server: dict[str, Array] = field(default_factory=dict)  # never leaves the server
    private: dict[str, Array] = field(default_factory=dict)  # a line per client
    rows: dict[str, RowStore] = field(default_factory=dict)  # item rows that devices keep


def begin(slots: dict[str, Slot], n_users: int, seed: int) -> State:
    """Before the first round. All clients start alike, as the papers' code does."""
    shared, server, private, rows = {}, {}, {}, {}
    for name, slot in slots.items():
        if slot.owner == "shared":
            shared[name] = starting(name, slot, seed)
        elif slot.owner == "server":
            server[name] = starting(name, slot, seed)
        elif slot.owner == "private" and slot.rows:
            rows[name] = RowStore(slot.shape[1:])
        elif slot.owner == "private":
            private[name] = np.repeat(starting(name, slot, seed)[None], n_users, axis=0)
    return State(0, shared, server, private, rows)


def starting(name: str, slot: Slot, seed: int) -> Array:
    """How a slot starts: a function of the seed and its name."""
    return slot.begin(generator(seed, f"{START}:{name}"))


def freshly(name: str, slot: Slot, seed: int, round: int) -> Array:
    """How a slot that is made anew starts in a round: alike for all clients, as the others do."""
    return slot.begin(generator(seed, f"{FRESH}:{name}", round))


def localized(slots: dict[str, Slot]) -> dict[str, Slot]:
    """The same slots when nothing is ever aggregated: what was shared stays on each device."""
    return {n: replace(s, owner="private") if s.owner == "shared" else s for n, s in slots.items()}
