"""Sums in fixed point while blocks are under way: a table for each thread instead of one for each block."""

from __future__ import annotations

from queue import Empty, SimpleQueue

from fedrec.core.fixed import Grid
from fedrec.core.slots import Slot
from fedrec.core.upload import Total, Upload


class Gathering:
    """Whole numbers can be added up in any order, so whoever is done adds to a sum that nobody is using."""

    def __init__(self, grid: Grid, declared: dict[str, Slot]) -> None:
        self.grid, self.declared = grid, declared
        self._free: SimpleQueue[Total] = SimpleQueue()

    def add(self, upload: Upload) -> None:
        try:
            mine = self._free.get_nowait()
        except Empty:
            mine = self.grid.empty(self.declared)
        self.grid.add(upload, mine)
        self._free.put(mine)

    def total(self) -> Total:
        """The sum of all; asked for when every block is done."""
        total = self.grid.empty(self.declared)
        while not self._free.empty():
            total.add(self._free.get_nowait())
        return total
