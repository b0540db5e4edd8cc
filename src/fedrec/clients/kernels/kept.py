"""Rows that clients keep between rounds (FedRAP's, PLGC's), as compiled code finds them in a row store."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.store import RowStore
from fedrec.core.compiled import part
from fedrec.core.prefetch import AHEAD, prefetch


class Kept(NamedTuple):
    """Where clients keep their rows of a table: the index and the chunks of a row store."""

    indptr: NDArray[np.int64]
    items: NDArray[np.int32]
    places: NDArray[np.int32]
    chunks: Any
    bits: int


def kept_in(store: RowStore) -> Kept:
    return Kept(*store.index, store.pool.chunks, store.pool.bits)


@part()
def lay_over(kept: Kept, user: int, place: Any, base: int, rows: Any) -> None:
    """Write a client's own rows over those of the touched items; ``place`` says where these are."""
    if user + 1 >= len(kept.indptr):
        return
    within, number, end = (1 << kept.bits) - 1, 0, kept.indptr[user + 1]
    chunk = kept.chunks[number]
    for at in range(kept.indptr[user], end):
        later = kept.places[min(at + AHEAD, end - 1)]
        if later >> kept.bits == number:
            prefetch(chunk, later & within)
        row = place[kept.items[at]] - base
        if row >= 0:
            spot = kept.places[at]
            if spot >> kept.bits != number:  # to ask the list for it costs more than the row
                number = spot >> kept.bits
                chunk = kept.chunks[number]
            spot &= within
            for j in range(chunk.shape[1]):
                rows[row, j] = chunk[spot, j]
