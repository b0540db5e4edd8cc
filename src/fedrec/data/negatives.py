"""The one sampler: training negatives, shuffles and ranking candidates, for every engine.

Compiled, without the interpreter lock, from counter-based streams. A client's forbidden items are
marked in a scratch array of one bit per item (shared by the clients of a block, one after another),
which stays in the nearest cache: with a number per item drawing was most of what a large catalogue
cost. Where they are most of the catalogue the free items are listed instead, so that neither case
ever loops for long. Work and memory are in interactions, never in users × items.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from fedrec.core.compiled import part
from fedrec.core.rng import below, client_key, shuffle

NEGATIVES = "negatives"  # names of the random streams
SHUFFLE = "shuffle"
CANDIDATES = "candidates"


@part()
def list_free(forbidden: Any, n_items: int) -> Any:
    """All items that are not in the sorted, distinct list."""
    free = np.empty(n_items - len(forbidden), np.int32)
    at = 0
    f = 0
    for item in range(n_items):
        if f < len(forbidden) and forbidden[f] == item:
            f += 1
        else:
            free[at] = item
            at += 1
    return free


@nb.njit(cache=True, nogil=True)
def make_free(n_items: int) -> Any:
    """A bit per item, 1 where it may be drawn: all of them, before and after."""
    return np.full((n_items + 31) // 32, -1, np.int32)


@part()
def _is_free(free: Any, item: int) -> Any:
    return (free[item >> 5] >> (item & 31)) & 1 != 0


@part()
def _forbid(free: Any, item: int) -> None:
    free[item >> 5] &= ~(1 << (item & 31))


@part()
def _allow(free: Any, items: Any) -> None:
    """All those that share a number with these, which are all that are forbidden."""
    for item in items:
        free[item >> 5] = -1


@nb.njit(cache=True, nogil=True)
def draw(key: Any, forbidden: Any, n_items: int, free: Any, out: Any) -> bool:
    """Fill ``out`` with items drawn uniformly, with replacement, from those not forbidden.

    False, and ``out`` untouched, where every item is forbidden.
    """
    if len(forbidden) >= n_items:
        return False
    if 2 * len(forbidden) > n_items:
        others = list_free(forbidden, n_items)
        for i in range(len(out)):
            out[i] = others[below(key, np.uint64(i), len(others))]
        return True
    for item in forbidden:
        _forbid(free, item)
    k = 0
    for i in range(len(out)):
        item = below(key, np.uint64(k), n_items)
        while not _is_free(free, item):
            k += 1
            item = below(key, np.uint64(k), n_items)
        k += 1
        out[i] = item
    _allow(free, forbidden)
    return True


@part()
def draw_distinct(key: Any, forbidden: Any, n_items: int, free: Any, out: Any) -> int:
    """Like ``draw`` without replacement; returns how many there were (fewer where fewer exist)."""
    free_count = n_items - len(forbidden)
    if free_count < 2 * len(out) or 2 * len(forbidden) > n_items:
        others = list_free(forbidden, n_items)
        count = min(len(out), free_count)
        for i in range(count):  # the head of a Fisher-Yates shuffle
            j = i + below(key, np.uint64(i), free_count - i)
            others[i], others[j] = others[j], others[i]
            out[i] = others[i]
        return count
    for item in forbidden:
        _forbid(free, item)
    k = 0
    for i in range(len(out)):
        item = below(key, np.uint64(k), n_items)
        while not _is_free(free, item):
            k += 1
            item = below(key, np.uint64(k), n_items)
        k += 1
        _forbid(free, item)
        out[i] = item
    _allow(free, forbidden)
    _allow(free, out)
    return len(out)


@part()
def sample_count(positives: int, forbidden: int, n_items: int, per_positive: int) -> int:
    """How many training samples a client has: its positives alone where nothing is left to draw."""
    return positives * (1 + per_positive) if forbidden < n_items else positives


@part()
def fill_samples(
    stream: Any, client: Any, positives: Any, forbidden: Any, n_items: int, free: Any, out: Any
) -> None:
    """One client's training items of a round: its positives first, then the negatives.

    The label of ``out[i]`` is ``i < len(positives)``.
    """
    n = len(positives)
    for i in range(n):
        out[i] = positives[i]
    if len(out) > n:
        draw(client_key(stream, client), forbidden, n_items, free, out[n:])


@nb.njit(cache=True, nogil=True, inline="always")
def positive_of(i: int, positives: int, per_positive: int) -> int:
    """The positive that a training sample belongs to: itself, or the one that a negative was drawn with."""
    return i if i < positives else (i - positives) // per_positive


@part()
def fill_order(stream: Any, client: Any, epoch: int, out: Any) -> None:
    """The order in which a client visits its samples in one epoch."""
    for i in range(len(out)):
        out[i] = i
    shuffle(client_key(client_key(stream, client), np.uint64(epoch)), out)
