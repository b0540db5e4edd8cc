"""Item tables of some clients that are made from a hidden vector of each, row by row, when they are asked for.

Client c's row of item i is  W_i x_c + b_i,  with W a (rank × hidden) matrix for every item. A client asks for few of
its rows, and so all of a block's are made item by item: one product of the vectors of those who ask with W_i, which is
read once. Sums are taken in one order, so that a client's row does not hang on who else asks. Back from gradients y of
rows:

    ∂W_i = Σ_c y_ci x_cᵀ,   ∂b_i = Σ_c y_ci,   ∂x_c = Σ_i W_iᵀ y_ci.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.core.compiled import part
from fedrec.core.entropy import F
from fedrec.core.products import FEW, LANES, inner, multiply
from fedrec.core.ragged import Ids, Ragged
from fedrec.core.slots import Array

SOME = 16  # clients whose vectors stay in the nearest caches, with the matrix of an item


class MadeTables:
    """Looks like an array (clients, items, rank)."""

    def __init__(self, vectors: Array, weight: Array, bias: Array, rank: int) -> None:
        self.vectors, self.rank = np.ascontiguousarray(vectors), rank
        self.weight, self.bias = np.ascontiguousarray(weight), bias
        self.shape = len(vectors), len(bias) // rank, rank
        self._last: tuple[Ragged, Array] | None = None

    def __len__(self) -> int:
        return len(self.vectors)

    def rows(self, items: Ragged) -> Array:
        """Rows of some items for each client, one client after another. The last ones are remembered."""
        last = self._last[0] if self._last else None
        if last and np.array_equal(last.items, items.items) and np.array_equal(last.indptr, items.indptr):
            return self._last[1]  # type: ignore[index]
        out = np.empty((len(items.items), self.rank), np.float32)
        _make(self.vectors, self.weight, self.bias, _by_item(*items, self.shape[1]), out)
        self._last = items, out
        return out

    def gradients(self, clients: Ids, items: Ragged, slopes: Array) -> tuple[Array, Array, Array]:
        """From gradients of rows of some clients: those of their vectors, of W and of b."""
        vectors = self.vectors[clients]
        found = np.zeros_like(vectors), np.empty_like(self.weight), np.empty_like(self.bias)
        _pull(vectors, self.weight, _by_item(*items, self.shape[1]), slopes, *found)
        return found

    def __getitem__(self, at: tuple[Any, Any]) -> Array:
        """Rows by client and item: of a line of items for each client."""
        clients, items = np.broadcast_arrays(*at)
        some = MadeTables(self.vectors[clients[:, 0]], self.weight, self.bias, self.rank)
        ends = np.arange(len(items) + 1) * items.shape[1]
        return some.rows(Ragged(ends, items.reshape(-1).astype(np.int32))).reshape(*items.shape, self.rank)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        everything = np.broadcast_to(np.arange(self.shape[1]), self.shape[:2])
        return self[np.arange(len(self))[:, None], everything]


class Pairs(NamedTuple):
    """Clients and items that belong together, item after item."""

    starts: Ids  # where an item's begin
    clients: NDArray[np.int32]
    places: NDArray[np.int32]  # among the rows, which are in the order of clients


@nb.njit(cache=True, nogil=True)
def _by_item(indptr: Any, items: Any, n_items: int) -> Pairs:
    starts, at = np.zeros(n_items + 1, np.int64), np.zeros(n_items, np.int64)
    for item in items:
        starts[item + 1] += 1
    for i in range(n_items):
        starts[i + 1] += starts[i]
        at[i] = starts[i]
    clients, places = np.empty(len(items), np.int32), np.empty(len(items), np.int32)
    for c in range(len(indptr) - 1):
        for k in range(indptr[c], indptr[c + 1]):
            to = at[items[k]]
            clients[to], places[to] = c, k
            at[items[k]] = to + 1
    return Pairs(starts, clients, places)


class Desk(NamedTuple):
    """Scratch: one item's matrix and some clients' vectors, with padding (``core.products``)."""

    w: Array  # W_i
    x: Array  # vectors of those who ask
    y: Array  # their rows of this item, or the slopes of those
    d: Array  # y W_i
    dw: Array  # ∂W_i
    none: Array


@part()
def _make_desk(rank: int, hidden: int) -> Desk:
    lines, columns = (rank + LANES - 1) // LANES * LANES, LANES * ((hidden + LANES - 1) // LANES | 1)
    return Desk(
        np.zeros((lines, columns), F), np.zeros((SOME, columns), F), np.zeros((SOME, lines), F),
        np.zeros((SOME, columns), F), np.zeros((lines, columns), F), np.zeros(columns, F),
    )  # fmt: skip


@part()
def _fetch(to: Any, source: Any, first: int, count: int) -> None:
    """Rows that follow each other."""
    for k in range(count):
        for j in range(source.shape[1]):
            to[k, j] = source[first + k, j]


@part()
def _gather(to: Any, source: Any, rows: Any) -> None:
    for k in range(len(rows)):
        row = rows[k]
        for j in range(source.shape[1]):
            to[k, j] = source[row, j]


@nb.njit(cache=True, nogil=True)
def _make(vectors: Any, weight: Any, bias: Any, pairs: Pairs, out: Any) -> None:
    rank, hidden = out.shape[1], vectors.shape[1]
    desk = _make_desk(rank, hidden)
    lines, columns = desk.w.shape
    w, x, y = desk.w.reshape(-1), desk.x.reshape(-1), desk.y.reshape(-1)
    for item in range(len(pairs.starts) - 1):
        first, end = item * rank, pairs.starts[item + 1]
        if pairs.starts[item] < end:
            _fetch(desk.w, weight, first, rank)
        for at in range(pairs.starts[item], end, SOME):
            few = min(SOME, end - at)
            _gather(desk.x, vectors, pairs.clients[at : at + few])
            inner(y, lines, x, w, columns, (few + 1) // 2 * 2, lines, columns)
            for k in range(few):
                place = pairs.places[at + k]
                for r in range(rank):
                    out[place, r] = desk.y[k, r] + bias[first + r]


@nb.njit(cache=True, nogil=True)
def _pull(
    vectors: Any, weight: Any, pairs: Pairs, slopes: Any, d_vectors: Any, d_weight: Any, d_bias: Any
) -> None:
    rank, hidden = slopes.shape[1], vectors.shape[1]
    desk = _make_desk(rank, hidden)
    lines, columns = desk.w.shape
    width = (hidden + LANES - 1) // LANES * LANES
    w, x, y = desk.w.reshape(-1), desk.x.reshape(-1), desk.y.reshape(-1)
    d, dw = desk.d.reshape(-1), desk.dw.reshape(-1)
    for item in range(len(pairs.starts) - 1):
        start, end, first = pairs.starts[item], pairs.starts[item + 1], item * rank
        for r in range(rank):
            d_bias[first + r] = F(0)
        if start < end:
            _fetch(desk.w, weight, first, rank)
        for i in range(len(dw)):
            dw[i] = F(0)
        for at in range(start, end, SOME):
            few = min(SOME, end - at)
            clients = pairs.clients[at : at + few]
            _gather(desk.x, vectors, clients)
            _gather(desk.y, slopes, pairs.places[at : at + few])
            for k in range(few):
                for r in range(rank):
                    d_bias[first + r] += desk.y[k, r]
            multiply(dw, 0, columns, dw, 0, columns, y, 0, 1, lines, x, 0, columns, lines, width, few)
            filled = (few + FEW - 1) // FEW * FEW
            multiply(d, 0, columns, desk.none, 0, 0, y, 0, lines, 1, w, 0, columns, filled, width, rank)
            for k in range(few):
                client = clients[k]
                for j in range(hidden):
                    d_vectors[client, j] += desk.d[k, j]
        for r in range(rank):
            for j in range(hidden):
                d_weight[first + r, j] = desk.dw[r, j]
