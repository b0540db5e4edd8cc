"""`two_tastes`: even users like even items, odd users like odd items. Anyone can see the right answer."""

from __future__ import annotations

import numpy as np

from fedrec.core.errors import DataError
from fedrec.core.rng import generator
from fedrec.data.interactions import Interactions
from fedrec.data.worlds.world import Best, World


def two_tastes(users: int = 40, items: int = 40, seed: int = 0) -> Interactions:
    """Every user holds three quarters of the items of their taste, none of the other.

    The newest of them is what leave-one-out withholds for the test, the second newest for validation.
    """
    if users < 6 or items < 16:
        raise DataError(
            f"two tastes need at least 6 users and 16 items, not {users} and {items}: "
            "with fewer, what is withheld cannot be learned from others of the same taste"
        )
    lists: list[np.ndarray] = [np.empty(0, dtype=np.int32)] * users
    for taste in (0, 1):
        members = range(taste, users, 2)
        # The items of a taste stand in a ring; each member holds an arc of it. Arcs begin evenly spaced,
        # so that items are equally popular (popularity knows nothing) and withheld items differ.
        ring = generator(seed, "two tastes world", client=taste).permutation(np.arange(taste, items, 2))
        held = len(ring) * 3 // 4
        for place, user in enumerate(members):
            start = place * len(ring) // len(members)
            lists[user] = np.roll(ring, -start)[:held].astype(np.int32)
    counts = [len(of_user) for of_user in lists]
    return Interactions(
        name="two-tastes",
        indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        items=np.concatenate(lists),
        times=np.concatenate([np.arange(n, dtype=np.int64) for n in counts]),
        user_ids=np.arange(users),
        item_ids=np.arange(items),
        notes=("made data: even users like even items, odd users like odd items",),
    )


def two_tastes_world(users: int = 40, items: int = 40, seed: int = 0) -> World:
    """`two_tastes` together with its best ranking: 1 for an item of the user's taste, 0 for another."""

    def weights(of_users: np.ndarray) -> np.ndarray:
        return (of_users[:, None] % 2 == np.arange(items) % 2).astype(np.float64)

    return World(two_tastes(users, items, seed), Best(weights))
