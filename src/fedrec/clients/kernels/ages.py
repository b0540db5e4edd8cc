"""How old a client's positives are."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.core.ragged import Ragged


def ages_of(train: Ragged, trained: Ragged, n_items: int) -> NDArray[np.int32]:
    """For each item of a sorted, distinct run: how many other items its client has met since; 0 is the newest."""
    ages = np.empty(len(trained.items), np.int32)
    _fill_ages(*train, *trained, np.full(n_items, -1, np.int64), ages)
    return ages


@nb.njit(cache=True, nogil=True)
def _fill_ages(ptr: Any, items: Any, sorted_ptr: Any, ascending: Any, met_by: Any, ages: Any) -> None:
    for u in range(len(ptr) - 1):
        run = ascending[sorted_ptr[u] : sorted_ptr[u + 1]]
        age = 0
        for i in range(ptr[u + 1] - 1, ptr[u] - 1, -1):
            if met_by[items[i]] == u:  # met again later
                continue
            met_by[items[i]] = u
            ages[sorted_ptr[u] + np.searchsorted(run, items[i])] = age
            age += 1
