"""Scores of the log-linear family: a client's own rows where it holds some, the table elsewhere."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from fedrec.core.compiled import part
from fedrec.core.entropy import FAST, F

# Of clients without rows of their own: where they begin, of which items they are, the rows.
NO_ROWS = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros((0, 1), np.float32)


@part(fastmath=FAST)
def _dot(table: Any, row: int, w: Any) -> Any:
    total = F(0)
    for j in range(table.shape[1]):
        total += table[row, j] * w[j]
    return total


@part()
def _place(items: Any, first: int, end: int, item: int) -> int:
    """Where it stands, or would, among ascending items; NumPy's own takes a third of a second to compile."""
    while first < end:
        middle = (first + end) // 2
        if items[middle] < item:
            first = middle + 1
        else:
            end = middle
    return first


@nb.njit(cache=True, nogil=True)
def score_lines(
    table: Any, vectors: Any, biases: Any, own_ptr: Any, own_items: Any, own_rows: Any, items: Any, out: Any
) -> None:
    for c in range(len(items)):
        first, end = (own_ptr[c], own_ptr[c + 1]) if len(own_ptr) else (0, 0)
        for k in range(items.shape[1]):
            item = max(items[c, k], 0)  # padding
            at = _place(own_items, first, end, item)
            if at < end and own_items[at] == item:
                out[c, k] = _dot(own_rows, at, vectors[c]) + biases[c]
            else:
                out[c, k] = _dot(table, item, vectors[c]) + biases[c]


@nb.njit(cache=True, nogil=True)
def score_all_rows(
    table: Any, vectors: Any, biases: Any, own_ptr: Any, own_items: Any, own_rows: Any, out: Any
) -> None:
    for c in range(len(vectors)):
        for item in range(len(table)):
            out[c, item] = _dot(table, item, vectors[c]) + biases[c]
        if len(own_ptr):
            for at in range(own_ptr[c], own_ptr[c + 1]):
                out[c, own_items[at]] = _dot(own_rows, at, vectors[c]) + biases[c]
