"""Tables whose rows begin with lines of memory: fetched at random, a row of 128 bytes is two of them and not three."""

from __future__ import annotations

import numpy as np

from fedrec.core.slots import Array

LINE = 64  # bytes


def empty(shape: tuple[int, ...]) -> Array:
    size = 4 * int(np.prod(shape))
    room = np.empty(size + LINE, np.uint8)
    start = -room.ctypes.data % LINE
    return room[start : start + size].view(np.float32).reshape(shape)


def zeros_like(table: Array) -> Array:
    made = empty(table.shape)
    made[...] = 0
    return made


def aligned(table: Array) -> Array:
    """The table itself where it lies so already."""
    if table.ctypes.data % LINE == 0 or table.nbytes < LINE:
        return table
    made = empty(table.shape)
    made[...] = table
    return made
