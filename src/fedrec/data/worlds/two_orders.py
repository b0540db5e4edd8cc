"""`two_orders`: things on a ring that people always meet going one way round. As bags, both ways look alike."""

from __future__ import annotations

import numpy as np

from fedrec.core.errors import DataError
from fedrec.core.ragged import run_ends
from fedrec.core.rng import generator
from fedrec.data.interactions import Interactions

STEPS = 4  # things in a session


def two_orders(users: int = 300, items: int = 96, sessions: int = 6, seed: int = 0) -> Interactions:
    """Sessions of four neighbours on the ring, each begun anywhere that its user has not been near.

    Of even users the last thing is missing: when two are held out, their histories end where a session begins.
    What comes next is the thing after it; the thing before it is met together with it just as often.
    """
    spots = items // (2 * STEPS)
    if users < 1 or sessions < 2 or spots < sessions:
        raise DataError(
            f"{items} items have no room for {sessions} sessions apart: give 2 sessions at least, and "
            f"{2 * STEPS} items for each"
        )
    rng = generator(seed, "two orders world")
    runs = []
    for user in range(users):
        starts = rng.permutation(spots)[:sessions] * 2 * STEPS + rng.integers(items)
        met = (starts[:, None] + np.arange(STEPS)).ravel() % items
        runs.append(met if user % 2 else met[:-1])
    return Interactions(
        name="two-orders",
        indptr=run_ends(np.array([len(met) for met in runs])),
        items=np.concatenate(runs).astype(np.int32),
        times=np.concatenate([np.arange(len(met)) for met in runs]).astype(np.int64),
        user_ids=np.arange(users),
        item_ids=np.arange(items),
        notes=("made data: only the order of what was met tells what comes next",),
    )
