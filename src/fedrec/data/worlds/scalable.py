"""`scalable`: a long-tailed world of any size, made row by row; users × items is never held.

Items stand on shelves, one shelf per taste, the popular ones in front. A user has three tastes. Mostly
they take something from a shelf of theirs, now and then from any; what they hold already they put back.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from fedrec.core.errors import DataError
from fedrec.core.rng import below, client_key, generator, stream, uniform
from fedrec.data.interactions import Interactions
from fedrec.data.worlds.activity import long_tailed_counts

TASTES_OF_A_USER = 3
LOYALTY = 0.9  # the chance that a draw is from one of the user's own shelves
PATIENCE = 16  # draws of items already held before the user takes any item at all
YEAR = 365 * 86_400


def scalable(users: int, items: int, interactions: int, seed: int = 0) -> Interactions:
    """Exactly ``interactions`` rows; every user has at least 3 and at most half of the items."""
    return Scalable(users, items, interactions, seed).some(0, users)


class Scalable:
    """The world before its rows are made: who has how many, and what stands where. Any users can be made alone."""

    def __init__(self, users: int, items: int, interactions: int, seed: int = 0) -> None:
        if users < 1 or not 3 * users <= interactions <= users * (items // 2):
            raise DataError(
                f"cannot make {interactions:,} interactions of {users:,} users with {items:,} items: "
                "ask for at least 3 a user and at most half of the items each"
            )
        rng = generator(seed, "scalable world")
        fewest = min(5, interactions // users)
        counts = long_tailed_counts(rng, users, interactions, fewest, items // 2, spread=1.0)
        self.indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        shelves = int(np.clip(items // 200, min(12, items // 4), 100))
        self.edges = np.arange(shelves + 1) * items // shelves
        self.order = rng.permutation(items).astype(np.int32)
        self.name = f"scalable-{users}-{items}-{interactions}" + (f"-{seed}" if seed else "")
        self.seed = seed

    def some(self, first: int, end: int) -> Interactions:
        """The rows of users from ``first`` up to ``end``."""
        indptr = self.indptr[first : end + 1] - self.indptr[first]
        key = np.uint64(stream(self.seed, "scalable world rows"))
        chosen, times = _draw(key, first, indptr, self.order, self.edges)
        return Interactions(
            name=self.name,
            indptr=indptr,
            items=chosen,
            times=times,
            user_ids=np.arange(first, end),
            item_ids=np.arange(len(self.order)),
            notes=("made data: long-tailed, clustered",),
        )


@nb.njit(cache=True, nogil=True)
def _draw(seed_key: Any, first: int, indptr: Any, order: Any, edges: Any) -> Any:
    """Rows of users from ``first`` on. ``order[edges[s]:edges[s + 1]]`` is shelf ``s``, popular items first."""
    chosen = np.empty(indptr[-1], dtype=np.int32)
    times = np.empty(indptr[-1], dtype=np.int64)
    holder = np.full(len(order), -1, dtype=np.int32)  # the last user who took the item: tells what is held
    shelves = len(edges) - 1
    own = np.empty(TASTES_OF_A_USER, dtype=np.int64)
    one = np.uint64(1)
    for user in range(len(indptr) - 1):
        key = client_key(seed_key, np.uint64(first + user))
        k = np.uint64(0)  # numbers used of the user's stream
        for t in range(TASTES_OF_A_USER):
            own[t] = np.int64(shelves * uniform(key, k) ** 2)  # squared: some tastes are more common
            k += one
        time = below(key, k, 3 * YEAR)
        k += one
        for row in range(indptr[user], indptr[user + 1]):
            tries = 0
            while True:
                if tries < PATIENCE:
                    if uniform(key, k) < LOYALTY:
                        shelf = own[below(key, k + one, TASTES_OF_A_USER)]
                    else:
                        shelf = below(key, k + one, shelves)
                    size = edges[shelf + 1] - edges[shelf]
                    x = uniform(key, k + one + one) ** 2
                    item = order[edges[shelf] + np.int64(size * x * x)]  # a long tail: density rank ** -3/4
                    k += one + one + one
                else:
                    item = order[below(key, k, len(order))]
                    k += one
                if holder[item] != user:
                    break
                tries += 1
            holder[item] = user
            chosen[row] = item
            times[row] = time
            time += below(key, k, 7_200)
            k += one
    return chosen, times
