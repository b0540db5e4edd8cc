"""How old a client's positives are, and what each one weighs in its least squares."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.core.kernel import ByAge, LeastSquares
from fedrec.core.ragged import Ragged
from fedrec.core.slots import Array
from fedrec.data.clients import ClientData


class Weights(NamedTuple):
    """a and b of every positive, beside ``ClientData.trained``."""

    curvature: Array
    target: Array


def weights_of(form: LeastSquares, data: ClientData) -> tuple[Weights, Weights]:
    """What positives weigh in training and in ranking; the same object where that is the same."""
    if form.train is None and form.rank is None:
        both = _constant(form, data)
        return both, both
    ages = ages_of(data.train, data.trained, data.n_items)
    train = _constant(form, data) if form.train is None else _looked_up(form.train, ages)
    if form.rank is form.train:
        return train, train
    return train, _constant(form, data) if form.rank is None else _looked_up(form.rank, ages)


def _constant(form: LeastSquares, data: ClientData) -> Weights:
    alpha = np.float32(form.alpha)
    count = len(data.trained.items)
    return Weights(np.full(count, alpha), np.full(count, np.float32(1) + alpha))


def _looked_up(table: ByAge, ages: NDArray[np.int32]) -> Weights:
    at = np.minimum(ages, len(table.curvature) - 1)
    return Weights(table.curvature[at].astype(np.float32), table.target[at].astype(np.float32))


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
