"""`drifting`: half-way through, everybody takes to another taste. What was met last tells what comes next."""

from __future__ import annotations

import numpy as np

from fedrec.core.errors import DataError
from fedrec.core.rng import generator
from fedrec.data.interactions import Interactions

TASTES = 4


def drifting(users: int = 200, items: int = 160, met: int = 12, seed: int = 0) -> Interactions:
    """Items of four tastes; a user meets ``met`` of one of them, then as many of another, at random.

    As a bag, a history says nothing of which of its two tastes is the later one.
    """
    if users < TASTES or met < 3 or items < TASTES * (met + 1):
        raise DataError(
            f"{items} items are too few for {users} users who meet {met} of a taste, or those are: give "
            f"{TASTES} users and 3 items to meet at least, and {TASTES} × (met + 1) items"
        )
    rng = generator(seed, "drifting world")
    runs = []
    for user in range(users):
        first = user % TASTES
        second = (first + 1 + user // TASTES % (TASTES - 1)) % TASTES
        runs += [rng.permutation(np.arange(taste, items, TASTES))[:met] for taste in (first, second)]
    return Interactions(
        name="drifting",
        indptr=np.arange(users + 1, dtype=np.int64) * 2 * met,
        items=np.concatenate(runs).astype(np.int32),
        times=np.tile(np.arange(2 * met, dtype=np.int64), users),
        user_ids=np.arange(users),
        item_ids=np.arange(items),
        notes=("made data: half-way through, everybody takes to another taste",),
    )
