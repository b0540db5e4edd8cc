"""All users' samples of a round in one shuffled list: what a central yardstick passes over.

They are those that the clients of a federation would train on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.core.ragged import run_ends
from fedrec.core.rng import generator, stream
from fedrec.data.clients import ClientData
from fedrec.data.negatives import NEGATIVES, SHUFFLE, fill_samples, make_free


class Pass(NamedTuple):
    """Samples of many users, shuffled together."""

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    labels: NDArray[np.float32]


def draw_pass(data: ClientData, seed: int, round: int) -> Pass:
    """The negatives that the clients of a federation would draw in this round, in one shuffled list."""
    counts = data.samples(np.arange(len(data)))
    indptr = run_ends(counts)
    items, labels = np.empty(indptr[-1], np.int32), np.zeros(indptr[-1], np.float32)
    key = np.uint64(stream(seed, NEGATIVES, round))
    _fill(key, data.keys, indptr, *data.train, *data.forbidden, data.n_items, items, labels)
    order = generator(seed, SHUFFLE, round).permutation(len(items))
    users = np.repeat(np.arange(len(data), dtype=np.int32), counts)
    return Pass(users[order], items[order], labels[order])


@nb.njit(cache=True, nogil=True)
def _fill(
    key: Any, keys: Any, indptr: Any, train_ptr: Any, train: Any, not_ptr: Any, not_items: Any, n_items: int,
    items: Any, labels: Any,
) -> None:  # fmt: skip
    free = make_free(n_items)
    for u in range(len(keys)):
        positives = train[train_ptr[u] : train_ptr[u + 1]]
        forbidden = not_items[not_ptr[u] : not_ptr[u + 1]]
        mine = items[indptr[u] : indptr[u + 1]]
        fill_samples(key, keys[u], positives, forbidden, n_items, free, mine)
        labels[indptr[u] : indptr[u] + len(positives)] = 1
