"""Cells: users cut into fixed runs with about as many rows each. A worker of a cluster has whole cells.

Where a cell begins hangs on the data alone, and clients of two cells are never worked on together: then it does
not matter to any bit which cells share a process.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedrec.core.ragged import Ids

CELLS = 64
FEWEST = 8  # users of a cell, about


def cell_borders(indptr: NDArray[np.int64]) -> Ids:
    """Where cells begin and end, by the numbers of the data's users, whose rows these are."""
    users, rows = len(indptr) - 1, int(indptr[-1])
    count = max(1, min(CELLS, users // FEWEST))
    even = indptr + np.arange(users + 1)  # a user costs something beside its rows
    inner = np.searchsorted(even, (rows + users) * np.arange(1, count) / count)
    return np.unique(np.concatenate([[0], inner, [users]])).astype(np.int64)


def share_of(cells: int, part: int, of: int) -> tuple[int, int]:
    """The cells that worker ``part`` out of ``of`` has: from the first up to the second."""
    return cells * part // of, cells * (part + 1) // of


@dataclass(frozen=True, eq=False)
class Cells:
    """Some cells side by side, over clients that are numbered from 0."""

    borders: Ids
    first: int = 0  # number of the first of them among all cells

    def __len__(self) -> int:
        return len(self.borders) - 1

    @classmethod
    def over(cls, borders: Ids, users: Ids, first: int = 0) -> Cells:
        """Cells of the data as cells over the users (ascending) that take part."""
        return cls(np.searchsorted(users, borders).astype(np.int64), first)

    def cut(self, users: Ids) -> list[Ids]:
        """Some users (ascending), cell by cell; cells without any are left out."""
        cuts = np.searchsorted(users, self.borders[1:-1])
        return [part for part in np.split(users, cuts) if len(part)]

    def runs(self) -> list[tuple[int, Ids]]:
        """Each cell's number among all, and its clients."""
        return [(self.first + c, np.arange(a, b)) for c, (a, b) in enumerate(pairwise(self.borders))]
