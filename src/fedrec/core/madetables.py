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

from fedrec.core.entropy import FAST, STEADY, F
from fedrec.core.ragged import Ids, Ragged
from fedrec.core.slots import Array


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


@nb.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _dots(x: Any, w0: Any, w1: Any, w2: Any, w3: Any) -> Any:
    """Inner products of a vector with four: what is loaded once serves several."""
    a0 = a1 = a2 = a3 = F(0)
    for j in range(len(x)):
        a0 += x[j] * w0[j]
        a1 += x[j] * w1[j]
        a2 += x[j] * w2[j]
        a3 += x[j] * w3[j]
    return a0, a1, a2, a3


@nb.njit(cache=True, nogil=True, fastmath=STEADY, error_model="numpy")
def _add(to: Any, f: Any, x0: Any, x1: Any, x2: Any, x3: Any) -> None:
    """Add four vectors, each times its factor."""
    f0, f1, f2, f3 = f
    for j in range(len(to)):
        to[j] = (((to[j] + f0 * x0[j]) + f1 * x1[j]) + f2 * x2[j]) + f3 * x3[j]


@nb.njit(cache=True, nogil=True)
def _make(vectors: Any, weight: Any, bias: Any, pairs: Pairs, out: Any) -> None:
    """Four rows of W_i at a time, the last one repeated: each is summed in the same way for every client."""
    rank, clients, places = out.shape[1], pairs.clients, pairs.places
    for item in range(len(pairs.starts) - 1):
        first = item * rank
        for at in range(pairs.starts[item], pairs.starts[item + 1]):
            x, row = vectors[clients[at]], out[places[at]]
            for r in range(0, rank, 4):
                r1, r2, r3 = min(r + 1, rank - 1), min(r + 2, rank - 1), min(r + 3, rank - 1)
                row[r], row[r1], row[r2], row[r3] = _dots(
                    x, weight[first + r], weight[first + r1], weight[first + r2], weight[first + r3]
                )
            for r in range(rank):
                row[r] += bias[first + r]


@nb.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _pull(
    vectors: Any, weight: Any, pairs: Pairs, slopes: Any, d_vectors: Any, d_weight: Any, d_bias: Any
) -> None:
    rank, clients, places = slopes.shape[1], pairs.clients, pairs.places
    for item in range(len(pairs.starts) - 1):
        start, end, first = pairs.starts[item], pairs.starts[item + 1], item * rank
        for r in range(rank):
            total = F(0)
            for j in range(d_weight.shape[1]):
                d_weight[first + r, j] = F(0)
            for at in range(start, end):
                total += slopes[places[at], r]
            d_bias[first + r] = total
        for at in range(start, end, 4):
            k1, k2, k3 = min(at + 1, end - 1), min(at + 2, end - 1), min(at + 3, end - 1)
            x0, x1, x2, x3 = (
                vectors[clients[at]], vectors[clients[k1]], vectors[clients[k2]], vectors[clients[k3]],
            )  # fmt: skip
            for r in range(rank):
                f = (
                    slopes[places[at], r],
                    slopes[places[k1], r] if at + 1 < end else F(0),
                    slopes[places[k2], r] if at + 2 < end else F(0),
                    slopes[places[k3], r] if at + 3 < end else F(0),
                )
                _add(d_weight[first + r], f, x0, x1, x2, x3)
        for at in range(start, end):
            y = slopes[places[at]]
            for r in range(0, rank, 4):
                r1, r2, r3 = min(r + 1, rank - 1), min(r + 2, rank - 1), min(r + 3, rank - 1)
                f = (
                    y[r],
                    y[r1] if r + 1 < rank else F(0),
                    y[r2] if r + 2 < rank else F(0),
                    y[r3] if r + 3 < rank else F(0),
                )
                w0, w1, w2, w3 = (
                    weight[first + r], weight[first + r1], weight[first + r2], weight[first + r3],
                )  # fmt: skip
                _add(d_vectors[clients[at]], f, w0, w1, w2, w3)
