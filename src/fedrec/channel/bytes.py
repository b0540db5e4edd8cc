"""The bytes that cross the network."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedrec.core.slots import Arrays, Slot

NUMBER = 4  # bytes of a float32, and of an item's code


def uploaded(
    declared: Mapping[str, Slot], clients: int, rows: int, whole_tables: bool, number: int = NUMBER
) -> int:
    """What clients send: of tables the touched rows, each with its item's code, other arrays whole.

    ``number``: bytes of a number.
    """
    tables = {n: s for n, s in declared.items() if s.rows and not whole_tables}
    total = clients * number * sum(int(np.prod(s.shape)) for n, s in declared.items() if n not in tables)
    if tables:
        total += rows * (NUMBER + number * sum(int(np.prod(s.shape[1:])) for s in tables.values()))
    return total


def downloaded(slots: Mapping[str, Slot], given: Mapping[str, Slot], shared: Arrays | None = None) -> int:
    """What one client fetches: the whole shared state (fetching touched rows only would reveal them), and
    what is made for it.

    Where the arrays are told, rows that are zero are left out of a table if that makes it smaller.
    """
    total = sum(int(np.prod(slot.shape)) for slot in given.values())
    for name, slot in slots.items():
        if slot.owner != "shared":
            continue
        size = int(np.prod(slot.shape))
        if slot.rows and shared is not None:
            table = shared[name].reshape(len(shared[name]), -1)
            size = min(size, int(table.any(axis=1).sum()) * (table.shape[1] + 1))
        total += size
    return NUMBER * total
