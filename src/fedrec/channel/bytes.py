"""The bytes that cross the network."""

from __future__ import annotations

import numpy as np

from fedrec.core.slots import Slot
from fedrec.engine.upload import Upload

NUMBER = 4  # bytes of a float32, and of an item's code


def uploaded(upload: Upload, slots: dict[str, Slot]) -> int:
    """What the clients of a block send: touched rows with their item codes, other slots whole."""
    total = 0
    for name in upload.rows:
        n_items, *width = slots[name].shape
        row = NUMBER * int(np.prod(width))
        if upload.whole_tables:
            total += upload.clients * n_items * row
        else:
            total += len(upload.held.items) * (row + NUMBER)
    return total + sum(upload.clients * NUMBER * int(np.prod(slots[name].shape)) for name in upload.dense)


def downloaded(slots: dict[str, Slot]) -> int:
    """What one client fetches: the whole shared state (fetching touched rows only would reveal them)."""
    return sum(NUMBER * int(np.prod(s.shape)) for s in slots.values() if s.owner == "shared")
