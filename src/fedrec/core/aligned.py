"""Tables whose rows begin with lines of memory: fetched at random, a row of 128 bytes is two of them and not three."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.slots import Array

LINE = 64  # bytes


def empty(shape: tuple[int, ...]) -> Array:
    return _within(np.empty(4 * int(np.prod(shape)) + LINE, np.uint8), np.float32, shape)


def zeros_like(table: Array) -> Array:
    made = empty(table.shape)
    made[...] = 0
    return made


def no_words(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Whole numbers, all zero."""
    return _within(np.zeros(8 * int(np.prod(shape)) + LINE, np.uint8), np.int64, shape)


def _within(room: NDArray[np.uint8], kind: type, shape: tuple[int, ...]) -> NDArray[Any]:
    start = -room.ctypes.data % LINE
    return room[start : len(room) - LINE + start].view(kind).reshape(shape)


def aligned(table: Array) -> Array:
    """The table itself where it lies so already."""
    if table.ctypes.data % LINE == 0 or table.nbytes < LINE:
        return table
    made = empty(table.shape)
    made[...] = table
    return made
