"""A client's numbers, rounded to whole steps and added up in compiled code right where they are made.

The same whole numbers as ``Grid.fits`` and ``Grid.add`` make of its upload (``core/fixed.py``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec.core.compiled import part
from fedrec.core.prefetch import AHEAD, prefetch

NOT, SLOWLY, QUICKLY = range(3)  # how a client's numbers can be rounded
QUICK = 2.0**30  # steps up to which a number is rounded in 32 bits, which becomes vector code


class Steps(NamedTuple):
    """A grid as compiled code takes it."""

    scale: float  # steps of 1, a power of two
    most: float  # the largest size of a number that a client may send


class Added(NamedTuple):
    """Where whole numbers go (empty: nowhere), and whose had room there."""

    steps: Steps
    words: NDArray[np.int64]
    fits: NDArray[np.bool_]


NOWHERE = Added(Steps(1.0, 0.0), np.zeros((0, 0), np.int64), np.zeros(0, np.bool_))


@part()
def largest(values: Any) -> Any:
    """The largest size in a table; not a number where one is none. Sizes compare like the whole numbers they are stored
    as, for which no order of comparing matters."""
    most = np.int32(0)
    for row in range(values.shape[0]):
        for j in range(values.shape[1]):
            most = max(most, np.int32(np.float32(values[row, j]).view(np.int32) & 0x7FFFFFFF))
    return np.int32(most).view(np.float32)


@part()
def how_rounded(size: Any, weight: Any, steps: Steps) -> int:
    """How numbers up to this size can be rounded, each times the weight."""
    reached = np.float64(size) * np.float64(weight)
    if not (reached <= steps.most and weight <= steps.most):
        return NOT
    return QUICKLY if reached * steps.scale <= QUICK else SLOWLY


@part()
def add_moves(words: Any, items: Any, rows: Any, table: Any, reach: Any, weight: Any, steps: Steps) -> bool:
    """Add how far a client's rows moved from those of a table, all or none: whether they had room.

    ``reach`` is the largest size in the table. Halves go to the even step.
    """
    how = how_rounded(largest(rows) + reach, weight, steps)
    if how != QUICKLY:  # look closer
        moves = np.empty_like(rows)
        for row in range(len(items)):
            for j in range(rows.shape[1]):
                moves[row, j] = rows[row, j] - table[items[row], j]
        how = how_rounded(largest(moves), weight, steps)
        if how == NOT:
            return False
    factor, factor_32 = np.float64(weight) * steps.scale, np.float32(steps.scale)
    for row in range(len(items)):
        prefetch(words, items[min(row + AHEAD, len(items) - 1)])
        mine, before, sums = rows[row], table[items[row]], words[items[row]]
        if how == QUICKLY and weight == 1:  # a power of two is as exact in 32 bits
            for j in range(len(mine)):
                sums[j] += np.int64(np.int32(np.rint((mine[j] - before[j]) * factor_32)))
        elif how == QUICKLY:
            for j in range(len(mine)):
                sums[j] += np.int64(np.int32(np.rint(np.float64(mine[j] - before[j]) * factor)))
        else:
            for j in range(len(mine)):
                sums[j] += np.int64(np.rint(np.float64(mine[j] - before[j]) * factor))
    return True


@part()
def add_multiple(words: Any, line: Any, times: Any, scale: float, how: int) -> None:
    """Add a line of numbers, each times another number, to a line of words."""
    if how == QUICKLY:
        factor = np.float32(scale)
        for j in range(len(line)):
            words[j] += np.int64(np.int32(np.rint(times * line[j] * factor)))
    else:
        for j in range(len(line)):
            words[j] += np.int64(np.rint(np.float64(times * line[j]) * scale))
