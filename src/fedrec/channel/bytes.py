"""The bytes that cross the network."""

from __future__ import annotations

import numpy as np

from fedrec.core.slots import Array, Slot

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


def downloaded(slots: dict[str, Slot], shared: dict[str, Array] | None = None) -> int:
    """What one client fetches: the whole shared state (fetching touched rows only would reveal them).

    Where the arrays are given, rows that are zero are left out of a table if that makes it smaller.
    """
    total = 0
    for name, slot in slots.items():
        if slot.owner != "shared":
            continue
        size = int(np.prod(slot.shape))
        if slot.rows and shared is not None:
            table = shared[name].reshape(len(shared[name]), -1)
            size = min(size, int(table.any(axis=1).sum()) * (table.shape[1] + 1))
        total += NUMBER * size
    return total
