"""The bytes that cross the network."""

from __future__ import annotations

import numpy as np

from fedrec.core.slots import Slot

NUMBER = 4  # bytes of a float32, and of an item's code


def uploaded(declared: dict[str, Slot], clients: int, rows: int, whole_tables: bool) -> int:
    """What clients send: of tables the touched rows with their item codes, other arrays whole."""
    total = 0
    for slot in declared.values():
        if slot.rows and not whole_tables:
            total += rows * NUMBER * (int(np.prod(slot.shape[1:])) + 1)
        else:
            total += clients * NUMBER * int(np.prod(slot.shape))
    return total


def downloaded(slots: dict[str, Slot]) -> int:
    """What one client fetches: the whole shared state (fetching touched rows only would reveal them)."""
    return sum(NUMBER * int(np.prod(s.shape)) for s in slots.values() if s.owner == "shared")
