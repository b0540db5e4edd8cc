"""Sums in fixed point while blocks are under way: a table for each thread instead of one for each block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from fedrec.core.fixed import Grid
from fedrec.core.rounding import Added, Steps
from fedrec.core.slots import Array, Slot
from fedrec.core.upload import Total, Upload


@dataclass(frozen=True)
class Whole:
    """A sum of whole numbers: an engine may add uploads to it as it makes them."""

    grid: Grid
    steps: Steps
    total: Total

    def added(self, name: str, clients: int) -> Added:
        """For compiled code that makes the array of this name of so many clients."""
        words: Any = self.total.sums[name]
        return Added(self.steps, words, np.zeros(clients, np.bool_))

    def counted(self, weights: Array) -> Total:
        """The sum, once uploads of these weights have been added to it."""
        self.total.weight += float(self.grid.encode(weights).sum())
        self.total.clients += len(weights)
        return self.total

    def add(self, upload: Upload) -> None:
        self.grid.add(upload, self.total)


class Gathering:
    """Whole numbers can be added up in any order, so whoever is at work adds to a sum that nobody is using."""

    def __init__(self, grid: Grid, declared: dict[str, Slot], clients: int) -> None:
        self.grid, self.declared, self.steps = grid, declared, grid.steps(clients)
        self._free: SimpleQueue[Total] = SimpleQueue()

    @contextmanager
    def lent(self) -> Iterator[Whole]:
        """A sum for a while."""
        try:
            mine = self._free.get_nowait()
        except Empty:
            mine = self.grid.empty(self.declared)
        yield Whole(self.grid, self.steps, mine)
        self._free.put(mine)

    def total(self) -> Total:
        """The sum of all; asked for when every block is done."""
        total = None if self._free.empty() else self._free.get_nowait()
        while total is not None and not self._free.empty():
            total.add(self._free.get_nowait())
        return total or self.grid.empty(self.declared)
