"""A client's samples of a round as distinct rows: for methods that take them all at once, in no order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec.core.compiled import part
from fedrec.core.entropy import F
from fedrec.core.slots import Array
from fedrec.data.clients import Histories
from fedrec.data.negatives import fill_samples, make_free, sample_count

FAR_APART = (
    64  # numbers more than needed, so that two arrays never begin close together (core.entropy says why)
)


class Drawn(NamedTuple):
    """Scratch for the clients of a shard, one after another."""

    items: NDArray[np.int32]
    free: NDArray[np.int32]
    place: NDArray[np.int32]  # of an item among the client's rows
    met: Array  # samples of each row
    positive: Array  # those with label 1


@part()
def make_drawn(histories: Histories, users: Any) -> Drawn:
    most, indptr = np.int64(1), histories.train_ptr
    for u in users:
        most = max(most, (indptr[u + 1] - indptr[u]) * (1 + histories.per_positive))
    nowhere = np.full(histories.n_items, -1, np.int32)
    apart = most + FAR_APART
    free = make_free(histories.n_items)
    return Drawn(np.empty(most, np.int32), free, nowhere, np.empty(apart, F), np.empty(apart, F))


@part()
def draw_rows(histories: Histories, u: int, negatives: Any, drawn: Drawn) -> Any:
    """The items of a client's rows, ascending, and how many samples they are; counts them by row."""
    indptr, not_ptr = histories.train_ptr, histories.not_ptr
    positives = histories.train[indptr[u] : indptr[u + 1]]
    forbidden = histories.not_items[not_ptr[u] : not_ptr[u + 1]]
    n = sample_count(len(positives), len(forbidden), histories.n_items, histories.per_positive)
    items = drawn.items[:n]
    fill_samples(negatives, histories.keys[u], positives, forbidden, histories.n_items, drawn.free, items)
    touched = np.unique(items)
    for i in range(len(touched)):
        drawn.place[touched[i]] = i
        drawn.met[i] = drawn.positive[i] = F(0)
    for i in range(n):
        drawn.met[drawn.place[items[i]]] += F(1)
        drawn.positive[drawn.place[items[i]]] += F(1) if i < len(positives) else F(0)
    return touched, n
