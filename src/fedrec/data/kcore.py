"""The k-core: what is left when users and items with few rows go, and those who then have few, and so on."""

from __future__ import annotations

import numpy as np

from fedrec.core.errors import DataError
from fedrec.data.interactions import Interactions


def k_core(data: Interactions, core: int, minimum: int = 1) -> Interactions:
    """Only users and items with at least ``core`` rows each, counted among the rows that stay.

    ``minimum`` is the least number of rows per user where it is more than ``core``.
    """
    users = np.repeat(np.arange(data.n_users), data.counts)
    items, left = data.items, np.arange(len(data))
    while len(left):
        of_users = np.bincount(users, minlength=data.n_users) >= max(core, minimum)
        of_items = np.bincount(items, minlength=data.n_items) >= core
        keep = of_users[users] & of_items[items]
        if keep.all():
            break
        users, items, left = users[keep], items[keep], left[keep]
    if not len(left):
        raise DataError(f"nothing of {data.name} is left with core={core}: ask for a smaller core")
    rows = np.zeros(len(data), dtype=bool)
    rows[left] = True
    return data.only(rows)
