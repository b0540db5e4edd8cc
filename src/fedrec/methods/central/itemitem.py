"""What the item-to-item models share: a user's score of an item is a sum over the user's training items."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse

from fedrec.core.errors import FedrecError
from fedrec.core.ragged import Ragged
from fedrec.data.clients import sorted_distinct
from fedrec.data.split import Split


def training_matrix(split: Split) -> Any:
    """Users × items, sparse: 1 where the user trained on the item."""
    return _matrix(split.trained, split.n_items)


def _matrix(met: Ragged, n_items: int) -> Any:
    ones = np.ones(len(met.items), np.float32)
    return csr_matrix((ones, met.items, met.indptr), shape=(len(met.indptr) - 1, n_items))


@dataclass(frozen=True, eq=False)
class ItemItem:
    """Scores X W: row i of W (items × items, dense or sparse) says what having met item i speaks for."""

    x: Any
    weights: Any

    def knowing(self, histories: Ragged) -> ItemItem:
        """The same for people who have met these items."""
        return ItemItem(_matrix(sorted_distinct(*histories), self.weights.shape[0]), self.weights)

    def like(self, item: int) -> NDArray[np.float32]:
        """What having met an item speaks for, over the catalogue."""
        row = self.weights[item]
        return np.asarray(row.toarray()[0] if issparse(row) else row, np.float32)

    def some(self, users: NDArray[np.int64], items: NDArray[np.int32]) -> NDArray[np.float32]:
        return np.take_along_axis(self.all(users), np.maximum(items, 0), axis=1)

    def all(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        scores = self.x[users] @ self.weights
        return scores.toarray() if issparse(scores) else scores


def available_memory() -> float:
    """Bytes that can still be had: free memory and what the system would give up for it."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return float(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return float("inf")  # not told here: let the allocation decide


def require_memory(method: str, needed: float, n_items: int, instead: str) -> None:
    """Refuse before the machine starts to swap, and say what to do instead."""
    available = available_memory()
    if needed > available:
        raise FedrecError(
            f"{method} needs {needed / 2**30:.1f} GB of memory for {n_items:,} items but "
            f"{available / 2**30:.1f} GB is available: {instead}"
        )
