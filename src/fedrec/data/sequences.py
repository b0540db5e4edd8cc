"""Histories in order, with a negative beside every item: what a sequential yardstick passes over."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.core.ragged import Ids, Ragged
from fedrec.core.rng import client_key, generator, stream
from fedrec.data.clients import ClientData
from fedrec.data.negatives import NEGATIVES, SHUFFLE, draw, make_free


class Sequences(NamedTuple):
    """What one pass trains on: a sequence of every user, in an order drawn for the pass."""

    histories: Ragged  # oldest first
    negatives: NDArray[np.int32]  # one beside each item of the histories; -1 where nothing is left to draw
    order: Ids  # users who have something that came next
    key: int  # for what else is drawn in the pass


def draw_sequences(data: ClientData, seed: int, round: int) -> Sequences:
    """Each user once. Negatives are those items that a client of a federation could draw, one a positive."""
    negatives = np.full(len(data.train.items), -1, np.int32)
    key = stream(seed, NEGATIVES, round)
    _fill(np.uint64(key), data.keys, *data.train, *data.forbidden, data.n_items, negatives)
    users = np.flatnonzero(np.diff(data.train.indptr) > 1)
    order = generator(seed, SHUFFLE, round).permutation(users)
    return Sequences(data.train, negatives, order, stream(seed, "pass", round))


@nb.njit(cache=True, nogil=True)
def _fill(
    key: Any, keys: Any, indptr: Any, train: Any, not_ptr: Any, not_items: Any, n_items: int, negatives: Any
) -> None:
    free = make_free(n_items)
    for u in range(len(keys)):
        forbidden = not_items[not_ptr[u] : not_ptr[u + 1]]
        mine = negatives[indptr[u] : indptr[u + 1]]
        draw(client_key(key, keys[u]), forbidden, n_items, free, mine)
