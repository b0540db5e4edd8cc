"""A pool of rows that grows by chunks; places that no store points to are used again."""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 25  # bytes, about
LIMIT = "FEDREC_ROWS_IN_MEMORY"  # bytes of rows per pool that are not mapped to files


class Pool:
    """Chunks of rows. Only one thread writes; the list of chunks is replaced, never changed, for readers."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.bits = max(int(np.log2(CHUNK / (4 * max(width, 1)))), 0)  # rows per chunk: a power of two
        self.limit = int(float(os.environ.get(LIMIT, 4e9)))
        self.stores: weakref.WeakSet[Any] = weakref.WeakSet()  # whoever points to places here
        self._arrays: list[NDArray[np.float32]] = []
        self._chunks: Any = None
        self._free = np.zeros(0, np.int32)
        self._used = 0  # of the free places
        self._taken = 0  # since room was last made

    @property
    def chunks(self) -> Any:
        """The chunks as compiled code reads them."""
        if self._chunks is None:
            self._grow(1)
        return self._chunks

    @property
    def capacity(self) -> int:
        return len(self._arrays) << self.bits

    @property
    def mapped(self) -> int:
        """Chunks that lie in files."""
        return sum(isinstance(chunk.base, np.memmap) for chunk in self._arrays)

    def take(self, count: int) -> NDArray[np.int32]:
        """Places for some rows."""
        short = count - (len(self._free) - self._used)
        if short > 0:
            self._grow(short)
        self._used += count
        self._taken += count
        return self._free[self._used - count : self._used]

    def make_room(self) -> None:
        """Find the places that no store points to, if there may be too few left for another such change.

        Must not be called between ``take`` and the store that points there.
        """
        if len(self._free) - self._used < self._taken:
            free = np.ones(self.capacity, np.bool_)
            for store in self.stores:
                free[store.index.places] = False
            self._free, self._used = np.flatnonzero(free).astype(np.int32), 0
        self._taken = 0

    def _grow(self, rows: int) -> None:
        from numba.typed import List

        per_chunk = 1 << self.bits
        first = self.capacity
        for _ in range(-(-rows // per_chunk)):
            inside = (len(self._arrays) + 1) * per_chunk * self.width * 4 <= self.limit
            self._arrays.append(np.empty((per_chunk, self.width), np.float32) if inside else self._file())
        self._chunks = List(self._arrays)
        fresh = np.arange(first, self.capacity, dtype=np.int32)
        self._free, self._used = np.concatenate([self._free[self._used :], fresh]), 0

    def _file(self) -> NDArray[np.float32]:
        """A chunk in a file without a name: it goes when the pool goes."""
        with tempfile.TemporaryFile() as file:
            return np.asarray(np.memmap(file, np.float32, "w+", shape=(1 << self.bits, self.width)))
