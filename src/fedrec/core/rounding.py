"""A client's numbers, rounded to whole steps and added up in compiled code right where they are made.

The same whole numbers as ``Grid.fits`` and ``Grid.add`` make of its upload (``core/fixed.py``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec.core.compiled import part

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
    as, in which no order of comparing matters."""
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
def add_rounded(words: Any, values: Any, weight: Any, scale: float, how: int) -> None:
    """Add a line of numbers to one of words; halves go to the even step."""
    factor = np.float64(weight) * scale
    if how == QUICKLY and weight == 1:  # to a power of two as exact in 32 bits
        scale_32 = np.float32(scale)
        for j in range(len(values)):
            words[j] += np.int64(np.int32(np.rint(values[j] * scale_32)))
    elif how == QUICKLY:
        for j in range(len(values)):
            words[j] += np.int64(np.int32(np.rint(np.float64(values[j]) * factor)))
    else:
        for j in range(len(values)):
            words[j] += np.int64(np.rint(np.float64(values[j]) * factor))


@part()
def add_rows(words: Any, items: Any, rows: Any, weight: Any, steps: Steps) -> bool:
    """Add a client's rows to those of its items, all or none: whether they had room."""
    how = how_rounded(largest(rows), weight, steps)
    if how == NOT:
        return False
    for row in range(len(items)):
        add_rounded(words[items[row]], rows[row], weight, steps.scale, how)
    return True
